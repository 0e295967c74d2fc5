//! The least that an exact decision can take: one round trip to Redis that runs the script, with nothing around it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use sluice::policy::{Algorithm, Limit, Rate};
use sluice::store::script;

use super::figures::median;
use super::scripts::{decide, load_script};
use super::support::Redis;

/// The median of the round trips of one client that asks again as soon as it has its answer, in microseconds.
pub fn evalsha_p50_us(redis: &Redis, time: Duration) -> Result<f64, String> {
    let sha1 = load_script(redis, script::DECIDE);
    let rate = Rate { count: 200_000, period_us: 1_000_000 };
    let limit = Limit { algorithm: Algorithm::TokenBucket { burst: rate.count }, rate, shadow: false };
    let question = decide(&sha1, limit, ["key-0000000".to_owned()]).get_packed_command();
    measure(redis.port(), &question, time).map_err(|error| format!("a bare EVALSHA: {error}"))
}

fn measure(port: u16, question: &[u8], time: Duration) -> Result<f64, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(text)?;
    stream.set_nodelay(true).map_err(text)?;
    let (start, mut times, mut answer) = (Instant::now(), Vec::new(), [0; 1024]);
    while start.elapsed() < time {
        let asked = Instant::now();
        stream.write_all(question).map_err(text)?;
        // Five packed integers come in one piece, and the first says whether it is allowed.
        let length = stream.read(&mut answer).map_err(text)?;
        times.push(asked.elapsed().as_secs_f64() * 1e6);
        let answer = answer.get(..length).unwrap_or_default();
        if !answer.starts_with(b"$40\r\n\x01") || !answer.ends_with(b"\r\n") {
            return Err(format!("not allowed, or not in one piece: {}", answer.escape_ascii()));
        }
    }
    // The first few find nothing in any cache.
    Ok(median(times.into_iter().skip(100)))
}
