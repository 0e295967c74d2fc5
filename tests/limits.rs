//! Requests under and over their limits, by each algorithm.

use std::time::Duration;

use crate::support::{Answer, Stack};
use serde_json::{Value, json};

const ALGORITHMS: [&str; 3] = ["fixed_window", "sliding_window", "token_bucket"];

/// One policy per algorithm, and a rule that applies it by tenant to the path of its name.
fn by_algorithm(rate: &str) -> (Value, Value) {
    let policies = ALGORITHMS.map(|name| (name.to_owned(), json!({"algorithm": name, "rate": rate})));
    let rules = ALGORITHMS.map(|name| {
        let checks = json!([{"policy": name, "key": [{"header": "x-tenant-id"}]}]);
        json!({"match": {"path": {"exact": format!("/{name}")}}, "checks": checks})
    });
    (Value::Object(policies.into_iter().collect()), json!(rules))
}

async fn get(stack: &Stack, algorithm: &str, tenant: &str) -> Answer {
    stack.envoy().get(&format!("/{algorithm}"), &[("x-tenant-id", tenant)]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_as_the_limit_are_allowed_and_no_more() {
    let (policies, rules) = by_algorithm("3/1h");
    let mut stack = Stack::start(&policies, &rules).await;
    for algorithm in ALGORITHMS {
        for left in [2, 1, 0] {
            let answer = get(&stack, algorithm, "acme").await;
            assert!(answer.is_allowed(), "{answer:?}");
            assert_eq!(answer.body, "hello");
            assert_eq!(answer.rate_limit(), (algorithm, left));
            assert_eq!(answer.header("ratelimit-policy"), Some(&*format!("\"{algorithm}\";q=3;w=3600")));
        }
        for _ in 0..5 {
            let answer = get(&stack, algorithm, "acme").await;
            assert_eq!(answer.status, 429, "{answer:?}");
            assert_eq!(answer.rate_limit(), (algorithm, 0));
            // A sliding window may still count the hour before, up to the end of the next one.
            assert!((1..=7200).contains(&answer.retry_after()), "{answer:?}");
            assert_eq!(answer.header("x-envoy-ratelimited"), Some("true"));
            assert_eq!(answer.header("content-type"), Some("application/problem+json"));
            assert_eq!(answer.json()["status"], 429);
            assert_eq!(answer.json()["violated-policies"], json!([algorithm]));
        }
        let other = get(&stack, algorithm, "another").await;
        assert!(other.is_allowed(), "{other:?}");
        assert_eq!(other.rate_limit(), (algorithm, 2), "a tenant pays for another");
    }
    stack.counted("denied", 15).await;
    assert_eq!(stack.metric("allowed").await, 12);
    assert_eq!(stack.metric("failed_closed").await, 0);
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_as_told_is_allowed() {
    let (policies, rules) = by_algorithm("2/2s");
    let mut stack = Stack::start(&policies, &rules).await;
    tokio::join!(
        wait_as_told(&stack, ALGORITHMS[0]),
        wait_as_told(&stack, ALGORITHMS[1]),
        wait_as_told(&stack, ALGORITHMS[2]),
    );
    stack.assert_invariants(&[]).await;
}

/// By the header's whole seconds and by the body's milliseconds, as one client that is alone with its key.
async fn wait_as_told(stack: &Stack, algorithm: &str) {
    for exactly in [false, true] {
        let answer = until_denied(stack, algorithm).await;
        let told = if exactly {
            Duration::from_millis(answer.json()["retry_after_ms"].as_u64().unwrap())
        } else {
            Duration::from_secs(answer.retry_after())
        };
        assert!(told <= Duration::from_secs(4), "{algorithm}: {answer:?}");
        tokio::time::sleep(told).await;
        let answer = get(stack, algorithm, "acme").await;
        assert!(answer.is_allowed(), "{algorithm}, after {told:?}: {answer:?}");
    }
}

async fn until_denied(stack: &Stack, algorithm: &str) -> Answer {
    // A slow machine may see a token return in between, not ten times in a row.
    for _ in 0..20 {
        let answer = get(stack, algorithm, "acme").await;
        if answer.status == 429 {
            return answer;
        }
        assert!(answer.is_allowed(), "{answer:?}");
    }
    panic!("{algorithm} never denied");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_one_limit_denies_is_charged_to_none() {
    let policies = json!({
        "per-user": {"algorithm": "fixed_window", "rate": "1/1h"},
        "global": {"algorithm": "fixed_window", "rate": "10/1h"},
    });
    let rules = json!([{"checks": [
        {"policy": "global", "key": [{"literal": "all"}]},
        {"policy": "per-user", "key": [{"header": "x-user"}]},
    ]}]);
    let mut stack = Stack::start(&policies, &rules).await;

    let mut allowed = 0;
    for _ in 0..20 {
        let answer = stack.envoy().get("/", &[("x-user", "alice")]).await;
        if answer.is_allowed() {
            allowed += 1;
        } else {
            assert_eq!(answer.status, 429, "{answer:?}");
            assert_eq!(answer.json()["violated-policies"], json!(["per-user"]));
        }
    }
    assert_eq!(allowed, 1);
    assert_eq!(stack.sidecar().remaining("global", "all").await, 9, "denied requests were charged");

    // And the other way round: nine more users, and the tenth keeps what is its own.
    for user in 0..9 {
        assert!(stack.envoy().get("/", &[("x-user", &format!("user-{user}"))]).await.is_allowed());
    }
    for _ in 0..3 {
        let answer = stack.envoy().get("/", &[("x-user", "late")]).await;
        assert_eq!(answer.json()["violated-policies"], json!(["global"]));
    }
    assert_eq!(stack.sidecar().remaining("per-user", "late").await, 1, "denied requests were charged");
    stack.assert_invariants(&[]).await;
}
