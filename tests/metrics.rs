//! `/metrics` of the sidecar: what it counts, and that traffic makes no series.

use std::fmt::Write;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::support::{Client, Metrics, Redis, Sidecar, assert_invariants, eventually};

fn policies() -> Value {
    json!({
        "window": {"algorithm": "fixed_window", "rate": "2/1h", "overrides": [{"key": "vip", "unlimited": true}]},
        "trial": {"algorithm": "fixed_window", "rate": "1/1h", "shadow": true},
    })
}

fn check(policy: &str, key: &str, cost: u64) -> Value {
    json!({"policy": policy, "key": [key], "cost": cost})
}

async fn ask(sidecar: &Sidecar, requests: &Value) {
    ask_with(sidecar, requests, &json!([])).await;
}

async fn ask_with(sidecar: &Sidecar, requests: &Value, refunds: &Value) {
    let body = json!({"requests": requests, "refunds": refunds}).to_string();
    let answer = Client::new().post(sidecar.port(), "/v1/check", body).await;
    assert!(answer.is_allowed(), "{answer:?}");
}

fn assert_counts(metrics: &Metrics, expected: &[(&str, f64)]) {
    for (series, value) in expected {
        assert!((metrics.get(series) - value).abs() < 1e-9, "{series} is {}, not {value}", metrics.get(series));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_counted_where_it_belongs() {
    let redis = Redis::start().await;
    let mut sidecar = Sidecar::start(redis.port(), &policies()).await;
    let before = sidecar.metrics().await;
    assert_counts(
        &before,
        &[
            (r#"sluice_build_info{version="0.1.0"}"#, 1.0),
            (r#"sluice_decisions_total{policy="window",outcome="allowed"}"#, 0.0),
            (r#"sluice_requests_total{outcome="allowed"}"#, 0.0),
            ("sluice_store_up", 1.0),
            ("sluice_store_in_flight", 0.0),
            ("sluice_store_breaker_open", 0.0),
            ("sluice_tls_handshakes_failed_total", 0.0),
            ("sluice_spans_exported_total", 0.0),
            ("sluice_spans_dropped_total", 0.0),
            (r#"sluice_near_limit_total{policy="window"}"#, 0.0),
            (r#"sluice_cost_admitted_total{policy="window"}"#, 0.0),
            ("sluice_config_generation", 1.0),
            ("sluice_config_last_reload_successful", 1.0),
            ("sluice_config_restart_needed", 0.0),
            (r#"sluice_config_reloads_total{outcome="applied"}"#, 0.0),
        ],
    );

    ask(
        &sidecar,
        &json!([
            {"checks": [check("window", "a", 2), check("trial", "a", 1)]},
            // Denied by the first; the second would have been.
            {"checks": [check("window", "a", 1), check("trial", "a", 1)]},
            // Denied by the first alone; the second is not charged.
            {"checks": [check("window", "a", 1), check("trial", "c", 1)]},
            {"checks": [check("window", "c", 1)]},
            {"checks": [check("window", "vip", 1)]},
            {"checks": [check("window", "b", 0)]},
            {"checks": [check("nope", "a", 1)]},
            {"checks": "malformed"},
        ]),
    )
    .await;
    let client = Client::new();
    assert_eq!(client.post(sidecar.port(), "/v1/check/window/a", "").await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(client.get(sidecar.port(), "/nowhere", &[]).await.status, StatusCode::NOT_FOUND);
    assert_eq!(client.post(sidecar.port(), "/v1/check", "{").await.status, StatusCode::BAD_REQUEST);

    let metrics = sidecar.metrics().await;
    assert_counts(
        &metrics,
        &[
            (r#"sluice_decisions_total{policy="window",outcome="allowed"}"#, 2.0),
            (r#"sluice_decisions_total{policy="window",outcome="denied"}"#, 3.0),
            (r#"sluice_decisions_total{policy="window",outcome="unlimited"}"#, 1.0),
            (r#"sluice_decisions_total{policy="window",outcome="peeked"}"#, 1.0),
            (r#"sluice_decisions_total{policy="window",outcome="shadow_denied"}"#, 0.0),
            (r#"sluice_decisions_total{policy="window",outcome="degraded"}"#, 0.0),
            (r#"sluice_decisions_total{policy="window",outcome="undecided"}"#, 0.0),
            (r#"sluice_near_limit_total{policy="window"}"#, 1.0),
            (r#"sluice_near_limit_total{policy="trial"}"#, 1.0),
            (r#"sluice_cost_admitted_total{policy="window"}"#, 3.0),
            (r#"sluice_cost_admitted_total{policy="trial"}"#, 1.0),
            (r#"sluice_cost_refunded_total{policy="window"}"#, 0.0),
            (r#"sluice_decisions_total{policy="trial",outcome="allowed"}"#, 2.0),
            (r#"sluice_decisions_total{policy="trial",outcome="shadow_denied"}"#, 1.0),
            (r#"sluice_requests_total{outcome="allowed"}"#, 4.0),
            (r#"sluice_requests_total{outcome="denied"}"#, 3.0),
            (r#"sluice_requests_total{outcome="refused"}"#, 2.0),
            (r#"sluice_requests_total{outcome="undecided"}"#, 0.0),
            // Of the batch of eight, five had something to ask: eight checks. And the single one.
            ("sluice_batch_checks_count", 2.0),
            ("sluice_batch_checks_sum", 9.0),
            (r#"sluice_batch_checks_bucket{le="4"}"#, 1.0),
            ("sluice_store_latency_seconds_count", 2.0),
            (r#"sluice_http_responses_total{status="429"}"#, 1.0),
            (r#"sluice_http_responses_total{status="404"}"#, 1.0),
            (r#"sluice_http_responses_total{status="400"}"#, 1.0),
            (r#"sluice_http_responses_total{status="200"}"#, 1.0),
        ],
    );
    assert_eq!(metrics.names(), before.names(), "all series are there from the start");

    // It is told on the admin listener alone, and decisions are not made there.
    assert_eq!(client.get(sidecar.port(), "/metrics", &[]).await.status, StatusCode::NOT_FOUND);
    let there = client.post(sidecar.admin_port(), "/v1/check/window/a", "").await;
    assert_eq!(there.status, StatusCode::NOT_FOUND, "{there:?}");
    for path in ["/livez", "/readyz"] {
        assert!(client.get(sidecar.port(), path, &[]).await.is_allowed());
        assert!(client.get(sidecar.admin_port(), path, &[]).await.is_allowed());
    }
    sidecar.kill();
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refunds_are_counted() {
    let redis = Redis::start().await;
    let sidecar = Sidecar::start(redis.port(), &policies()).await;
    let client = Client::new();
    let charged = client.post(sidecar.port(), "/v1/check/window/a", "").await.json();
    let refund = |policy: &str, charge: &Value| json!({"policy": policy, "key": ["a"], "charge": charge});
    let refunds = [
        json!([refund("window", &charged["charge"]), refund("window", &json!(1)), refund("trial", &json!(1))]),
        json!([refund("window", &json!(1)), refund("nope", &json!(1))]),
    ];
    for (refunds, status) in refunds.iter().zip([StatusCode::OK, StatusCode::NOT_FOUND]) {
        let answer = client.post(sidecar.port(), "/v1/refund", json!({"refunds": refunds}).to_string()).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
    // What is left of a lease comes with a batch.
    ask_with(&sidecar, &json!([]), &json!([refund("window", &json!(1))])).await;
    assert_counts(
        &sidecar.metrics().await,
        &[
            (r#"sluice_refunds_total{outcome="refunded"}"#, 1.0),
            (r#"sluice_refunds_total{outcome="late"}"#, 3.0),
            (r#"sluice_refunds_total{outcome="refused"}"#, 2.0),
            (r#"sluice_refunds_total{outcome="undecided"}"#, 0.0),
            (r#"sluice_cost_admitted_total{policy="window"}"#, 1.0),
            (r#"sluice_cost_refunded_total{policy="window"}"#, 1.0),
        ],
    );
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn traffic_makes_no_series() {
    let redis = Redis::start().await;
    let sidecar = Sidecar::start(redis.port(), &policies()).await;
    let before = sidecar.metrics().await;
    let client = Client::new();
    let mut bodies = String::new();
    for number in 0..1000 {
        let policy = format!("{:016x}", rand::random::<u64>());
        let _ = write!(bodies, "{policy} ");
        let known = check("window", &policy, 1);
        ask(&sidecar, &json!([{"checks": [check(&policy, "k", 1)]}, {"checks": [known]}])).await;
        if number % 10 == 0 {
            client.post(sidecar.port(), &format!("/v1/check/{policy}/{policy}"), "").await;
            client.request("PROPFIND", sidecar.port(), &format!("/{policy}"), &[]).await;
        }
    }
    let after = sidecar.metrics().await;
    assert_eq!(after.names(), before.names(), "after policies {bodies}");
    assert_counts(
        &after,
        &[
            (r#"sluice_requests_total{outcome="refused"}"#, 1100.0),
            (r#"sluice_decisions_total{policy="window",outcome="allowed"}"#, 1000.0),
        ],
    );
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

/// What the store did not decide, and what nobody waited for any more.
#[tokio::test(flavor = "multi_thread")]
async fn failures_of_the_store_are_counted() {
    let redis = Redis::start().await;
    let mut sidecar = Sidecar::launch(redis.port(), &policies(), None);
    sidecar.until_ready().await;
    redis.pause();
    let client = Client::new();
    let answer = client.post(sidecar.port(), "/v1/check/window/a", "").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_counts(
        &sidecar.metrics().await,
        &[
            (r#"sluice_decisions_total{policy="window",outcome="undecided"}"#, 1.0),
            (r#"sluice_requests_total{outcome="undecided"}"#, 1.0),
            (r#"sluice_requests_total{outcome="abandoned"}"#, 0.0),
            (r#"sluice_http_responses_total{status="503"}"#, 1.0),
            ("sluice_store_latency_seconds_count", 1.0),
            (r#"sluice_store_latency_seconds_bucket{le="0.02"}"#, 0.0),
        ],
    );
    eventually("the store is seen to be down", async || {
        (sidecar.metrics().await.get("sluice_store_up") < 0.5).then_some(())
    })
    .await;
    redis.resume();
    sidecar.until_ready().await;
    assert_counts(
        &sidecar.metrics().await,
        &[("sluice_store_up", 1.0), ("sluice_store_in_flight", 0.0), ("sluice_store_breaker_open", 0.0)],
    );
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

/// What is decided without the store is no charge, and a server that refuses charges is not asked.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_decided_without_the_store_is_told_apart() {
    let redis = Redis::start().await;
    let mut sidecar = Sidecar::launch_for(redis.port(), &policies(), &json!({"on_store_error": "allow"}));
    sidecar.until_ready().await;
    let breaker = async |open: f64| {
        eventually("the breaker is seen", async || {
            let is = sidecar.metrics().await.get("sluice_store_breaker_open");
            ((is - open).abs() < 0.5).then_some(())
        })
        .await;
    };
    let _: () = redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(sidecar.take("window", "a").await.is_allowed());
    breaker(1.0).await;
    // A peek writes nothing, so that only a breaker keeps it from the store.
    assert!(sidecar.peek("window", "a").await.is_allowed());
    assert_counts(
        &sidecar.metrics().await,
        &[
            (r#"sluice_decisions_total{policy="window",outcome="degraded"}"#, 2.0),
            (r#"sluice_decisions_total{policy="window",outcome="allowed"}"#, 0.0),
            (r#"sluice_decisions_total{policy="window",outcome="peeked"}"#, 0.0),
            (r#"sluice_cost_admitted_total{policy="window"}"#, 0.0),
            (r#"sluice_near_limit_total{policy="window"}"#, 0.0),
        ],
    );
    let _: () = redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    breaker(0.0).await;
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_nobody_waits_for_is_in_flight_and_then_abandoned() {
    let redis = Redis::start().await;
    let sidecar = Sidecar::start(redis.port(), &policies()).await;
    redis.pause();
    let port = sidecar.port();
    let asking = tokio::spawn(async move { Client::without_pool().post(port, "/v1/check/window/a", "").await });
    eventually("it is in flight", async || (sidecar.metrics().await.get("sluice_store_in_flight") > 0.5).then_some(()))
        .await;
    asking.abort();
    eventually("it is abandoned", async || {
        let metrics = sidecar.metrics().await;
        let abandoned = metrics.get(r#"sluice_requests_total{outcome="abandoned"}"#);
        (abandoned > 0.5 && metrics.get("sluice_store_in_flight") < 0.5).then_some(())
    })
    .await;
    redis.resume();
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_listener_can_be_off() {
    let redis = Redis::start().await;
    let mut sidecar = Sidecar::launch_for(redis.port(), &policies(), &json!({"admin": "off"}));
    let (client, port) = (Client::new(), sidecar.port());
    sidecar.process.until_ready(async || client.is_ready(port, "/readyz").await).await;
    assert_eq!(listening(sidecar.process.pid().as_raw_pid()), [port]);
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

/// The ports that a process listens on, as Linux tells it in /proc.
fn listening(pid: i32) -> Vec<u16> {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let open: Vec<String> =
        links.filter_map(|link| Some(std::fs::read_link(link.ok()?.path()).ok()?.display().to_string())).collect();
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let sockets = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    // 0A is LISTEN.
    let own = sockets.filter(|fields| fields[3] == "0A" && open.contains(&format!("socket:[{}]", fields[9])));
    own.map(|fields| u16::from_str_radix(fields[1].rsplit_once(':').unwrap().1, 16).unwrap()).collect()
}
