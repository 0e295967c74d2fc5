//! What clients and access logs see of a request that was decided without asking.

use serde_json::json;

use super::{charged_to, leasing};
use crate::support::{Stack, Upstream, plugin_config};

#[tokio::test(flavor = "multi_thread")]
async fn remaining_counts_down_by_one_whoever_decides() {
    let mut policy = leasing("fixed_window", "1000/1h");
    policy["lease"]["ttl"] = json!("1m"); // nothing is given back meanwhile
    let mut stack = Stack::start(&json!({"hot": policy}), &charged_to(&["hot"])).await;
    let mut reset = u64::MAX;
    for remaining in (0..1000).rev() {
        let answer = stack.envoy().get("/", &[]).await;
        assert!(answer.is_allowed(), "{answer:?}");
        assert_eq!(answer.rate_limit(), ("hot", remaining), "{answer:?}");
        assert_eq!(answer.header("ratelimit-policy"), Some(r#""hot";q=1000;w=3600"#));
        let field = answer.header("ratelimit").unwrap();
        let now: u64 = field.split_once(";t=").unwrap().1.parse().unwrap();
        assert!(now <= reset && now > 3000, "{now} after {reset}");
        reset = now;
    }
    assert_eq!(stack.envoy().get("/", &[]).await.status, 429);
    let (local, callouts) = (stack.metric("allowed_locally").await, stack.metric("callouts").await);
    println!("{local} of 1000 without asking, {callouts} callouts");
    assert!(local > 500, "{local}");
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_are_told_as_ever() {
    let mut policy = leasing("token_bucket", "1000/1d");
    policy["lease"]["ttl"] = json!("1m");
    let upstream = Upstream::start().await;
    let mut stack = Stack::start_with(1, 1, &json!({"hot": policy}), |options| {
        options.plugin = plugin_config(&charged_to(&["hot"]));
        options.plugin["forward_headers"] = json!(true);
        options.upstream = Some(upstream.port());
    })
    .await;
    for remaining in (950..1000).rev() {
        let answer = stack.envoy().get("/", &[("x-sluice-remaining", "7")]).await;
        assert_eq!(answer.rate_limit(), ("hot", remaining));
        let seen = upstream.requests().pop().unwrap();
        assert_eq!(seen.headers["x-sluice-remaining"], remaining.to_string(), "{seen:?}");
        assert_eq!(seen.headers["x-sluice-policy"], "hot", "{seen:?}");
    }
    assert!(stack.metric("allowed_locally").await > 0);
    stack.assert_invariants(&[]).await;
}
