//! The reason for all this: however many Envoys, workers and sidecars, exactly the limit is admitted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{Client, Stack, plugin_config};

const LIMIT: usize = 1000;
const REQUESTS: usize = 4000;
const CONCURRENCY: usize = 100;

/// Two Envoys with two workers each and two sidecars, all at once at one key. Every `flush_every` requests Redis
/// forgets its scripts.
async fn exactly_the_limit_is_admitted(algorithm: &str, flush_every: Option<usize>) {
    // A day: no window ends and no token comes back while the test runs.
    let policies = json!({"global": {"algorithm": algorithm, "rate": format!("{LIMIT}/1d")}});
    let rules = json!([{"checks": [{"policy": "global", "key": [{"literal": "all"}]}]}]);
    let mut stack = Stack::start_with(2, 2, &policies, |options| {
        options.workers = 2;
        options.plugin = plugin_config(&rules);
    })
    .await;

    let ports: Vec<_> = stack.envoys.iter().map(crate::support::Envoy::port).collect();
    let (client, next) = (Client::new(), Arc::new(AtomicUsize::new(0)));
    let redis = Arc::new(std::sync::Mutex::new(stack.redis.connect().unwrap()));
    let mut workers = JoinSet::new();
    for _ in 0..CONCURRENCY {
        let (client, ports, next, redis) = (client.clone(), ports.clone(), Arc::clone(&next), Arc::clone(&redis));
        workers.spawn(async move {
            let mut admitted = 0;
            loop {
                let request = next.fetch_add(1, Ordering::Relaxed);
                if request >= REQUESTS {
                    return admitted;
                }
                if flush_every.is_some_and(|every| request % every == every / 2) {
                    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut *redis.lock().unwrap()).unwrap();
                }
                let answer = client.get(ports[request % ports.len()], "/", &[]).await;
                match answer.status.as_u16() {
                    200 => admitted += 1,
                    429 => {}
                    _ => panic!("{answer:?}"),
                }
            }
        });
    }
    let mut admitted = 0;
    while let Some(worker) = workers.join_next().await {
        admitted += worker.unwrap();
    }

    assert_eq!(admitted, LIMIT);
    stack.counted("denied", (REQUESTS - LIMIT) as u64).await;
    assert_eq!(stack.metric("allowed").await, LIMIT as u64);
    assert_eq!(stack.metric("failed_closed").await + stack.metric("failed_open").await, 0);
    for sidecar in &stack.sidecars {
        assert_eq!(sidecar.remaining("global", "all").await, 0);
    }
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fixed_window() {
    exactly_the_limit_is_admitted("fixed_window", None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sliding_window() {
    exactly_the_limit_is_admitted("sliding_window", None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_bucket() {
    exactly_the_limit_is_admitted("token_bucket", None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_redis_forgets_its_scripts() {
    exactly_the_limit_is_admitted("fixed_window", Some(200)).await;
}
