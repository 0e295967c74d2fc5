//! The filter's metrics. Their names depend on nothing, least of all on traffic.

use crate::host::Host;

/// One metric. Envoy shows it as `wasmcustom.` and its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Requests allowed by a decision.
    Allowed,
    /// Requests denied, by a decision or for a missing key part.
    Denied,
    /// Those of them that were denied from memory, without asking the sidecar.
    DeniedLocally,
    /// Requests allowed by what was leased, without asking the sidecar. They are in `Allowed` too.
    AllowedLocally,
    /// Tokens that were charged ahead of use.
    Leased,
    /// Those of them that requests took.
    LeaseSpent,
    /// Those of them that nobody took in time.
    LeaseExpired,
    /// Those of the expired ones that a callout gave back.
    LeaseRefunded,
    /// Requests that the sidecar decided without its store, whatever the decision.
    Degraded,
    /// Requests that could not be decided and were let through.
    FailedOpen,
    /// Requests that could not be decided and were answered with an error.
    FailedClosed,
    /// Callouts to the sidecar that were tried.
    Callouts,
    /// Callouts that failed at once, were not answered in time, or were answered unusably.
    CalloutsFailed,
    /// Checks sent to the sidecar.
    Checks,
    /// Requests that wait for a decision now: a gauge.
    Pending,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 15] = [
        Self::Allowed,
        Self::Denied,
        Self::DeniedLocally,
        Self::AllowedLocally,
        Self::Leased,
        Self::LeaseSpent,
        Self::LeaseExpired,
        Self::LeaseRefunded,
        Self::Degraded,
        Self::FailedOpen,
        Self::FailedClosed,
        Self::Callouts,
        Self::CalloutsFailed,
        Self::Checks,
        Self::Pending,
    ];

    /// The name it is defined under.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "sluice_allowed",
            Self::Denied => "sluice_denied",
            Self::DeniedLocally => "sluice_denied_locally",
            Self::AllowedLocally => "sluice_allowed_locally",
            Self::Leased => "sluice_leased",
            Self::LeaseSpent => "sluice_lease_spent",
            Self::LeaseExpired => "sluice_lease_expired",
            Self::LeaseRefunded => "sluice_lease_refunded",
            Self::Degraded => "sluice_degraded",
            Self::FailedOpen => "sluice_failed_open",
            Self::FailedClosed => "sluice_failed_closed",
            Self::Callouts => "sluice_callouts",
            Self::CalloutsFailed => "sluice_callouts_failed",
            Self::Checks => "sluice_checks",
            Self::Pending => "sluice_pending",
        }
    }

    /// Whether it goes down as well as up.
    pub const fn is_gauge(self) -> bool {
        matches!(self, Self::Pending)
    }
}

/// Increments that wait to be handed to the host, so that a batch costs one call per metric.
#[derive(Debug, Default)]
pub struct Tally([i64; Metric::ALL.len()]);

impl Tally {
    /// Notes an increment.
    pub fn add(&mut self, metric: Metric, by: i64) {
        if let Some(sum) = self.0.get_mut(metric as usize) {
            *sum = sum.saturating_add(by);
        }
    }

    /// Hands everything noted to the host.
    pub fn flush(&mut self, host: &dyn Host) {
        for (metric, sum) in Metric::ALL.into_iter().zip(&mut self.0) {
            if *sum != 0 {
                host.count(metric, *sum);
                *sum = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Metric, Tally};
    use crate::host::fake::FakeHost;
    #[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn every_metric_has_its_own_sum() {
        let (mut tally, host) = (Tally::default(), FakeHost::default());
        for (metric, by) in Metric::ALL.into_iter().zip(1..) {
            tally.add(metric, by);
            tally.add(metric, 10);
        }
        tally.flush(&host);
        tally.flush(&host); // nothing is handed over twice
        for (metric, by) in Metric::ALL.into_iter().zip(1..) {
            assert_eq!(host.counted(metric), by + 10, "{metric:?}");
        }
    }
}
