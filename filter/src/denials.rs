//! The denial cache: a denial is repeated, without asking again, until the time at which it may no longer be one.
//!
//! Only what denied by itself is kept, and never for longer than the sidecar told the client to wait: who comes back
//! as told is asked about.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use crate::name;
use crate::wire::{Check, Verdict};

#[cfg(test)]
mod tests;
pub mod told;

/// How denials are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For how long at most; zero keeps none.
    pub max_age: Duration,
    /// How many at most.
    pub entries: usize,
}

#[derive(Debug)]
struct Denial {
    number: u64,
    cost: u64,
    arrived: Duration,
    until: Duration,
    verdict: Verdict,
}

/// A denial that a check would repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Which one it is: no other has this number, not even a later one of the same check.
    pub number: u64,
    /// [`Verdict::retry_after_ms`], as it is now.
    pub retry_after_ms: Option<u64>,
    /// [`Verdict::reset_ms`], as it is now.
    pub reset_ms: u64,
}

/// The denials that one worker remembers.
#[derive(Debug)]
pub struct Denials {
    limits: Limits,
    known: HashMap<Rc<str>, Denial>,
    /// The same names, in the order in which they came in.
    order: VecDeque<Rc<str>>,
    /// How many there were so far.
    count: u64,
    /// A name under construction: looking one up allocates nothing.
    name: String,
}

impl Denials {
    /// No denials yet.
    pub fn new(limits: Limits) -> Self {
        Self { limits, known: HashMap::new(), order: VecDeque::new(), count: 0, name: String::new() }
    }

    /// How many are kept, those that are over included.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there is none, so that nobody need look at the clock.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Remembers what of a denied request denied it. `verdicts` has one entry per check, and arrived at `now`.
    pub fn remember(&mut self, checks: &[Check], verdicts: &[Verdict], now: Duration) {
        for (check, verdict) in checks.iter().zip(verdicts) {
            // Of two equal keys in one request the second is decided after the first: its denial says nothing
            // about a request that has only one of them.
            let alone = || checks.iter().filter(|c| c.policy == check.policy && c.key == check.key).count() == 1;
            if !verdict.allowed && !verdict.shadow && alone() {
                self.keep(check, verdict, now);
            }
        }
    }

    fn keep(&mut self, check: &Check, verdict: &Verdict, now: Duration) {
        let told = verdict.retry_after_ms.map_or(Duration::MAX, Duration::from_millis);
        let age = told.min(self.limits.max_age);
        if age.is_zero() {
            return;
        }
        let (number, verdict) = (self.count, verdict.clone());
        let denial = Denial { number, cost: check.cost, arrived: now, until: now + age, verdict };
        self.count += 1;
        name::write(&mut self.name, check);
        if let Some(old) = self.known.get_mut(self.name.as_str()) {
            // That of a smaller cost says more.
            if old.until <= now || denial.cost <= old.cost {
                *old = denial;
            }
            return;
        }
        while let Some(oldest) = self.order.front() {
            let is_over = self.known.get(oldest).is_none_or(|denial| denial.until <= now);
            if !is_over && self.known.len() < self.limits.entries {
                break;
            }
            self.known.remove(oldest);
            self.order.pop_front();
        }
        let name: Rc<str> = self.name.as_str().into();
        self.order.push_back(Rc::clone(&name));
        self.known.insert(name, denial);
    }

    /// The denial that this check would repeat `now`.
    pub fn find(&mut self, check: &Check, now: Duration) -> Option<Found> {
        let Denial { number, cost, arrived, verdict, .. } =
            self.of(check).filter(|denial| now < denial.until && check.cost >= denial.cost)?;
        // Whole milliseconds, rounded down: what is left is never too little.
        let elapsed = u64::try_from(now.saturating_sub(*arrived).as_millis()).unwrap_or(u64::MAX);
        let left = |ms: u64| ms.saturating_sub(elapsed);
        // More than was denied has to wait longer, but never longer than until nothing is taken any more.
        let told = if check.cost == *cost {
            verdict.retry_after_ms
        } else {
            verdict.retry_after_ms.map(|ms| ms.max(verdict.reset_ms))
        };
        Some(Found { number: *number, retry_after_ms: told.map(left), reset_ms: left(verdict.reset_ms) })
    }

    /// The verdict of a denial that was just found for this check.
    pub fn verdict(&mut self, check: &Check, found: &Found) -> Option<Verdict> {
        let verdict = self.of(check)?.verdict.clone();
        Some(Verdict { retry_after_ms: found.retry_after_ms, reset_ms: found.reset_ms, ..verdict })
    }

    fn of(&mut self, check: &Check) -> Option<&Denial> {
        name::write(&mut self.name, check);
        self.known.get(self.name.as_str())
    }
}
