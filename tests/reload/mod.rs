//! A configuration that changes while the sidecar serves, and a sidecar that is replaced.

mod changes;
mod files;
mod load;
mod rollout;

use serde_json::{Value, json};

use crate::support::{Client, Sidecar, eventually};

/// A policy `p` of so many an hour.
fn policies(count: u64) -> Value {
    json!({"p": {"algorithm": "fixed_window", "rate": format!("{count}/1h")}})
}

/// The sidecar's configuration with other policies.
fn with(sidecar: &Sidecar, policies: &Value) -> Value {
    let mut config = sidecar.config();
    config["policies"] = policies.clone();
    config
}

/// Puts another file in its place, at once.
fn put(sidecar: &Sidecar, text: &str) {
    let new = sidecar.config_file().with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, sidecar.config_file()).unwrap();
}

/// Waits until `p` is of so many.
async fn until_limit(what: &str, sidecar: &Sidecar, count: u64) {
    eventually(what, async || (sidecar.peek("p", "k").await.json()["limit"] == count).then_some(())).await;
}

/// What `/readyz` says of the configuration. It is 200 whatever that is.
async fn config(sidecar: &Sidecar) -> Value {
    let answer = Client::new().get(sidecar.port(), "/readyz", &[]).await;
    assert!(answer.is_allowed(), "{answer:?}");
    answer.json()["config"].clone()
}
