//! New configurations leave next to nothing behind in Envoy.

use std::time::Duration;

use serde_json::{Value, json};

use super::{policies, rules};
use crate::support::{Client, Envoy, Stack, eventually, plugin_config};

/// What a hundred configurations may leave in Envoy's own memory, and in that of the whole process, VMs included.
///
/// A VM takes 0.9 MB of Envoy's own memory. A configuration was seen to leave 1 to 2 KB of it, and a plugin that does
/// nothing leaves as much; with a queue's name and metrics of its own for each, it was 7 KB. One that stays in a VM would
/// be seen in the process: it has 500 rules.
const LEFT: Memory = Memory { allocated_bytes: 400 << 10, resident_bytes: 3 << 20 };

#[derive(Debug)]
struct Memory {
    allocated_bytes: i64,
    resident_bytes: i64,
}

impl Memory {
    /// When what was replaced is gone, and as many VMs are there as at the beginning. The least of several, because
    /// Envoy takes some for each answer, and its statistics.
    async fn of(envoy: &Envoy, vms: u64) -> Self {
        eventually("what was replaced is gone", async || {
            let draining = envoy.stats("^listener_manager.total_.*_draining$").await;
            assert!(!draining.is_empty());
            let gone = draining.iter().all(|(_, count)| *count == 0);
            (gone && envoy.stat(VMS).await == vms).then_some(())
        })
        .await;
        let mut least = Self { allocated_bytes: i64::MAX, resident_bytes: i64::MAX };
        for _ in 0..10 {
            least.allocated_bytes = least.allocated_bytes.min(envoy.allocated_bytes().await);
            least.resident_bytes = least.resident_bytes.min(envoy.process.resident_bytes());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        least
    }
}

const VMS: &str = "wasm.envoy.wasm.runtime.v8.active";

fn plugin(push: u64) -> Value {
    let path = |n| format!("/{push}/{n}");
    let mut all: Vec<_> = (0..499).map(|n| json!({"match": {"path": {"exact": path(n)}}, "exempt": true})).collect();
    all.push(rules()[0].clone());
    plugin_config(&all.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_pushes_reach_a_plateau() {
    let mut stack = Stack::start_with(1, 1, &policies(), |options| {
        options.plugin = plugin(0);
        options.dynamic = true;
        options.drain_time_s = 1;
    })
    .await;
    let envoy = stack.envoy();
    let client = Client::without_pool();
    let (before, vms) = (envoy.stat("listener_manager.lds.update_success").await, envoy.stat(VMS).await);
    let mut seen = Vec::new();
    for push in 1..=200 {
        envoy.push(&plugin(push));
        eventually("the push is taken", async || {
            (envoy.stat("listener_manager.lds.update_success").await == before + push).then_some(())
        })
        .await;
        // Each configuration is used.
        let answer = client.get(envoy.port(), "/", &[("x-tenant-id", "acme")]).await;
        assert!(answer.headers.contains_key("ratelimit"), "undecided: {answer:?}");
        if push % 100 == 0 {
            seen.push(Memory::of(envoy, vms).await);
        }
    }
    println!("after 100 and 200 pushes: {seen:?}");
    assert!(seen[1].allocated_bytes - seen[0].allocated_bytes < LEFT.allocated_bytes, "{seen:?}");
    assert!(seen[1].resident_bytes - seen[0].resident_bytes < LEFT.resident_bytes, "{seen:?}");
    stack.assert_invariants(&[]).await;
}
