//! What is told of the configuration and its reloads.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::counters::{Counters, ReloadOutcome, Series};

/// Which configuration is in force, and what became of later ones.
#[derive(Debug)]
pub struct ConfigMetrics {
    generation: Gauge,
    reloads: Counters<ReloadOutcome>,
    last_successful: Gauge,
    last_success_s: Gauge,
    restart_needed: Gauge,
}

impl ConfigMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let generation = Gauge::default();
        let help = "Which configuration is in force: 1 at the start, one more for each change";
        registry.register("config_generation", help, generation.clone());
        let reloads = Series::default();
        registry.register("config_reloads", "Readings of a changed configuration", reloads.clone());
        let last_successful = Gauge::default();
        let help = "Whether the configuration was good when it was last read";
        registry.register("config_last_reload_successful", help, last_successful.clone());
        let last_success_s = Gauge::default();
        let help = "When a good configuration was last read, in seconds since the epoch";
        registry.register_with_unit("config_last_reload_timestamp", help, Unit::Seconds, last_success_s.clone());
        let restart_needed = Gauge::default();
        let help = "Whether the configuration has changes that come into force with a restart only";
        registry.register("config_restart_needed", help, restart_needed.clone());
        let reloads = Counters::new(&reloads, &[], "outcome");
        let metrics = Self { generation, reloads, last_successful, last_success_s, restart_needed };
        // The first reading was good, or there would be no process.
        metrics.succeeded(1, false);
        metrics
    }

    /// Notes what came of a reading after the first.
    pub fn count(&self, outcome: ReloadOutcome) {
        self.reloads.add(outcome, 1);
    }

    /// Notes that the file is good, which generation is in force, and whether the file has changes that are not.
    pub fn succeeded(&self, generation: u64, restart_needed: bool) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.generation.set(i64::try_from(generation).unwrap_or(i64::MAX));
        self.last_successful.set(1);
        self.last_success_s.set(i64::try_from(now).unwrap_or(i64::MAX));
        self.restart_needed.set(i64::from(restart_needed));
    }

    /// Notes that the file is no good.
    pub fn failed(&self) {
        self.last_successful.set(0);
    }
}
