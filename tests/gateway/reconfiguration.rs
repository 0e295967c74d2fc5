//! New configurations under load, as a control plane pushes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{Client, Stack, eventually, plugin_config};

const PUSHES: u64 = 50;

fn plugin(policy: &str, key: &str) -> Value {
    plugin_config(&json!([{"checks": [{"policy": policy, "key": [{"literal": key}]}]}]))
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_pushes_under_load_and_a_bad_one() {
    let policies = json!({
        "first": {"algorithm": "fixed_window", "rate": "100000000/1h"},
        "last": {"algorithm": "fixed_window", "rate": "100000000/1h"},
    });
    let mut stack = Stack::start_with(1, 1, &policies, |options| {
        options.plugin = plugin("first", "0");
        options.dynamic = true;
        options.workers = 2;
    })
    .await;
    let envoy = stack.envoy();
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut load = JoinSet::new();
    for _ in 0..4 {
        let (stop, answered, port) = (Arc::clone(&stop), Arc::clone(&answered), envoy.port());
        load.spawn(async move {
            // Envoy closes the connections of a listener that was replaced; a request that is sent at that moment is
            // lost, with any filter. So each has its own connection.
            let client = Client::without_pool();
            while !stop.load(Ordering::Relaxed) {
                let answer = client.get(port, "/", &[]).await;
                assert!(answer.is_allowed(), "{answer:?}");
                assert!(answer.headers.contains_key("ratelimit"), "undecided: {answer:?}");
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let before = envoy.stat("listener_manager.lds.update_success").await;
    for push in 1..=PUSHES {
        envoy.push(&plugin("first", &push.to_string()));
        eventually("the push is taken", async || {
            (envoy.stat("listener_manager.lds.update_success").await == before + push).then_some(())
        })
        .await;
    }

    // A bad one is refused with its reason, and what was there goes on.
    let mut bad = plugin("last", "bad");
    bad["rules"][0]["cheks"] = json!([]);
    envoy.push(&bad);
    eventually("the bad one is refused", async || {
        (envoy.stat("listener_manager.lds.update_rejected").await == 1).then_some(())
    })
    .await;
    assert!(envoy.process.log().contains("rules[0].cheks: unknown field `cheks`"), "{}", envoy.process.log());
    let so_far = answered.load(Ordering::Relaxed);
    eventually("requests go on", async || (answered.load(Ordering::Relaxed) > so_far + 100).then_some(())).await;
    assert_eq!(envoy.get("/", &[]).await.rate_limit().0, "first");

    envoy.push(&plugin("last", "good"));
    eventually("the good one applies", async || {
        (Client::without_pool().get(envoy.port(), "/", &[]).await.rate_limit().0 == "last").then_some(())
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    while let Some(user) = load.join_next().await {
        user.unwrap();
    }
    println!("{} requests, all allowed", answered.load(Ordering::Relaxed));
    eventually("nothing is pending", async || (envoy.metric("pending").await == 0).then_some(())).await;
    for (name, count) in envoy.stats("^wasm.sluice.vm_reload").await {
        assert_eq!(count, 0, "{name}");
    }
    assert_eq!((envoy.metric("failed_closed").await, envoy.metric("failed_open").await), (0, 0));
    assert!(!envoy.process.log().contains("panicked at"));
    assert!(stack.envoys[0].process.is_running());
}
