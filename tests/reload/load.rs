//! A hundred reloads while a gateway asks: nothing is lost, and nothing is counted twice or forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use axum::http::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{config, put, with};
use crate::support::{Client, Stack, eventually, plugin_config};

const RELOADS: u64 = 100;
const CLIENTS: usize = 4;

/// One that stays the same, one that changes each time, and one that is there every other time.
fn policies(reload: u64) -> Value {
    let mut policies = json!({
        "same": {"algorithm": "fixed_window", "rate": "300/1h"},
        "other": {"algorithm": "token_bucket", "rate": format!("{}/s", 1_000_000 + reload)},
    });
    if reload.is_multiple_of(2) {
        policies["guest"] = json!({"algorithm": "fixed_window", "rate": "1/1h"});
    }
    policies
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_reloads_under_load() {
    let mut stack = Stack::start_with(1, 1, &policies(0), |options| {
        options.plugin = plugin_config(&json!([
            {"match": {"path": {"exact": "/free"}}, "checks": [{"policy": "other", "key": [{"literal": "k"}]}]},
            {"match": {"path": {"exact": "/"}}, "checks": [
                {"policy": "same", "key": [{"literal": "k"}]},
                {"policy": "other", "key": [{"literal": "k"}]},
            ]},
        ]));
        // Each denial is the sidecar's own.
        options.plugin["denial_cache"] = json!({"max_age": "0"});
    })
    .await;
    let (envoy, sidecar) = (stack.envoy(), stack.sidecar());
    let (stop, admitted, denied) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0), AtomicU64::new(0));
    let counts = Arc::new((admitted, denied));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let (stop, counts, port) = (Arc::clone(&stop), Arc::clone(&counts), envoy.port());
        // Half of them are never denied: a batch has both.
        let path = if number % 2 == 0 { "/" } else { "/free" };
        clients.spawn(async move {
            let client = Client::new();
            while !stop.load(Ordering::Relaxed) {
                let answer = client.get(port, path, &[]).await;
                match (answer.status, path) {
                    (StatusCode::OK, "/") => counts.0.fetch_add(1, Ordering::Relaxed),
                    (StatusCode::TOO_MANY_REQUESTS, "/") => counts.1.fetch_add(1, Ordering::Relaxed),
                    (StatusCode::OK, _) => 0,
                    _ => panic!("{path}: {answer:?}"),
                };
            }
        });
    }
    for reload in 1..=RELOADS {
        put(sidecar, &with(sidecar, &policies(reload)).to_string());
        sidecar.process.signal(Signal::HUP);
        eventually("it is in force", async || (config(sidecar).await["generation"] == reload + 1).then_some(())).await;
    }
    eventually("the limit is reached", async || (counts.1.load(Ordering::Relaxed) > 0).then_some(())).await;
    stop.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    let (admitted, denied) = (counts.0.load(Ordering::Relaxed), counts.1.load(Ordering::Relaxed));
    println!("{admitted} admitted, {denied} denied");
    assert_eq!(admitted, 300);
    let metrics = sidecar.metrics().await;
    for (series, expected) in [
        (r#"sluice_requests_total{outcome="undecided"}"#, 0),
        (r#"sluice_requests_total{outcome="refused"}"#, 0),
        (r#"sluice_requests_total{outcome="abandoned"}"#, 0),
        (r#"sluice_decisions_total{policy="same",outcome="allowed"}"#, admitted),
        (r#"sluice_decisions_total{policy="same",outcome="denied"}"#, denied),
        (r#"sluice_cost_admitted_total{policy="same"}"#, admitted),
        (r#"sluice_near_limit_total{policy="same"}"#, admitted / 5),
        (r#"sluice_config_reloads_total{outcome="applied"}"#, RELOADS),
        (r#"sluice_config_reloads_total{outcome="failed"}"#, 0),
    ] {
        #[allow(clippy::cast_precision_loss, reason = "there are not so many")]
        let expected = expected as f64;
        assert!((metrics.get(series) - expected).abs() < 0.5, "{series} is {}, not {expected}", metrics.get(series));
    }
    for failed in ["failed_open", "failed_closed", "callouts_failed"] {
        assert_eq!(envoy.metric(failed).await, 0, "{failed}");
    }
    stack.assert_invariants(&[]).await;
}
