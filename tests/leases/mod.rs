//! Leases, from the client to Redis: busy keys are decided without asking, and still no more is admitted than the limit.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Envoy, Stack, eventually, plugin_config};

mod bounds;
mod headers;
mod load;
mod losses;

use load::Load;

/// A policy that leases, for a quarter of a second.
fn leasing(algorithm: &str, rate: &str) -> Value {
    json!({"algorithm": algorithm, "rate": rate, "lease": {"max": 100, "share": 0.1, "ttl": "250ms"}})
}

/// Everybody has the one key of each of these policies.
fn charged_to(policies: &[&str]) -> Value {
    let check = |policy: &&str| json!({"policy": policy, "key": [{"literal": "all"}]});
    json!([{"checks": policies.iter().map(check).collect::<Vec<_>>()}])
}

/// Two Envoys with two workers each, and two sidecars.
async fn two_by_two(policies: &Value, rules: &Value) -> Stack {
    Stack::start_with(2, 2, policies, |options| {
        options.workers = 2;
        options.plugin = plugin_config(rules);
        // What another worker gives back is soon seen.
        options.plugin["denial_cache"] = json!({"max_age": "50ms"});
    })
    .await
}

fn ports(stack: &Stack) -> Vec<u16> {
    stack.envoys.iter().map(Envoy::port).collect()
}

/// What the filters say of leases, once nothing is leased any more.
struct Account {
    leased: u64,
    spent: u64,
    expired: u64,
    refunded: u64,
}

impl Account {
    /// Waits until all leases have ended, and what could be given back is.
    async fn settled(stack: &Stack) -> Self {
        eventually("all leases have ended", async || {
            let account = Self {
                leased: stack.metric("leased").await,
                spent: stack.metric("lease_spent").await,
                expired: stack.metric("lease_expired").await,
                refunded: stack.metric("lease_refunded").await,
            };
            (account.leased == account.spent + account.expired && account.expired == account.refunded)
                .then_some(account)
        })
        .await
    }
}

/// Longer than leases and remembered denials.
const QUIET: Duration = Duration::from_millis(700);
