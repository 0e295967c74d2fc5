//! What clients, upstreams and operators see of the filter in a real Envoy.

mod answers;
mod denial_cache;
mod examples;
mod grpc;
mod grpc_client;
mod instances;
mod memory;
mod nothing_passes;
mod plugin_failures;
mod reconfiguration;
mod spoofed;
mod wake_ups;
mod websocket;

use serde_json::{Value, json};

/// Two an hour for everybody, but none for who is called `blocked-`something.
fn policies() -> Value {
    let overrides = json!([{"key": "blocked-*", "blocked": true}]);
    json!({"two": {"algorithm": "fixed_window", "rate": "2/1h", "overrides": overrides}})
}

/// They apply by tenant.
fn rules() -> Value {
    json!([{"checks": [{"policy": "two", "key": [{"header": "x-tenant-id"}]}]}])
}

/// A header of who is denied from the beginning.
const BLOCKED: (&str, &str) = ("x-tenant-id", "blocked-1");
