//! Whatever is killed, restarted, emptied or replaced: what is lost was charged.

use serde_json::json;

use super::{Account, Load, QUIET, charged_to, leasing, ports, two_by_two};
use crate::support::{Stack, eventually, plugin_config};

const LIMIT: u64 = 4_000;

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_that_is_killed_loses_what_it_had() {
    let policies = json!({"hot": leasing("fixed_window", &format!("{LIMIT}/1h"))});
    let mut stack = two_by_two(&policies, &charged_to(&["hot"])).await;
    let load = Load::start(&ports(&stack), 4, "/");
    load.until_admitted(LIMIT / 4).await;
    stack.envoys[1].process.kill();
    load.until_exhausted(QUIET).await;
    let admitted = load.stop().await.len() as u64;
    stack.envoys.truncate(1);
    Account::settled(&stack).await;
    assert!(admitted <= LIMIT, "{admitted} of {LIMIT}");
    // Two workers had a lease each, and four connections a request.
    assert!(admitted >= LIMIT - 2 * 100 - 4, "{admitted} of {LIMIT}");
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecars_that_are_killed_take_nothing_with_them() {
    let policies = json!({"hot": leasing("fixed_window", &format!("{LIMIT}/1h"))});
    let mut stack = two_by_two(&policies, &charged_to(&["hot"])).await;
    let load = Load::start(&ports(&stack), 4, "/");
    for part in 1..=2 {
        load.until_admitted(part * LIMIT / 4).await;
        for sidecar in &mut stack.sidecars {
            sidecar.restart().await;
        }
    }
    load.until_exhausted(QUIET).await;
    let failed = load.failed();
    let admitted = load.stop().await.len() as u64;
    println!("{admitted} admitted, {failed} failed");
    assert!(admitted <= LIMIT, "{admitted} of {LIMIT}");
    // What a sidecar had decided, and did not tell: a callout of each worker, each time, and what it gave back.
    assert!(admitted >= LIMIT - 2 * 4 * 2 * 104, "{admitted} of {LIMIT}");
    eventually("all leases have ended", async || {
        let spent_and_expired = stack.metric("lease_spent").await + stack.metric("lease_expired").await;
        (stack.metric("leased").await == spent_and_expired).then_some(())
    })
    .await;
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_redis_forgets_what_it_had_counted_and_no_more() {
    for align in [false, true] {
        let mut policy = leasing("fixed_window", &format!("{LIMIT}/30d"));
        policy["align"] = json!(align);
        policy["lease"]["ttl"] = json!("2s"); // still there when Redis is empty
        let mut stack = two_by_two(&json!({"hot": policy}), &charged_to(&["hot"])).await;
        let load = Load::start(&ports(&stack), 4, "/");
        load.until_admitted(LIMIT / 2).await;
        let before = load.stop().await.len() as u64;
        let forgotten = LIMIT - stack.sidecar().remaining("hot", "all").await;
        assert!(forgotten >= before);
        let _: () = stack.redis.command(&["FLUSHALL"]);

        let load = Load::start(&ports(&stack), 4, "/");
        load.until_exhausted(3 * QUIET).await;
        let after = load.stop().await.len() as u64;
        Account::settled(&stack).await;
        println!("{before} and {after} admitted, {forgotten} forgotten");
        assert!(before + after <= LIMIT + forgotten, "{before} and {after}, {forgotten} forgotten");
        assert!(after >= LIMIT / 100 * 99, "{after} of {LIMIT}");
        stack.assert_invariants(&[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_configuration_drops_leases_and_fails_nobody() {
    let policies = json!({"hot": leasing("fixed_window", "1000000/1h")});
    let plugin = |timeout: &str| {
        let mut plugin = plugin_config(&charged_to(&["hot"]));
        plugin["sidecar"]["timeout"] = json!(timeout);
        plugin
    };
    let mut stack = Stack::start_with(1, 1, &policies, |options| {
        options.plugin = plugin("2s");
        options.dynamic = true;
        options.workers = 2;
        options.drain_time_s = 1;
    })
    .await;
    let updates = stack.envoy().stat("listener_manager.lds.update_success").await;
    let mut admitted = 0;
    for push in 1..=5 {
        let load = Load::start(&ports(&stack), 4, "/");
        load.until_admitted(500).await;
        admitted += load.stop().await.len() as u64;
        stack.envoy().push(&plugin(&format!("{}ms", 2000 + push)));
        eventually("the push is taken", async || {
            (stack.envoy().stat("listener_manager.lds.update_success").await == updates + push).then_some(())
        })
        .await;
    }
    assert_eq!(stack.metric("failed_closed").await, 0);
    eventually("all leases have ended", async || {
        let spent_and_expired = stack.metric("lease_spent").await + stack.metric("lease_expired").await;
        (stack.metric("leased").await == spent_and_expired).then_some(())
    })
    .await;
    assert!(stack.metric("allowed_locally").await > 0);
    assert_eq!(stack.metric("allowed").await, admitted);
    // What was not given back stays charged.
    let lost = stack.metric("lease_expired").await - stack.metric("lease_refunded").await;
    eventually("all else is", async || {
        (stack.sidecar().remaining("hot", "all").await == 1_000_000 - admitted - lost).then_some(())
    })
    .await;
    stack.assert_invariants(&[]).await;
}
