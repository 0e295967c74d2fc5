//! A denial is repeated from memory until its time, and no longer.

use std::time::Duration;

use serde_json::json;

use crate::support::{Stack, plugin_config};

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_key_causes_no_callouts_until_its_time() {
    let policies = json!({"one": {"algorithm": "fixed_window", "rate": "1/3s"}});
    let rules = json!([{"checks": [{"policy": "one", "key": [{"header": "x-tenant-id"}]}]}]);
    let mut stack = Stack::start_with(1, 1, &policies, |options| {
        options.plugin = plugin_config(&rules);
        options.plugin["denial_cache"] = json!({"max_age": "60s"});
    })
    .await;
    let acme = [("x-tenant-id", "acme")];
    assert!(stack.envoy().get("/", &acme).await.is_allowed());
    let first = stack.envoy().get("/", &acme).await;
    assert_eq!(first.status, 429, "{first:?}");
    let callouts = stack.metric("callouts").await;
    let mut told = first.json()["retry_after_ms"].as_u64().unwrap();
    for _ in 0..50 {
        let answer = stack.envoy().get("/", &acme).await;
        assert_eq!(answer.status, 429, "{answer:?}");
        let left = answer.json()["retry_after_ms"].as_u64().unwrap();
        assert!(left <= told && left > 0, "{left} ms after {told} ms");
        told = left;
        assert_eq!(answer.retry_after(), told.div_ceil(1000));
    }
    assert_eq!(stack.metric("callouts").await, callouts);
    // Nobody asks any more: the tick counts them.
    stack.counted("denied", 51).await;
    assert_eq!(stack.metric("denied_locally").await, 50);

    let other = stack.envoy().get("/", &[("x-tenant-id", "another")]).await;
    assert!(other.is_allowed(), "a tenant is denied for another: {other:?}");
    // Who waits as the last one told is allowed, however long the cache might keep it.
    tokio::time::sleep(Duration::from_millis(told)).await;
    let answer = stack.envoy().get("/", &acme).await;
    assert!(answer.is_allowed(), "{answer:?}");
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn less_than_was_denied_is_asked_about() {
    let policies = json!({"five": {"algorithm": "token_bucket", "rate": "5/1h"}});
    let check = |cost| json!([{"policy": "five", "key": [{"literal": "all"}], "cost": cost}]);
    let rules = json!([
        {"match": {"path": {"exact": "/small"}}, "checks": check(1)},
        {"match": {"path": {"exact": "/big"}}, "checks": check(5)},
    ]);
    let mut stack = Stack::start_with(1, 1, &policies, |options| {
        options.plugin = plugin_config(&rules);
        options.plugin["denial_cache"] = json!({"max_age": "60s"});
    })
    .await;
    assert!(stack.envoy().get("/small", &[]).await.is_allowed());
    for _ in 0..3 {
        assert_eq!(stack.envoy().get("/big", &[]).await.status, 429);
    }
    stack.counted("denied_locally", 2).await;
    assert_eq!(stack.metric("callouts").await, 2);
    for left in [3, 2, 1, 0] {
        let answer = stack.envoy().get("/small", &[]).await;
        assert!(answer.is_allowed(), "{answer:?}");
        assert_eq!(answer.rate_limit(), ("five", left));
    }
    // A denial of less denies more as well.
    assert_eq!(stack.envoy().get("/small", &[]).await.status, 429);
    let callouts = stack.metric("callouts").await;
    assert_eq!(stack.envoy().get("/big", &[]).await.status, 429);
    assert_eq!(stack.metric("callouts").await, callouts);
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_that_waiting_does_not_help_is_asked_about_again() {
    let blocked = json!([{"key": "all", "blocked": true}]);
    let policies = json!({"none": {"algorithm": "fixed_window", "rate": "1/1h", "overrides": blocked}});
    let rules = json!([{"checks": [{"policy": "none", "key": [{"literal": "all"}]}]}]);
    for (max_age, locally) in [("300ms", 1), ("0", 0)] {
        let mut stack = Stack::start_with(1, 1, &policies, |options| {
            options.plugin = plugin_config(&rules);
            options.plugin["denial_cache"] = json!({"max_age": max_age});
        })
        .await;
        for _ in 0..2 {
            let answer = stack.envoy().get("/", &[]).await;
            assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (429, None), "{answer:?}");
        }
        stack.counted("denied", 2).await;
        assert_eq!(stack.metric("denied_locally").await, locally, "{max_age}");
        let callouts = stack.metric("callouts").await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(stack.envoy().get("/", &[]).await.status, 429);
        assert_eq!(stack.metric("callouts").await, callouts + 1, "{max_age}");
        stack.assert_invariants(&[]).await;
    }
}
