//! A wake-up reaches the root context that it is for. One that doesn't is made up for by the next tick, so that nothing
//! is lost but time, and no other test would notice.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{
    Client, Envoy, EnvoyOptions, FakeSidecar, Redis, Reply, assert_invariants, eventually, plugin_config,
};

/// Within the ten milliseconds of a tick, and more than twice what was seen on a busy machine.
const AT_ONCE: Duration = Duration::from_millis(7);

/// The quickest of many, so that a busy machine doesn't matter; but of the worker that was slowest with it, as far as a
/// few connections reach them all. They keep a distance of two ticks: while one runs, the next may be near.
async fn quickest(envoy: &Envoy) -> Duration {
    let mut slowest = Duration::ZERO;
    for _ in 0..5 {
        let client = Client::new();
        let mut quickest = Duration::MAX;
        for _ in 0..20 {
            let start = Instant::now();
            assert!(client.get(envoy.port(), "/", &[]).await.is_allowed());
            quickest = quickest.min(start.elapsed());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        slowest = slowest.max(quickest);
    }
    slowest
}

fn plugin(push: u64) -> Value {
    plugin_config(&json!([{"checks": [{"policy": "any", "key": [{"literal": push.to_string()}]}]}]))
}

/// Both instances share their worker's VM; and those of a new configuration get the queues' names of those that are gone.
#[tokio::test(flavor = "multi_thread")]
async fn reach_both_instances_also_of_new_configurations() {
    // One that answers at once, so that nothing else takes time.
    let sidecar = FakeSidecar::start(Reply::Allow).await;
    let envoy = Envoy::start(&EnvoyOptions {
        plugin: plugin(0),
        more_plugins: vec![plugin(0)],
        sidecars: vec![sidecar.port()],
        dynamic: true,
        drain_time_s: 1,
        workers: 2,
        ..EnvoyOptions::default()
    })
    .await;
    let mut seen = vec![quickest(&envoy).await];
    for push in 1..=2 {
        envoy.push(&plugin(push));
        eventually("the new one is there, and the old one gone", async || {
            assert!(Client::without_pool().get(envoy.port(), "/", &[]).await.is_allowed());
            let batches = sidecar.batches();
            let used = batches.iter().any(|batch| batch.requests[0].checks[0].key == [push.to_string()]);
            let draining = envoy.stat("listener_manager.total_filter_chains_draining").await;
            (draining == 0 && used).then_some(())
        })
        .await;
        seen.push(quickest(&envoy).await);
    }
    println!("{seen:?}");
    assert!(seen.iter().all(|quickest| *quickest < AT_ONCE), "a wake-up is lost: {seen:?}");
    assert_invariants(&Redis::start().await, &mut [envoy], &[], &[]).await;
}
