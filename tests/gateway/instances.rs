//! Two instances of the plugin in one chain and one VM: each decides each request once, by its own configuration.

use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{Client, Stack, Upstream, plugin_config};

const USERS: usize = 16;
const ROUNDS: usize = 30;

#[tokio::test(flavor = "multi_thread")]
async fn each_counts_each_request_once_and_gets_its_own_answers() {
    let upstream = Upstream::start().await;
    let policies = json!({
        "everybody": {"algorithm": "fixed_window", "rate": "100000/1h"},
        "per-user": {"algorithm": "fixed_window", "rate": "20/1h"},
    });
    let mut stack = Stack::start_with(1, 1, &policies, |options| {
        options.workers = 2;
        options.upstream = Some(upstream.port());
        options.plugin = plugin_config(&json!([{"checks": [{"policy": "everybody", "key": [{"literal": "all"}]}]}]));
        options.plugin["forward_headers"] = true.into();
        options.more_plugins =
            vec![plugin_config(&json!([{"checks": [{"policy": "per-user", "key": [{"header": "x-user"}]}]}]))];
    })
    .await;
    let (client, port) = (Client::new(), stack.envoy().port());
    let mut users = JoinSet::new();
    for user in 0..USERS {
        let client = client.clone();
        users.spawn(async move {
            let name = format!("user-{user}");
            for round in 0..ROUNDS {
                let answer = client.get(port, "/", &[("x-user", &name), ("x-sluice-policy", "spoofed")]).await;
                let told: Vec<_> = answer.headers.get_all("ratelimit").iter().map(|v| v.to_str().unwrap()).collect();
                let has = |beginning: &str| told.iter().any(|field| field.starts_with(beginning));
                if round < 20 {
                    assert!(answer.is_allowed(), "{answer:?}");
                    // The instances' own words, beside each other.
                    assert_eq!(told.len(), 2, "{answer:?}");
                    assert!(has("\"everybody\";") && has(&format!("\"per-user\";r={};", 19 - round)), "{answer:?}");
                } else {
                    assert_eq!(answer.status, 429, "{answer:?}");
                    assert_eq!(answer.json()["violated-policies"], json!(["per-user"]), "{answer:?}");
                    assert!(has("\"per-user\";r=0;"), "{answer:?}");
                }
            }
        });
    }
    while let Some(user) = users.join_next().await {
        user.unwrap();
    }
    // The second instance denied some, which the first had counted: they are two filters, not one request.
    let asked = u64::try_from(USERS * ROUNDS).unwrap();
    assert_eq!(stack.sidecar().remaining("everybody", "all").await, 100_000 - asked);
    assert_eq!(upstream.requests().len(), USERS * 20);
    for seen in upstream.requests() {
        assert_eq!(seen.headers["x-sluice-policy"], "everybody", "the second leaves alone what the first says");
    }
    let denied = 10 * USERS as u64;
    stack.counted("denied", denied).await;
    let allowed = stack.metric("allowed").await;
    assert_eq!(allowed, asked + 20 * USERS as u64);
    assert_eq!(stack.metric("checks").await, allowed + denied - stack.metric("denied_locally").await);
    stack.assert_invariants(&[]).await;
}
