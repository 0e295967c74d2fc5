//! To look at a key takes nothing from it, and a reset gives it its whole limit again, wherever it is kept.

use serde_json::{Value, json};

use super::ask;
use crate::support::{Port, Redis, RedisCluster, Sidecar, assert_invariants, assert_invariants_of};

const ALGORITHMS: [&str; 3] = ["fixed_window", "sliding_window", "token_bucket"];

/// A policy of each algorithm, under its name.
fn policies() -> Value {
    let policies = ALGORITHMS.map(|name| (name.to_owned(), json!({"algorithm": name, "rate": "3/1h"})));
    Value::Object(policies.into_iter().collect())
}

fn state(redis: &Redis, key: &str) -> Option<String> {
    redis.command(&["GET", key])
}

#[tokio::test(flavor = "multi_thread")]
async fn looking_consumes_nothing() {
    let redis = Redis::start().await;
    let sidecar = Sidecar::start(redis.port(), &policies()).await;
    for policy in ALGORITHMS {
        sidecar.take(policy, "k").await;
        let key = format!("sluice:{{k}}:{policy}:k");
        let before = state(&redis, &key);
        assert!(before.is_some(), "{policy}");
        for cost in [0, 1, 2, 3, 1_000_000] {
            let peeked = ask(&sidecar, &["peek", policy, "k", "--cost", &cost.to_string(), "--json"]).json();
            assert_eq!(peeked["allowed"], cost <= 2, "{policy} {cost}: {peeked}");
            assert_eq!(peeked["remaining"], 2, "{policy} {cost}: {peeked}");
            assert_eq!(peeked["retry_after_ms"].is_null(), cost > 3, "{policy} {cost}: {peeked}");
        }
        let inspected = ask(&sidecar, &["inspect", policy, "k", "--json"]).json();
        assert_eq!(
            (&inspected["remaining"], inspected["state"].as_str()),
            (&json!(2), before.as_deref()),
            "{inspected}"
        );
        ask(&sidecar, &["peek", policy, "untouched", "--cost", "2"]).text();
        ask(&sidecar, &["inspect", policy, "untouched"]).text();
        assert_eq!(state(&redis, &key), before, "{policy}");
    }
    let probes = |key: &String| key.ends_with(':');
    let keys: Vec<String> = redis.keys().into_iter().filter(|key| !probes(key)).collect();
    assert_eq!(keys.len(), ALGORITHMS.len(), "{keys:?}");
    let metrics = sidecar.metrics().await;
    for policy in ALGORITHMS {
        let count =
            |outcome: &str| metrics.get(&format!(r#"sluice_decisions_total{{policy="{policy}",outcome="{outcome}"}}"#));
        assert!((count("allowed") - 1.0).abs() < 1e-9 && (count("denied")).abs() < 1e-9, "{policy}");
        assert!((count("peeked") - 6.0).abs() < 1e-9, "{policy}: {}", count("peeked"));
    }
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

/// Uses limits up, resets some, and looks what there is to have.
async fn assert_resets(sidecar: &Sidecar, keys: &[String]) {
    for policy in ALGORITHMS {
        for key in keys {
            for expected in [200, 200, 200, 429] {
                assert_eq!(sidecar.take(policy, key).await.status, expected, "{policy} {key}");
            }
        }
        let (reset, kept) = keys.split_at(keys.len() / 2);
        for key in reset {
            let said = ask(sidecar, &["reset", policy, key, "--json"]).json();
            assert_eq!(said, json!({"policy": policy, "key": [key], "existed": true}));
            let said = ask(sidecar, &["reset", policy, key, "--json"]).json();
            assert_eq!(said["existed"], false, "{policy} {key}");
            assert_eq!(ask(sidecar, &["inspect", policy, key, "--json"]).json()["state"], Value::Null);
        }
        for key in kept {
            assert_eq!(sidecar.take(policy, key).await.status, 429, "{policy} {key}");
        }
        for key in reset {
            for expected in [200, 200, 200, 429] {
                assert_eq!(sidecar.take(policy, key).await.status, expected, "{policy} {key}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_key_has_its_whole_limit() {
    let redis = Redis::start().await;
    let sidecar = Sidecar::start(redis.port(), &policies()).await;
    let other = Sidecar::start(redis.port(), &policies()).await;
    assert_resets(&sidecar, &["a", "b"].map(str::to_owned)).await;
    // Whichever sidecar is asked.
    assert_eq!(other.take("fixed_window", "a").await.status, 429);
    assert!(ask(&sidecar, &["reset", "fixed_window", "a"]).text().contains("reset"));
    assert_eq!(other.take("fixed_window", "a").await.status, 200);
    assert_invariants(&redis, &mut [], &[sidecar.process.log(), other.process.log()], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn also_where_it_is_kept_in_memory() {
    let sidecar = Sidecar::start_with(&json!({"store": "memory", "policies": policies()})).await;
    assert_resets(&sidecar, &["a", "b"].map(str::to_owned)).await;
}

/// What Redis has of it can't be reached, and that is said; what this sidecar counts meanwhile is all there again.
#[tokio::test(flavor = "multi_thread")]
async fn also_what_is_counted_while_the_store_is_away() {
    let nobody = Port::free();
    let mut sidecar = Sidecar::launch_for(nobody.number(), &policies(), &json!({"on_store_error": "local"}));
    sidecar.until_alive().await;
    for policy in ALGORITHMS {
        for _ in 0..2 {
            for expected in [200, 200, 200, 429] {
                assert_eq!(sidecar.take(policy, "k").await.status, expected, "{policy}");
            }
            assert!(ask(&sidecar, &["reset", policy, "k"]).error(1).contains("answers 503: the store "));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn also_in_a_cluster_and_while_a_slot_moves() {
    let cluster = RedisCluster::start().await;
    let hosts: Vec<String> = cluster.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let store = format!("redis+cluster://{}", hosts.join(","));
    let config = json!({"store": store, "store_timeout": "2s", "policies": policies()});
    let sidecar = Sidecar::start_with(&config).await;
    let keys: Vec<String> = (0..6).map(|number| format!("key-{number}")).collect();
    assert_resets(&sidecar, &keys).await;

    let key = |name: &str| format!("sluice:{{{name}}}:fixed_window:{name}");
    let slot = cluster.slot(&key("moving"));
    let from = (0..3).find(|primary| RedisCluster::first_slots(*primary).contains(&slot)).unwrap();
    sidecar.take("fixed_window", "moving").await;
    let migration = cluster.migrate(slot, from, (from + 1) % 3);
    assert_eq!(migration.move_keys(), 1);
    // The sidecar doesn't know yet: the old node sends it on.
    assert_eq!(ask(&sidecar, &["reset", "fixed_window", "moving", "--json"]).json()["existed"], true);
    sidecar.take("fixed_window", "moving").await;
    migration.finish();
    assert_eq!(ask(&sidecar, &["reset", "fixed_window", "moving", "--json"]).json()["existed"], true);
    assert_eq!(ask(&sidecar, &["peek", "fixed_window", "moving", "--json"]).json()["remaining"], 3);
    assert_invariants_of(&cluster.servers(), &mut [], &[sidecar.process.log()], &[]).await;
}
