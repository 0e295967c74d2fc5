//! The hottest and the most denied keys, as real traffic makes them.

use serde_json::{Value, json};

use super::ask;
use crate::support::{Client, Stack, plugin_config};

const SECRET: &str = "sk-live-1234567890";

fn keys(entries: &Value, policy: &str) -> Vec<(Value, u64)> {
    let of = entries.as_array().unwrap().iter().filter(|entry| entry["policy"] == policy);
    of.map(|entry| (entry["key"].clone(), entry["checks"].as_u64().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn traffic_through_envoy_shows_its_hottest_keys_and_what_is_hashed_stays_so() {
    let policies = json!({
        "tenant": {"algorithm": "fixed_window", "rate": "1000/1h"},
        "secret": {"algorithm": "fixed_window", "rate": "3/1h"},
    });
    let rules = json!([
        {"match": {"path": {"prefix": "/tenant"}}, "checks": [{"policy": "tenant", "key": [{"header": "x-tenant-id"}]}]},
        {"match": {"path": {"prefix": "/secret"}}, "checks": [
            {"policy": "secret", "key": [{"header": "x-api-key", "hash": true}]},
        ]},
    ]);
    let mut stack = Stack::start_with(1, 1, &policies, |options| {
        options.plugin = plugin_config(&rules);
        options.plugin["hash_key"] = "a very secret hash key".into();
        // What the filter answers by itself is not seen by the sidecar.
        options.plugin["denial_cache"] = json!({"max_age": "0"});
    })
    .await;
    for tenant in ["acme", "acme", "acme", "acme", "globex", "globex", "initech"] {
        assert_eq!(stack.envoy().get("/tenant", &[("x-tenant-id", tenant)]).await.status, 200);
    }
    for expected in [200, 200, 200, 429, 429] {
        assert_eq!(stack.envoy().get("/secret", &[("x-api-key", SECRET)]).await.status, expected);
    }
    let top = ask(stack.sidecar(), &["top", "--json"]).json();
    let expected = [(json!(["acme"]), 4), (json!(["globex"]), 2), (json!(["initech"]), 1)];
    assert_eq!(keys(&top["hottest"], "tenant"), expected);
    assert_eq!(keys(&top["most_denied"], "tenant"), []);
    let (hot, denied) = (keys(&top["hottest"], "secret"), keys(&top["most_denied"], "secret"));
    assert!(matches!(hot.as_slice(), [(_, 5)]) && matches!(denied.as_slice(), [(_, 2)]), "{top}");
    assert_eq!(hot[0].0, denied[0].0);
    // What it shows is what there is in Redis, and what the other commands take.
    let digest = hot[0].0[0].as_str().unwrap();
    assert_eq!(ask(stack.sidecar(), &["inspect", "secret", digest, "--json"]).json()["remaining"], 0);
    for path in ["/v1/top", "/v1/status", "/metrics"] {
        let answer = Client::new().get(stack.sidecar().admin_port(), path, &[]).await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.is_allowed() && !text.contains(SECRET), "{path}: {text}");
    }
    assert!(!ask(stack.sidecar(), &["top"]).text().contains(SECRET));
    stack.assert_invariants(&[SECRET]).await;
}

/// A key that is asked about once among many that are, as somebody sends who wants to be found by nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_hot_key_stands_out_among_thousands() {
    let policies = json!({"p": {"algorithm": "fixed_window", "rate": "100/1h"}});
    let mut stack = Stack::start_with(1, 0, &policies, |_| ()).await;
    let (client, port) = (Client::new(), stack.sidecar().port());
    for batch in 0..50 {
        let keys = (0..100).map(|number| format!("once-{batch}-{number}")).chain((0..6).map(|_| "hot".to_owned()));
        let requests: Vec<Value> = keys.map(|key| json!({"checks": [{"policy": "p", "key": [key]}]})).collect();
        let answer = client.post(port, "/v1/check", json!({"requests": requests}).to_string()).await;
        assert!(answer.is_allowed(), "{answer:?}");
        // Peeks make nobody hot.
        client.get(port, "/v1/check/p/looked-at", &[]).await;
    }
    let top = client.get(stack.sidecar().admin_port(), "/v1/top?count=3", &[]).await.json();
    let (hottest, denied) = (&top["hottest"], &top["most_denied"]);
    assert_eq!(hottest.as_array().unwrap().len(), 3);
    assert_eq!(hottest[0]["key"], json!(["hot"]), "{top}");
    // 5300 checks, of which 512 keys at a time are known.
    let (checks, error) = (hottest[0]["checks"].as_u64().unwrap(), hottest[0]["error"].as_u64().unwrap());
    assert!(checks >= 300 && checks - error <= 300 && error <= 5_300 / 512, "{top}");
    assert_eq!(denied, &json!([{"policy": "p", "key": ["hot"], "checks": 200, "error": 0}]));
    assert!(!top.to_string().contains("looked-at"), "{top}");
    stack.assert_invariants(&[]).await;
}
