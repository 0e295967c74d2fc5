//! A request's checks in several cluster slots: reserved in each, and given back where another denies.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::support::{Client, Redis, Sidecar, assert_invariants};

fn policies() -> Value {
    json!({
        "user": {"algorithm": "fixed_window", "rate": "1/1h"},
        "global": {"algorithm": "token_bucket", "rate": "10/1h"},
        "sliding": {"algorithm": "sliding_window", "rate": "10/1h"},
    })
}

fn check(policy: &str, key: &str) -> Value {
    json!({"policy": policy, "key": [key]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_across_slots_is_charged_whole_or_not_at_all() {
    let redis = Redis::start_cluster().await;
    let sidecar = Sidecar::start(redis.port(), &policies()).await;
    let slots: Vec<u64> = ["sluice:{alice}:user:alice", "sluice:{all}:global:all", "sluice:{every}:sliding:every"]
        .map(|key| redis.command(&["CLUSTER", "KEYSLOT", key]))
        .into();
    assert!(slots[0] != slots[1] && slots[1] != slots[2] && slots[0] != slots[2], "this test needs other keys");
    let client = Client::new();
    let request = json!({"checks": [check("user", "alice"), check("global", "all"), check("sliding", "every")]});
    for attempt in 0..20 {
        let body = json!({"requests": [request]}).to_string();
        let answer = client.post(sidecar.port(), "/v1/check", body).await;
        assert!(answer.is_allowed(), "{answer:?}");
        let decision = &answer.json()["decisions"][0];
        assert_eq!(decision["allowed"], attempt == 0, "{decision}");
        // The checks that allowed tell what is left after their charge was given back.
        assert_eq!(decision["checks"][1]["remaining"], 9, "attempt {attempt}: {decision}");
        assert_eq!(decision["checks"][2]["remaining"], 9, "attempt {attempt}: {decision}");
    }
    assert_eq!(sidecar.remaining("global", "all").await, 9);
    assert_eq!(sidecar.remaining("sliding", "every").await, 9);
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_over_many_slots_admits_exactly_its_limits() {
    let redis = Redis::start_cluster().await;
    let sidecar = Sidecar::start(redis.port(), &policies()).await;
    let client = Client::new();
    // Each of 100 users twice, in batches of 20, each also charged to one global limit of 10.
    let (mut admitted, mut denied) = (0, 0);
    let users: Vec<String> = (0..100).flat_map(|user| [format!("u{user}"), format!("u{user}")]).collect();
    for batch in users.chunks(20) {
        let requests: Vec<Value> =
            batch.iter().map(|user| json!({"checks": [check("user", user), check("global", "all")]})).collect();
        let answer = client.post(sidecar.port(), "/v1/check", json!({"requests": requests}).to_string()).await;
        for decision in answer.json()["decisions"].as_array().unwrap() {
            if decision["allowed"] == true { admitted += 1 } else { denied += 1 }
        }
    }
    // Between its charge and its refund, a denied request holds back others: never more than the limit, and what is
    // left afterwards is what was not admitted.
    assert_eq!(admitted + denied, 200);
    assert!((1..=10).contains(&admitted), "{admitted}");
    assert_eq!(sidecar.remaining("global", "all").await, 10 - admitted);
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refunds_across_slots() {
    let redis = Redis::start_cluster().await;
    let sidecar = Sidecar::start(redis.port(), &policies()).await;
    let client = Client::new();
    let mut refunds = Vec::new();
    for key in ["a", "b", "c"] {
        let taken = client.post(sidecar.port(), &format!("/v1/check/global/{key}"), "").await.json();
        refunds.push(json!({"policy": "global", "key": [key], "charge": taken["charge"]}));
    }
    let answer = client.post(sidecar.port(), "/v1/refund", json!({"refunds": refunds}).to_string()).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    for refunded in answer.json()["refunds"].as_array().unwrap() {
        assert_eq!((&refunded["refunded"], &refunded["remaining"]), (&json!(true), &json!(10)));
    }
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}
