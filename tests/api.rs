//! The sidecar by itself: its HTTP interface in front of a real Redis, for curl and for other gateways.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Answer, Client, Port, Redis, Sidecar, assert_invariants, eventually};

fn policies() -> Value {
    json!({
        "window": {"algorithm": "fixed_window", "rate": "3/1h"},
        "bucket": {"algorithm": "token_bucket", "rate": "2/s", "burst": 2, "overrides": [
            {"key": "vip-*", "unlimited": true},
            {"key": "mallory", "blocked": true},
            {"key": "acme", "rate": "5/1h", "burst": 7},
        ]},
        "tried": {"algorithm": "sliding_window", "rate": "1/1h", "shadow": true},
    })
}

struct Api {
    redis: Redis,
    sidecar: Sidecar,
    client: Client,
}

impl Api {
    async fn start() -> Self {
        let redis = Redis::start().await;
        let sidecar = Sidecar::start(redis.port(), &policies()).await;
        Self { redis, sidecar, client: Client::new() }
    }

    async fn take(&self, path: &str) -> Answer {
        self.client.post(self.sidecar.port(), &format!("/v1/check/{path}"), "").await
    }

    async fn peek(&self, path: &str) -> Answer {
        self.client.get(self.sidecar.port(), &format!("/v1/check/{path}"), &[]).await
    }

    async fn batch(&self, body: impl Into<Body>) -> Answer {
        self.client.post(self.sidecar.port(), "/v1/check", body).await
    }

    async fn end(self) {
        assert_invariants(&self.redis, &mut [], &[self.sidecar.process.log()], &[]).await;
    }
}

fn problem(answer: &Answer, status: StatusCode) -> String {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(answer.json()["status"], status.as_u16());
    answer.json()["detail"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_check_is_answered_as_a_limited_service_would() {
    let api = Api::start().await;
    for left in [2, 1, 0] {
        let answer = api.take("window/acme").await;
        assert!(answer.is_allowed());
        assert_eq!(answer.rate_limit(), ("window", left));
        assert_eq!(answer.header("x-ratelimit-limit"), Some("3, 3;w=3600;name=\"window\""));
        assert_eq!(answer.header("x-ratelimit-remaining"), Some(&*left.to_string()));
        assert_eq!(answer.json()["remaining"], left);
    }
    let denied = api.take("window/acme").await;
    assert_eq!(denied.status, 429);
    assert_eq!(denied.header("content-type"), Some("application/problem+json"));
    assert!((1..=3600).contains(&denied.retry_after()));
    assert_eq!(denied.json()["violated-policies"], json!(["window"]));
    // Looking is free, also where there is nothing to see.
    assert_eq!(api.peek("window/acme").await.rate_limit().1, 0);
    assert_eq!(api.peek("window/nobody").await.rate_limit().1, 3);
    assert_eq!(api.redis.keys(), ["sluice:{acme}:window:acme"]);
    // Parts are parts, however they are written.
    assert_eq!(api.take("window/a/b?cost=2").await.rate_limit().1, 1);
    assert_eq!(api.peek("window/a%2Fb").await.rate_limit().1, 3);
    assert_eq!(api.peek("window/%61/b").await.rate_limit().1, 1);
    // More than could ever fit: no waiting helps.
    let never = api.take("window/other?cost=4").await;
    assert_eq!((never.status, never.header("retry-after")), (StatusCode::TOO_MANY_REQUESTS, None));
    api.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_as_told_is_enough() {
    let api = Api::start().await;
    for key in ["a", "b"] {
        while api.take(&format!("bucket/{key}")).await.is_allowed() {}
        let wait_ms = api.take(&format!("bucket/{key}")).await.json()["retry_after_ms"].as_u64().unwrap();
        assert!((1..=500).contains(&wait_ms), "{wait_ms}");
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        assert!(api.take(&format!("bucket/{key}")).await.is_allowed());
    }
    api.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn overrides_and_shadows() {
    let api = Api::start().await;
    for _ in 0..5 {
        let vip = api.take("bucket/vip-1").await;
        assert!(vip.is_allowed());
        assert_eq!((&vip.json()["unlimited"], vip.header("ratelimit")), (&json!(true), None));
    }
    assert_eq!(api.redis.keys(), Vec::<String>::new(), "an unlimited key is counted");
    assert_eq!(api.take("bucket/mallory").await.status, 429);
    assert_eq!(api.take("bucket/acme").await.rate_limit(), ("bucket", 6));
    let shadow = |answer: &Answer| {
        assert!(answer.is_allowed());
        assert_eq!(answer.header("ratelimit"), None);
        answer.json()["allowed"].as_bool().unwrap()
    };
    assert!(shadow(&api.take("tried/x").await));
    assert!(!shadow(&api.take("tried/x").await), "a shadow counts, and says what it would do");
    // Nor does it hold back the charge of the others.
    let check = |policy: &str, key: &str| json!({"policy": policy, "key": [key]});
    let body = json!({"requests": [{"checks": [check("tried", "x"), check("window", "x"), check("bucket", "vip-2")]}]});
    let decision = &api.batch(body.to_string()).await.json()["decisions"][0];
    assert_eq!((&decision["allowed"], &decision["checks"][1]["remaining"]), (&json!(true), &json!(2)));
    api.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_did_not_happen_is_given_back() {
    let api = Api::start().await;
    let refund = async |body: Value| api.client.post(api.sidecar.port(), "/v1/refund", body.to_string()).await;
    let one = |policy: &str, cost: u64, charge: &Value| json!({"refunds": [{"policy": policy, "key": ["k"], "cost": cost, "charge": charge}]});
    let taken = api.take("window/k?cost=2").await.json();
    assert_eq!(taken["remaining"], 1);
    let answer = refund(one("window", 2, &taken["charge"])).await.json();
    assert_eq!((&answer["refunds"][0]["refunded"], &answer["refunds"][0]["remaining"]), (&json!(true), &json!(3)));
    assert_eq!(api.peek("window/k").await.rate_limit().1, 3);
    // Of another window, nothing is given back.
    api.take("window/k").await;
    let other = json!(taken["charge"].as_u64().unwrap() - 1);
    assert_eq!(refund(one("window", 1, &other)).await.json()["refunds"][0]["refunded"], false);
    assert_eq!(api.peek("window/k").await.rate_limit().1, 2);
    // Nothing is charged where there is no limit, or only a look; and only who asks is told.
    assert_eq!(api.take("bucket/vip-1").await.json().get("charge"), None);
    assert_eq!(api.peek("window/k").await.json().get("charge"), None);
    let check = json!({"checks": [{"policy": "window", "key": ["b"]}]});
    let mut asked = check.clone();
    asked["refundable"] = true.into();
    let decisions = &api.batch(json!({"requests": [check, asked]}).to_string()).await.json()["decisions"];
    assert_eq!(decisions[0]["checks"][0].get("charge"), None);
    assert!(decisions[1]["checks"][0]["charge"].is_u64());
    assert!(problem(&refund(one("nope", 1, &json!(1))).await, StatusCode::NOT_FOUND).contains("refunds[0].policy"));
    problem(&refund(one("window", 1, &json!(-1))).await, StatusCode::BAD_REQUEST);
    api.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_request_has_its_own_error_and_the_others_their_decision() {
    let api = Api::start().await;
    let good = json!({"checks": [{"policy": "window", "key": ["k"]}]});
    let long = "x".repeat(17_000);
    let bad = [
        (json!({"checks": [{"policy": "nope", "key": []}]}), "unknown policy", "checks[0].policy"),
        (json!({"checks": []}), "malformed request", "checks"),
        (json!({"checks": [{"policy": "window", "key": [long]}]}), "malformed request", "checks[0].key"),
        (json!({"checks": [{"policy": "window", "key": [], "cost": -1}]}), "malformed request", "checks[0].cost"),
        (json!({"checks": [{"policy": "window", "key": [], "cost": 1.5}]}), "malformed request", "checks[0].cost"),
        (
            json!({"checks": [{"policy": "window", "key": [], "cost": 2_000_000_000}]}),
            "malformed request",
            "checks[0].cost",
        ),
        (json!({"checks": vec![good["checks"][0].clone(); 65]}), "malformed request", "checks"),
    ];
    for (bad, title, field) in bad {
        let answer = api.batch(json!({"requests": [good, bad, good]}).to_string()).await;
        assert!(answer.is_allowed(), "{answer:?}");
        let decisions = &answer.json()["decisions"];
        assert_eq!(decisions[1]["error"]["title"], title);
        let detail = decisions[1]["error"]["detail"].as_str().unwrap();
        assert!(detail.starts_with(&format!("requests[1].{field}: ")), "{detail}");
        assert!(!detail.contains("xxxx"), "a key is quoted");
        assert_eq!(decisions[0]["checks"][0]["policy"], "window");
        assert_eq!(decisions[2]["checks"][0]["policy"], "window");
    }
    assert_eq!(api.peek("window/k").await.rate_limit().1, 0);
    api.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_or_no_batch_is_refused_by_name() {
    let api = Api::start().await;
    let request = json!({"checks": [{"policy": "window", "key": ["k"]}]});
    let large = api.batch(json!({"requests": vec![request.clone(); 513]}).to_string()).await;
    assert!(problem(&large, StatusCode::PAYLOAD_TOO_LARGE).contains("limits.batch_checks"));
    let large = api.batch(vec![b' '; (1 << 20) + 1]).await;
    assert!(problem(&large, StatusCode::PAYLOAD_TOO_LARGE).contains("limits.body_bytes"));
    for body in ["", "x", "[]", "{\"requests\":7}", "{\"requests\":[],\"more\":1}"] {
        problem(&api.batch(body).await, StatusCode::BAD_REQUEST);
    }
    problem(&api.batch(vec![0xff, 0xfe]).await, StatusCode::BAD_REQUEST);
    problem(&api.take("window/a?cost=-1").await, StatusCode::BAD_REQUEST);
    problem(&api.take("window/%FF").await, StatusCode::BAD_REQUEST);
    assert!(problem(&api.take("nope/a").await, StatusCode::NOT_FOUND).contains("\"nope\""));
    problem(&api.client.get(api.sidecar.port(), "/v2/check", &[]).await, StatusCode::NOT_FOUND);
    problem(&api.client.get(api.sidecar.port(), "/v1/check", &[]).await, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(api.redis.keys(), Vec::<String>::new());
    api.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_it_says_so_and_goes_on_when_redis_comes() {
    let port = Port::free();
    let mut sidecar = Sidecar::launch(port.number(), &policies(), None);
    sidecar.until_alive().await;
    let client = Client::new();
    let path = "/v1/check/window/a";
    assert!(!problem(&client.post(sidecar.port(), path, "").await, StatusCode::SERVICE_UNAVAILABLE).is_empty());
    let redis = Redis::start_on(port).await;
    let answer = eventually("it decides again", async || {
        Some(client.post(sidecar.port(), path, "").await).filter(Answer::is_allowed)
    })
    .await;
    assert_eq!(answer.rate_limit(), ("window", 2));
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_finishes_what_is_in_flight() {
    let Api { redis, mut sidecar, client } = Api::start().await;
    redis.pause();
    let (port, clone) = (sidecar.port(), client.clone());
    let in_flight = tokio::spawn(async move { clone.post(port, "/v1/check/window/a", "").await });
    // It is in flight once Redis has it unread: nothing else shows it from outside.
    eventually("the question is with Redis", async || unread_bytes(redis.port()).filter(|bytes| *bytes > 150)).await;
    sidecar.process.signal(Signal::INT);
    eventually("nobody new is let in", async || {
        let request = Request::get(format!("http://127.0.0.1:{port}/livez")).body(Body::empty()).unwrap();
        Client::new().send(request).await.is_err().then_some(())
    })
    .await;
    assert!(!in_flight.is_finished());
    redis.resume();
    let answer = in_flight.await.unwrap();
    assert!(answer.is_allowed(), "{answer:?}");
    assert!(sidecar.process.ended().await.success());
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

/// The most bytes that any connection to this port holds unread, as Linux tells it in /proc/net/tcp.
fn unread_bytes(port: u16) -> Option<u64> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let local = format!(":{port:04X}");
    let unread = table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (address, queues) = (fields.next()?, fields.nth(2)?);
        let (_, received) = queues.split_once(':')?;
        address.ends_with(&local).then(|| u64::from_str_radix(received, 16).unwrap())
    });
    unread.max()
}

/// Whoever never sends the rest of a body is told so, and holds up nobody meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let api = Api::start().await;
    let mut slow = TcpStream::connect(("127.0.0.1", api.sidecar.port())).await.unwrap();
    slow.write_all(b"POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{").await.unwrap();
    assert!(api.take("window/a").await.is_allowed());
    let mut answer = Vec::new();
    tokio::time::timeout(Duration::from_secs(20), slow.read_to_end(&mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("\"status\":408"), "{answer}");
    api.end().await;
}
