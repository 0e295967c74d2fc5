//! What a request is marked with: properties for access logs, and no headers that only look like ours.

use crate::host::Host;
use crate::keys::Facts;
use crate::metrics::Metric;
use crate::spoofed;

/// The properties of a request that access logs can show.
const DECISION: &str = "sluice.decision";
const POLICY: &str = "sluice.policy";

/// How a request ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum Outcome {
    Allowed,
    Denied,
    FailedOpen,
    FailedClosed,
}

impl Outcome {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::FailedOpen => "failed_open",
            Self::FailedClosed => "failed_closed",
        }
    }

    pub(super) fn metric(self) -> Metric {
        match self {
            Self::Allowed => Metric::Allowed,
            Self::Denied => Metric::Denied,
            Self::FailedOpen => Metric::FailedOpen,
            Self::FailedClosed => Metric::FailedClosed,
        }
    }
}

/// Notes an outcome, and the policy that denied, where access logs find it.
pub(super) fn mark(host: &dyn Host, outcome: Outcome, policy: Option<&str>) {
    host.set_property(DECISION, outcome.name());
    if let Some(policy) = policy {
        host.set_property(POLICY, policy);
    }
}

/// Removes a client's own copies of headers that are ours to set. If another instance of this filter has decided the
/// request before, it has done that, and what is there now is its word.
pub(super) fn remove_spoofed(host: &dyn Host, facts: &Facts<'_>) {
    let mut names: Vec<&str> = facts.names().filter(|name| spoofed::is_ours(name)).collect();
    names.dedup();
    if !names.is_empty() && host.property(DECISION).is_none() {
        for name in names {
            host.remove_request_header(name);
        }
    }
}
