//! What somebody should know of a server that works.

use serde_json::{Value, json};

use super::{Watched, config};
use crate::support::{Redis, RedisOptions, Sidecar, assert_invariants};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_may_drop_counts_is_warned_of_once() {
    for (policy, is_warned) in [("allkeys-lru", true), ("volatile-ttl", true), ("noeviction", false)] {
        let options = RedisOptions { max_memory: Some((64 << 20, policy)), ..Default::default() };
        let redis = Redis::start_with(&options).await;
        let mut watched = Watched::start(&json!({"store": format!("redis://127.0.0.1:{}", redis.port())})).await;
        watched.assert_decides().await;
        let store = watched.sidecar.store().await;
        let warnings = store["warnings"].as_array().cloned().unwrap_or_default();
        assert_eq!(warnings.len(), usize::from(is_warned), "{store}");
        assert!(warnings.iter().all(|warning| warning.as_str().unwrap().contains(policy)), "{store}");
        // Another connection is no reason to say it again.
        let _: i64 = redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        watched.assert_recovers().await;
        let log = watched.sidecar.process.log();
        assert_eq!(log.matches("maxmemory-policy").count(), usize::from(is_warned), "{log}");
        assert_invariants(&redis, &mut [], &[log], &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn its_connections_have_a_name() {
    let redis = Redis::start().await;
    let mut sidecar =
        Sidecar::start_with(&config(&json!({"store": format!("redis://127.0.0.1:{}", redis.port())}))).await;
    sidecar.until_ready().await;
    let clients: String = redis.command(&["CLIENT", "LIST"]);
    assert_eq!(clients.matches(" name=sluice ").count(), 1, "{clients}");
    assert_eq!(sidecar.store().await["warnings"], Value::Null);
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}
