//! What holds after every test, whatever it did.

use super::{Envoy, Redis, eventually};

/// What Envoy writes when a VM fails.
const FAILURES: [&str; 4] = ["panicked at", "Function: proxy_", "Uncaught RuntimeError", "Plugin configured to fail"];

/// Every key has a TTL; no VM failed, and none holds a request any more; no secret is in a key or a log.
pub async fn assert_invariants(redis: &Redis, envoys: &mut [Envoy], logs: &[String], secrets: &[&str]) {
    assert_invariants_of(&[redis], envoys, logs, secrets).await;
}

/// The same, of several servers.
pub async fn assert_invariants_of(servers: &[&Redis], envoys: &mut [Envoy], logs: &[String], secrets: &[&str]) {
    for redis in servers {
        let keys = redis.keys();
        for (key, ttl) in keys.iter().zip(redis.ttls_ms(&keys)) {
            // -2 is a key that ran out since.
            assert!(ttl > 0 || ttl == -2, "PTTL of {key} is {ttl}");
        }
        assert_no_secret("a Redis key", &keys.join("\n"), secrets);
    }
    for log in logs {
        assert_no_secret("a sidecar's log", log, secrets);
    }
    for envoy in envoys {
        assert_vm_is_well(envoy).await;
        assert_no_secret("Envoy's log", &envoy.process.log(), secrets);
    }
}

async fn assert_vm_is_well(envoy: &mut Envoy) {
    assert!(envoy.process.is_running(), "Envoy is gone; its log:\n{}", envoy.process.log());
    let reloads = envoy.stats("^wasm.sluice.vm_reload").await;
    assert!(!reloads.is_empty(), "Envoy does not count VM failures");
    for (name, count) in reloads {
        assert_eq!(count, 0, "{name}; Envoy's log:\n{}", envoy.process.log());
    }
    eventually("no request is pending", async || (envoy.metric("pending").await == 0).then_some(())).await;
    let log = envoy.process.log();
    for failure in FAILURES {
        assert!(!log.contains(failure), "{failure:?} in Envoy's log:\n{log}");
    }
}

fn assert_no_secret(place: &str, text: &str, secrets: &[&str]) {
    for secret in secrets {
        assert!(!text.contains(secret), "a secret is in {place}:\n{text}");
    }
}
