//! One lease, and what is told of it.

use std::time::Duration;

use crate::wire::{Check, Verdict};

/// Tokens to be spent.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) left: u64,
    pub(super) until: Duration,
    /// For giving back what is left.
    pub(super) check: Check,
    pub(super) charge: u64,
    /// The numbers of the last verdict, and when it came. What it says remains is beside the lease.
    pub(super) limit: u64,
    pub(super) period_ms: u64,
    pub(super) remaining: u64,
    pub(super) reset_ms: u64,
    pub(super) told: Duration,
}

impl Lease {
    /// Takes over what a newer verdict says. Answers may overtake each other: what remains only goes down.
    pub(super) fn update(&mut self, verdict: &Verdict, now: Duration) {
        (self.limit, self.period_ms) = (verdict.limit, verdict.period_ms);
        (self.reset_ms, self.told) = (verdict.reset_ms, now);
        self.remaining = self.remaining.min(verdict.remaining);
    }

    pub(super) fn numbers(&self, now: Duration) -> Numbers {
        // Whole milliseconds, rounded down: what is left is never too little.
        let elapsed = u64::try_from(now.saturating_sub(self.told).as_millis()).unwrap_or(u64::MAX);
        Numbers {
            remaining: self.remaining.saturating_add(self.left),
            reset_ms: self.reset_ms.saturating_sub(elapsed),
            limit: self.limit,
            period_ms: self.period_ms,
        }
    }
}

/// What a verdict says in numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    pub(super) remaining: u64,
    pub(super) reset_ms: u64,
    pub(super) limit: u64,
    pub(super) period_ms: u64,
}
