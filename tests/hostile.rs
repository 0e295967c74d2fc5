//! Requests nobody should send: odd bytes, huge, empty and repeated headers, and clients that hang up.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::support::{Client, Stack, eventually, plugin_config};

/// The limit of each key, high enough that no test here reaches it: what is left tells who shares a key.
const LIMIT: u64 = 100;
const SECRET: &str = "swordfish-7f3a";

async fn start() -> Stack {
    let policies = json!({"per-tenant": {"algorithm": "fixed_window", "rate": format!("{LIMIT}/1h")}});
    let rules = json!([{"checks": [{"policy": "per-tenant", "key": [{"header": "x-tenant-id"}]}]}]);
    Stack::start_with(1, 1, &policies, |options| {
        options.plugin = plugin_config(&rules);
        options.workers = 2;
        options.max_request_headers_kb = 96;
    })
    .await
}

/// Asks with these headers and returns what is left for their key.
async fn left(stack: &Stack, headers: &[(&str, &[u8])]) -> u64 {
    let answer = stack.envoy().get_bytes("/", headers).await;
    assert!(answer.is_allowed(), "{answer:?}");
    answer.rate_limit().1
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_values_are_keys_like_any_other() {
    let mut stack = start().await;
    let long = vec![b'a'; 60 << 10];
    let almost_as_long = vec![b'a'; (60 << 10) - 1];
    let values: [&[u8]; 9] = [
        b"\xc0\xa7",
        b"\xa1\xb1",
        // What the first two would be if they were escaped, or replaced, without care.
        b"%C0%A7",
        "\u{fffd}\u{fffd}".as_bytes(),
        b"a:{b}%missing",
        b"%missing",
        b"sluice:\"\\\t'",
        &long,
        &almost_as_long,
    ];
    for value in values {
        // Each is its own key, and the same one the next time.
        assert_eq!(left(&stack, &[("x-tenant-id", value)]).await, LIMIT - 1, "{}", value.escape_ascii());
        assert_eq!(left(&stack, &[("x-tenant-id", value)]).await, LIMIT - 2, "{}", value.escape_ascii());
    }
    assert_eq!(stack.metric("failed_closed").await, 0);
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_value_and_more_than_one_share_a_bucket_of_their_own() {
    let mut stack = start().await;
    let odd: [&[(&str, &[u8])]; 4] = [
        &[],
        &[("x-tenant-id", b"")],
        &[("x-tenant-id", b"acme"), ("x-tenant-id", b"other")],
        &[("x-tenant-id", b"acme"), ("x-tenant-id", b"acme")],
    ];
    for (asked, headers) in (1..).zip(odd) {
        assert_eq!(left(&stack, headers).await, LIMIT - asked, "{headers:?}");
    }
    // Which is nobody else's, whatever they call themselves.
    for value in ["acme", "acme,other", "acme, other", "%missing", "missing"] {
        assert_eq!(left(&stack, &[("x-tenant-id", value.as_bytes())]).await, LIMIT - 1, "{value}");
    }
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_are_no_part_of_a_key_do_not_matter() {
    let mut stack = start().await;
    let long = vec![b'\xff'; 60 << 10];
    let unrelated: [&[(&str, &[u8])]; 6] = [
        &[("x-unrelated", b"\xc0\xa7")],
        &[("x-unrelated", b"\xa1\xb1")],
        &[("x-unrelated", &long)],
        &[("x-unrelated", b"")],
        &[("x-unrelated", b"a"), ("x-unrelated", b"\xff")],
        &[("authorization", SECRET.as_bytes()), ("content-type", b"application/\xff"), ("user-agent", b"\xc0\xa7")],
    ];
    for (asked, headers) in (1..).zip(unrelated) {
        let headers = [headers, &[("x-tenant-id", b"acme")]].concat();
        assert_eq!(left(&stack, &headers).await, LIMIT - asked);
    }
    stack.assert_invariants(&[SECRET]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_a_client_that_hung_up() {
    const REQUESTS: usize = 2000;
    let seed = std::env::var("SLUICE_TEST_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("to repeat this: SLUICE_TEST_SEED={seed}");
    let mut stack = start().await;
    let port = stack.envoy().port();

    let mut random = StdRng::seed_from_u64(seed);
    let mut clients = JoinSet::new();
    for _ in 0..REQUESTS {
        if clients.len() == 50 {
            clients.join_next().await.unwrap().unwrap();
        }
        // Often before there can be an answer, often after it, on slow machines and fast ones.
        let patience = Duration::from_micros(random.random_range(0_u64..250).pow(2));
        // Some don't even get the whole request out.
        let fraction = if random.random_bool(0.1) { random.random_range(0.0..1.0) } else { 1.0 };
        let reset = random.random_bool(0.5);
        clients.spawn(hang_up(port, patience, fraction, reset));
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }

    let envoy = stack.envoy();
    eventually("Envoy noticed that they are gone", async || {
        (envoy.stat("http.ingress.downstream_rq_active").await == 0).then_some(())
    })
    .await;
    let asked = envoy.metric("checks").await;
    let answered = envoy.metric("allowed").await + envoy.metric("denied").await;
    println!("of {REQUESTS} requests {asked} were asked about and {answered} were still there for the answer");
    assert!(asked > answered && answered > 0, "all hung up before or after the verdict: the test shows nothing");
    assert_eq!(envoy.metric("failed_closed").await, 0);

    for asked in 1..=20 {
        assert_eq!(left(&stack, &[("x-tenant-id", b"afterwards")]).await, LIMIT - asked);
    }
    stack.assert_invariants(&[]).await;
}

/// Sends a part of a request and closes the connection after a while, with a reset or without.
async fn hang_up(port: u16, patience: Duration, fraction: f64, reset: bool) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    if reset {
        stream.set_zero_linger().unwrap();
    }
    let request = format!("GET / HTTP/1.1\r\nhost: x\r\nx-tenant-id: {}\r\n\r\n", patience.as_micros() % 100);
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let length = (request.len() as f64 * fraction) as usize;
    stream.write_all(&request.as_bytes()[..length]).await.unwrap();
    let mut answer = [0; 1000];
    // Neither an answer nor its absence is of interest.
    let _ = tokio::time::timeout(patience, stream.read(&mut answer)).await;
}

/// The same while the answers never come: what is pending is forgotten with its client, and by the deadline.
#[tokio::test(flavor = "multi_thread")]
async fn pending_requests_are_forgotten_with_their_clients() {
    let mut stack = start().await;
    stack.sidecar().pause();
    let mut streams = Vec::new();
    for tenant in 0..100 {
        let mut stream = TcpStream::connect(("127.0.0.1", stack.envoy().port())).await.unwrap();
        let request = format!("GET / HTTP/1.1\r\nhost: x\r\nx-tenant-id: {tenant}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        streams.push(stream);
    }
    let pending = async |count: u64| {
        let what = format!("{count} requests are pending");
        eventually(&what, async || (stack.metric("pending").await == count).then_some(())).await;
    };
    pending(100).await;
    streams.truncate(40);
    pending(0).await;
    stack.sidecar().resume();
    eventually("decisions are made again", async || {
        Client::new().get(stack.envoy().port(), "/", &[]).await.is_allowed().then_some(())
    })
    .await;
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_is_not_understood_keeps_envoy_from_starting() {
    let rules = json!([{"match": {"path": {"prefix": "/"}}, "checks": [{"policy": "p", "key": [{"haeder": "x"}]}]}]);
    let log = crate::support::Envoy::refuses(&plugin_config(&rules)).await;
    let lines: Vec<_> = log.lines().filter(|line| line.contains("invalid plugin configuration")).collect();
    assert!(!lines.is_empty(), "{log}");
    assert!(lines[0].contains("rules[0].checks[0].key[0]") && lines[0].contains("haeder"), "{}", lines[0]);
    let log = crate::support::Envoy::refuses(&Value::Null).await;
    assert!(log.contains("invalid plugin configuration"), "{log}");
}
