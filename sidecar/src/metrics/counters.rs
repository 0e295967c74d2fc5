//! Counters with labels from a list: one is found by its place, not by its text.

use std::marker::PhantomData;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use sluice_filter::wire::{Decision, Verdict};

use crate::engine::RefundError;

/// Counters by their labels.
pub(super) type Series = Family<Vec<(&'static str, String)>, Counter>;

/// The values of a label.
pub trait Label: Copy + 'static {
    /// All of them, in order.
    const ALL: &'static [(Self, &'static str)];

    /// Its place in the list.
    fn index(self) -> usize;
}

/// Lists the values of a label in the order in which they are declared.
macro_rules! label {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $value,)+
        }

        impl Label for $name {
            const ALL: &'static [(Self, &'static str)] = &[$((Self::$value, $text),)+];

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}

label! {
    /// What came of a check by itself. Its request is denied if another check of it was.
    CheckOutcome {
        /// It allowed.
        Allowed = "allowed",
        /// It denied.
        Denied = "denied",
        /// It would have denied, but its policy is only tried out.
        ShadowDenied = "shadow_denied",
        /// Its key has no limit.
        Unlimited = "unlimited",
        /// Its cost was 0: it only looked.
        Peeked = "peeked",
        /// It was decided without the store, as `on_store_error` says.
        Degraded = "degraded",
        /// The store did not decide.
        Undecided = "undecided",
    }
}

label! {
    /// What came of a request.
    RequestOutcome {
        /// It was allowed.
        Allowed = "allowed",
        /// It was denied.
        Denied = "denied",
        /// It was allowed without the store, as `on_store_error` says.
        DegradedAllowed = "degraded_allowed",
        /// It was denied without the store.
        DegradedDenied = "degraded_denied",
        /// It was not as it must be, such as with a policy that does not exist.
        Refused = "refused",
        /// The store did not decide.
        Undecided = "undecided",
        /// Who asked had gone before the store answered.
        Abandoned = "abandoned",
    }
}

label! {
    /// What came of a refund.
    RefundOutcome {
        /// It was given back.
        Refunded = "refunded",
        /// It did not count any more.
        Late = "late",
        /// The refund was not as it must be, and those beside it with it.
        Refused = "refused",
        /// The store did not answer.
        Undecided = "undecided",
    }
}

label! {
    /// What came of reading the configuration again.
    ReloadOutcome {
        /// It has changed, and is in force.
        Applied = "applied",
        /// It is good, and what can change without a restart is as before.
        Unchanged = "unchanged",
        /// It is no good, and what was before stays in force.
        Failed = "failed",
    }
}

label! {
    /// The status of an answer, of those that the sidecar gives.
    Status {
        /// Decided.
        Ok = "200",
        /// Malformed.
        BadRequest = "400",
        /// Without a token that is known.
        Unauthorized = "401",
        /// No such route or policy.
        NotFound = "404",
        /// Not with this method.
        MethodNotAllowed = "405",
        /// The body did not come in time.
        TooSlow = "408",
        /// Too large.
        TooLarge = "413",
        /// A single check that denied.
        TooMany = "429",
        /// The store did not decide, or the process is stopping.
        Unavailable = "503",
        /// Any other.
        Other = "other",
    }
}

impl Status {
    /// Its place in the list is all that is told of a status.
    pub fn of(status: u16) -> Self {
        match status {
            200 => Self::Ok,
            400 => Self::BadRequest,
            401 => Self::Unauthorized,
            404 => Self::NotFound,
            405 => Self::MethodNotAllowed,
            408 => Self::TooSlow,
            413 => Self::TooLarge,
            429 => Self::TooMany,
            503 => Self::Unavailable,
            _ => Self::Other,
        }
    }
}

impl RefundOutcome {
    /// What all refunds of a question have in common if it failed.
    pub fn of_error(error: &RefundError) -> Self {
        match error {
            RefundError::Refund(..) => Self::Refused,
            RefundError::Store(_) => Self::Undecided,
        }
    }
}

impl CheckOutcome {
    /// What a verdict says. Whether it was decided without the store matters more than how.
    pub fn of(verdict: &Verdict, cost: u64, is_degraded: bool) -> Self {
        match verdict {
            Verdict { unlimited: true, .. } => Self::Unlimited,
            _ if is_degraded => Self::Degraded,
            _ if cost == 0 => Self::Peeked,
            Verdict { allowed: true, .. } => Self::Allowed,
            Verdict { shadow: true, .. } => Self::ShadowDenied,
            _ => Self::Denied,
        }
    }
}

impl RequestOutcome {
    /// What a decision says.
    pub fn of(decision: &Decision) -> Self {
        match (decision.allowed, decision.degraded) {
            (true, false) => Self::Allowed,
            (false, false) => Self::Denied,
            (true, true) => Self::DegradedAllowed,
            (false, true) => Self::DegradedDenied,
        }
    }
}

/// A counter for each value of a label.
#[derive(Debug, Clone)]
pub struct Counters<L> {
    counters: Vec<Counter>,
    label: PhantomData<L>,
}

impl<L: Label> Counters<L> {
    /// Those of a series with these labels, and one more named `name`. All are there from now on, at 0.
    pub(super) fn new(series: &Series, labels: &[(&'static str, &str)], name: &'static str) -> Self {
        let counters = Self::labels(labels, name).map(|labels| series.get_or_create_owned(&labels)).collect();
        Self { counters, label: PhantomData }
    }

    /// Takes those of a series with these labels away.
    pub(super) fn remove(series: &Series, labels: &[(&'static str, &str)], name: &'static str) {
        for labels in Self::labels(labels, name) {
            series.remove(&labels);
        }
    }

    fn labels(
        labels: &[(&'static str, &str)],
        name: &'static str,
    ) -> impl Iterator<Item = Vec<(&'static str, String)>> {
        L::ALL.iter().map(move |(_, value)| {
            let labels = labels.iter().copied().chain([(name, *value)]);
            labels.map(|(name, value)| (name, value.to_owned())).collect()
        })
    }

    /// All values, with how often each was counted.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        L::ALL.iter().zip(&self.counters).map(|((_, text), counter)| (*text, counter.get()))
    }

    /// Adds to the counter of this value.
    pub fn add(&self, value: L, by: usize) {
        if let Some(counter) = self.counters.get(value.index()) {
            counter.inc_by(by as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_a_counter_of_its_own() {
        let series = Series::default();
        let counters: Counters<CheckOutcome> = Counters::new(&series, &[("policy", "p")], "outcome");
        for (by, (outcome, _)) in (1..).zip(CheckOutcome::ALL) {
            counters.add(*outcome, by);
        }
        for (by, (_, text)) in (1..).zip(CheckOutcome::ALL) {
            let labels = vec![("policy", "p".to_owned()), ("outcome", (*text).to_owned())];
            assert_eq!(series.get(&labels).unwrap().get(), by, "{text}");
        }
        assert!(counters.all().map(|(_, count)| count).eq(1..=CheckOutcome::ALL.len() as u64));
        Counters::<CheckOutcome>::remove(&series, &[("policy", "p")], "outcome");
        for (_, text) in CheckOutcome::ALL {
            assert!(series.get(&vec![("policy", "p".to_owned()), ("outcome", (*text).to_owned())]).is_none(), "{text}");
        }
    }

    #[test]
    fn a_status_is_counted_under_its_number() {
        for (status, text) in Status::ALL {
            let number = text.parse().unwrap_or(418);
            assert_eq!(Status::of(number), *status, "{text}");
        }
    }
}
