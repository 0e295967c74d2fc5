//! One callout carries many requests, and each of them gets its own verdict.

use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{Client, Stack, plugin_config};

const CONCURRENCY: usize = 64;
const ROUNDS: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_many_requests_with_a_verdict_each() {
    let blocked = json!([{"key": "blocked-*", "blocked": true}]);
    let policies = json!({
        "one": {"algorithm": "fixed_window", "rate": "1/1h"},
        "two": {"algorithm": "token_bucket", "rate": "2/1h", "overrides": blocked},
    });
    let rules = json!([
        {"match": {"path": {"exact": "/one"}}, "checks": [{"policy": "one", "key": [{"header": "x-tenant-id"}]}]},
        {"match": {"path": {"exact": "/two"}}, "checks": [{"policy": "two", "key": [{"header": "x-tenant-id"}]}]},
    ]);
    let mut stack = Stack::start_with(1, 1, &policies, |options| options.plugin = plugin_config(&rules)).await;

    let (client, port) = (Client::new(), stack.envoy().port());
    let mut users = JoinSet::new();
    for user in 0..CONCURRENCY {
        let client = client.clone();
        users.spawn(async move {
            // Out of step with each other, so that a batch holds all kinds.
            for round in user..user + ROUNDS {
                let tenant = format!("user-{user}-{round}");
                let (path, expected, name): (_, &[_], _) = match round % 3 {
                    0 => ("/one", &[Some(0), None], tenant),
                    1 => ("/two", &[Some(1), Some(0), None], tenant),
                    _ => ("/two", &[None], format!("blocked-{tenant}")),
                };
                for &left in expected {
                    let answer = client.get(port, path, &[("x-tenant-id", &name)]).await;
                    let policy = &path[1..];
                    assert_eq!(answer.status, if left.is_some() { 200 } else { 429 }, "{name}: {answer:?}");
                    assert_eq!(answer.rate_limit(), (policy, left.unwrap_or(0)), "{name}: {answer:?}");
                }
            }
            ROUNDS
        });
    }
    while let Some(user) = users.join_next().await {
        user.unwrap();
    }

    let (requests, callouts) = (stack.metric("checks").await, stack.metric("callouts").await);
    println!("{requests} requests in {callouts} callouts");
    assert_eq!(requests, stack.metric("allowed").await + stack.metric("denied").await);
    assert!(callouts * 2 < requests, "{requests} requests took {callouts} callouts");
    // Envoy's count, which is not the plugin's word.
    assert_eq!(stack.envoy().stat("cluster.sluice.internal.upstream_rq_200").await, callouts);
    assert_eq!(stack.metric("callouts_failed").await, 0);
    stack.assert_invariants(&[]).await;
}
