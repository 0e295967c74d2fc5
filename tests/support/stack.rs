//! The usual arrangement: one Redis, sidecars, Envoys.

use serde_json::{Value, json};

use super::{Envoy, EnvoyOptions, Redis, Sidecar, assert_invariants, eventually};

/// A plugin configuration with these rules. The deadline is generous: except where deadlines are the point, a busy
/// machine must not turn a verdict into `on_error`.
pub fn plugin_config(rules: &Value) -> Value {
    json!({"sidecar": {"cluster": "sluice", "timeout": "2s"}, "on_error": "deny", "rules": rules})
}

/// Everything that a request passes.
#[derive(Debug)]
pub struct Stack {
    pub redis: Redis,
    pub sidecars: Vec<Sidecar>,
    pub envoys: Vec<Envoy>,
}

impl Stack {
    /// One of each.
    pub async fn start(policies: &Value, rules: &Value) -> Self {
        Self::start_with(1, 1, policies, |options| options.plugin = plugin_config(rules)).await
    }

    /// `sidecars` sidecars behind each of `envoys` Envoys.
    pub async fn start_with(
        sidecars: usize,
        envoys: usize,
        policies: &Value,
        change: impl FnOnce(&mut EnvoyOptions),
    ) -> Self {
        let redis = Redis::start().await;
        let mut stack = Self { redis, sidecars: Vec::new(), envoys: Vec::new() };
        for _ in 0..sidecars {
            stack.sidecars.push(Sidecar::start(stack.redis.port(), policies).await);
        }
        let sidecars = stack.sidecars.iter().map(Sidecar::port).collect();
        let mut options = EnvoyOptions { sidecars, ..EnvoyOptions::default() };
        change(&mut options);
        for _ in 0..envoys {
            stack.envoys.push(Envoy::start(&options).await);
        }
        stack
    }

    /// The first Envoy.
    pub fn envoy(&self) -> &Envoy {
        &self.envoys[0]
    }

    /// The first sidecar.
    pub fn sidecar(&self) -> &Sidecar {
        &self.sidecars[0]
    }

    /// A metric of the plugin's, of all Envoys together.
    pub async fn metric(&self, name: &str) -> u64 {
        let mut sum = 0;
        for envoy in &self.envoys {
            sum += envoy.metric(name).await;
        }
        sum
    }

    /// Waits until a metric of the plugin's has reached this count: what it decides itself it counts at its next tick.
    pub async fn counted(&self, name: &str, count: u64) {
        let what = format!("{count} are counted as {name}");
        eventually(&what, async || (self.metric(name).await == count).then_some(())).await;
    }

    /// The last line of every test.
    pub async fn assert_invariants(&mut self, secrets: &[&str]) {
        let logs: Vec<_> = self.sidecars.iter().map(|sidecar| sidecar.process.log()).collect();
        assert_invariants(&self.redis, &mut self.envoys, &logs, secrets).await;
    }
}
