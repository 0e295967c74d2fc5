//! Who may ask the sidecar, and what the sidecar may do: tokens, TLS, a Redis user with few rights. docs/security.md
//! says what each is for.

mod redis_user;
mod start;
mod tls;
mod token;

use serde_json::{Value, json};

use crate::support::Envoy;

/// Two requests, and then none.
fn policies() -> Value {
    json!({"two": {"algorithm": "fixed_window", "rate": "2/1h"}})
}

fn rules() -> Value {
    json!([{"checks": [{"policy": "two", "key": [{"header": "x-tenant-id"}]}]}])
}

/// Requests of this tenant are decided: two are allowed and the third is denied.
async fn assert_decides(envoy: &Envoy, tenant: &str) {
    for expected in [200, 200, 429] {
        let answer = envoy.get("/", &[("x-tenant-id", tenant)]).await;
        assert_eq!(answer.status, expected, "{answer:?}");
        assert_eq!(answer.rate_limit().0, "two");
    }
}

/// There is no decision: `on_error`, which is `deny`, is counted.
async fn assert_fails_closed(envoy: &Envoy) {
    let before = (envoy.metric("failed_closed").await, envoy.metric("callouts_failed").await);
    let answer = envoy.get("/", &[("x-tenant-id", "nobody")]).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    let after = (envoy.metric("failed_closed").await, envoy.metric("callouts_failed").await);
    assert_eq!(after, (before.0 + 1, before.1 + 1));
}
