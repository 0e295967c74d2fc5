//! The status, once and as a stream of events.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use futures_util::StreamExt;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::TokioExecutor;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Client, Redis, Sidecar, assert_invariants, eventually};

fn policies() -> Value {
    json!({"p": {"algorithm": "fixed_window", "rate": "2/1h"}})
}

/// A stream that is open.
struct Events {
    stream: BodyDataStream,
    text: String,
}

impl Events {
    /// Or the status of the refusal.
    async fn open(port: u16) -> Result<Self, u16> {
        let client = HttpClient::builder(TokioExecutor::new()).build_http::<Body>();
        let answer = client.get(format!("http://127.0.0.1:{port}/v1/events").parse().unwrap()).await.unwrap();
        if answer.status() != 200 {
            return Err(answer.status().as_u16());
        }
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        assert_eq!(answer.headers()["cache-control"], "no-store");
        Ok(Self { stream: Body::new(answer.into_body()).into_data_stream(), text: String::new() })
    }

    /// The next one, `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let lines: Vec<&str> = event.lines().collect();
                let [kind, data] = lines.as_slice() else { panic!("{event}") };
                assert_eq!(*kind, "event: status");
                let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
                self.text = rest.into();
                return Some(data);
            }
            let chunk = tokio::time::timeout(Duration::from_secs(20), self.stream.next()).await.expect("an event");
            self.text.push_str(std::str::from_utf8(&chunk?.unwrap()).unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_tells_how_the_sidecar_is() {
    let redis = Redis::start().await;
    let sidecar = Sidecar::start(redis.port(), &policies()).await;
    for expected in [200, 200, 429] {
        assert_eq!(sidecar.take("p", "k").await.status, expected);
    }
    sidecar.peek("p", "k").await;
    let status = Client::new().get(sidecar.admin_port(), "/v1/status", &[]).await.json();
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert!(status["now_ms"].as_u64().unwrap() > 1_700_000_000_000, "{status}");
    assert!(status["uptime_s"].is_u64());
    let config = &status["config"];
    assert_eq!((config["file"].as_str(), &config["generation"]), (Some("sluice.yaml"), &json!(1)));
    assert!(config["loaded_at_ms"].as_u64().unwrap() <= status["now_ms"].as_u64().unwrap());
    assert_eq!((&config["error"], &config["restart_needed"]), (&Value::Null, &json!([])));
    let store = &status["store"];
    assert_eq!(store["address"], format!("redis://127.0.0.1:{}/0", redis.port()));
    assert_eq!(store["state"], "up");
    assert_eq!((&store["error"], &store["breaker"], &store["in_flight"]), (&Value::Null, &json!("closed"), &json!(0)));
    let (bounds, counts) = (&status["latency"]["bounds_s"], &status["latency"]["counts"]);
    assert_eq!(bounds.as_array().unwrap().len() + 1, counts.as_array().unwrap().len());
    assert_eq!(counts.as_array().unwrap().iter().filter_map(Value::as_u64).sum::<u64>(), 4, "{counts}");
    assert_eq!((&status["requests"]["allowed"], &status["requests"]["denied"]), (&json!(3), &json!(1)));
    assert_eq!(status["requests"].as_object().unwrap().len(), 7);
    let policy = &status["policies"][0];
    assert_eq!((&policy["name"], &policy["limit_text"]), (&json!("p"), &json!("fixed_window 2/h")));
    let expected = json!({
        "allowed": 2, "denied": 1, "shadow_denied": 0, "unlimited": 0, "peeked": 1, "degraded": 0, "undecided": 0,
    });
    assert_eq!(policy["decisions"], expected);
    assert_eq!(
        (&policy["near_limit"], &policy["cost_admitted"], &policy["shadow"]),
        (&json!(1), &json!(2), &json!(false))
    );
    assert_eq!(status["top"]["hottest"], json!([{"policy": "p", "key": ["k"], "checks": 3, "error": 0}]));
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_until_the_sidecar_is_told_to_stop() {
    let redis = Redis::start().await;
    let mut sidecar = Sidecar::launch_for(redis.port(), &policies(), &json!({"store_timeout": "2s", "drain": "0s"}));
    sidecar.until_ready().await;
    let mut events = Events::open(sidecar.admin_port()).await.unwrap();
    let first = events.next().await.unwrap();
    assert_eq!(first["requests"]["allowed"], 0);
    sidecar.take("p", "k").await;
    let second = events.next().await.unwrap();
    assert!(second["now_ms"].as_u64() > first["now_ms"].as_u64(), "{second}");
    assert_eq!(second["requests"]["allowed"], 1);
    sidecar.process.signal(Signal::TERM);
    while events.next().await.is_some() {}
    // With the stream held open it would be given up after ten seconds, and say so.
    assert!(sidecar.process.ended().await.success());
    let log = sidecar.process.log();
    assert!(!log.contains("were not finished"), "{log}");
    assert_invariants(&redis, &mut [], &[log], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_look_at_once_and_who_goes_makes_room() {
    let redis = Redis::start().await;
    let sidecar = Sidecar::start(redis.port(), &policies()).await;
    let port = sidecar.admin_port();
    let mut open = Vec::new();
    for _ in 0..16 {
        let mut events = Events::open(port).await.unwrap();
        events.next().await.unwrap();
        open.push(events);
    }
    assert_eq!(Events::open(port).await.err(), Some(503));
    assert!(Client::new().get(port, "/v1/status", &[]).await.is_allowed());
    open.pop();
    eventually("there is room again", async || Events::open(port).await.ok()).await.next().await.unwrap();
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}
