//! What is counted of each policy.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::counters::{CheckOutcome, Counters, Series};
use crate::policy::Limit;
use crate::store::Outcome;

/// The series whose labels name policies.
#[derive(Debug, Default)]
pub struct PolicySeries {
    decisions: Series,
    near_limit: Series,
    cost_admitted: Series,
    cost_refunded: Series,
}

/// The counters of one policy.
#[derive(Debug, Clone)]
pub struct PolicyCounters {
    /// Its checks, by what came of them.
    pub decisions: Counters<CheckOutcome>,
    near_limit: Counter,
    cost_admitted: Counter,
    cost_refunded: Counter,
}

impl PolicySeries {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let series = Self::default();
        for (name, help, series) in [
            ("decisions", "Checks, by what came of each by itself", &series.decisions),
            ("near_limit", "Checks that left less than a fifth of their limit", &series.near_limit),
            ("cost_admitted", "What was charged, tokens taken ahead with it", &series.cost_admitted),
            ("cost_refunded", "What was given back of that", &series.cost_refunded),
        ] {
            registry.register(name, help, series.clone());
        }
        series
    }

    /// The counters of a policy: all its series are there from now on.
    pub fn of(&self, name: &str) -> PolicyCounters {
        let counter = |series: &Series| series.get_or_create_owned(&vec![("policy", name.to_owned())]);
        PolicyCounters {
            decisions: Counters::new(&self.decisions, &[("policy", name)], "outcome"),
            near_limit: counter(&self.near_limit),
            cost_admitted: counter(&self.cost_admitted),
            cost_refunded: counter(&self.cost_refunded),
        }
    }

    /// Takes the series of a policy away. What is still counted with its counters is told nobody.
    pub fn forget(&self, name: &str) {
        let policy = vec![("policy", name.to_owned())];
        for series in [&self.near_limit, &self.cost_admitted, &self.cost_refunded] {
            series.remove(&policy);
        }
        Counters::<CheckOutcome>::remove(&self.decisions, &[("policy", name)], "outcome");
    }
}

impl PolicyCounters {
    /// Notes what was charged for a check, if anything was. What a request took that was denied elsewhere, and what was
    /// decided without the store, was not charged.
    pub fn charged(&self, limit: &Limit, cost: u64, outcome: &Outcome) {
        if outcome.charge.is_none() {
            return;
        }
        self.cost_admitted.inc_by(cost + outcome.granted);
        if outcome.remaining * 5 < limit.most() {
            self.near_limit.inc();
        }
    }

    /// Notes what was given back.
    pub fn refunded(&self, cost: u64) {
        self.cost_refunded.inc_by(cost);
    }

    /// Checks that left less than a fifth of their limit.
    pub fn near_limit(&self) -> u64 {
        self.near_limit.get()
    }

    /// What was charged, tokens taken ahead with it.
    pub fn cost_admitted(&self) -> u64 {
        self.cost_admitted.get()
    }

    /// What was given back of that.
    pub fn cost_refunded(&self) -> u64 {
        self.cost_refunded.get()
    }
}
