//! Leases: the sidecar charges tokens of a busy key ahead of their use, and they are spent here, without asking.
//!
//! What is spent was charged before, and what is not spent in time never is: it is given back. All times count from
//! when the question was sent, which is before the charge was made. So whatever a lease allows is within the limit, of a
//! fixed window even of the one window that it was taken from.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use crate::metrics::{Metric, Tally};
use crate::name;
use crate::wire::{self, Check, Refund, Verdict};

mod lease;
mod table;
#[cfg(test)]
mod tests;
mod usage;

use lease::{Lease, Numbers};
use table::Table;

/// A key that as many requests had within one ttl is a busy one: rarer ones are asked about each time.
pub const BUSY: u64 = 4;
/// The most refunds that go with one callout.
pub const MAX_REFUNDS: usize = 100;
/// No more refunds are added to one callout when there are as many bytes of them.
const REFUND_BYTES: usize = 32 * 1024;
/// No ttl is longer, whatever the sidecar says.
const MAX_TTL: Duration = Duration::from_mins(1);

/// How leases are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many keys are watched at most; with 0 no leases are taken.
    pub entries: usize,
}

/// A policy that leases.
#[derive(Debug)]
struct Policy {
    name: String,
    /// The longest that was told: at the end of a window it is shorter.
    ttl: Duration,
}

/// The leases of one worker, and what it needs to know for taking them.
#[derive(Debug)]
pub struct Leases {
    entries: usize,
    /// There are no more than the configuration names.
    policies: Vec<Policy>,
    keys: Table,
    /// When to look whether a lease is over, and whose: once for each key that has one.
    ends: BinaryHeap<Reverse<(Duration, Rc<str>)>>,
    refunds: VecDeque<Refund>,
    /// A name under construction: looking one up allocates nothing.
    name: String,
}

impl Leases {
    /// No leases yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            entries: limits.entries,
            policies: Vec::new(),
            keys: Table::default(),
            ends: BinaryHeap::new(),
            refunds: VecDeque::new(),
            name: String::new(),
        }
    }

    /// Whether nothing has to be ended or given back.
    pub fn is_idle(&self) -> bool {
        self.ends.is_empty() && self.refunds.is_empty()
    }

    /// Whether all of these checks may be leased, so that it is worth a look at the clock.
    pub fn concern(&self, checks: &[Check]) -> bool {
        !self.policies.is_empty() && checks.iter().all(|check| check.cost > 0 && self.ttl(&check.policy).is_some())
    }

    fn ttl(&self, policy: &str) -> Option<Duration> {
        self.policies.iter().find(|known| known.name == policy).map(|known| known.ttl)
    }

    /// Spends tokens for all checks of a request, or for none. Returns the verdict that headers show, the tightest.
    /// `None` if some check is not covered: the request has to be sent.
    pub fn spend(&mut self, checks: &[Check], now: Duration, tally: &mut Tally) -> Option<Verdict> {
        if self.ends.is_empty() {
            return None;
        }
        let mut shown: Option<(&Check, Numbers)> = None;
        for (index, check) in checks.iter().enumerate() {
            let Some(numbers) = self.take(check, now) else {
                checks.iter().take(index).for_each(|taken| self.put_back(taken));
                return None;
            };
            let is_tighter = shown.is_none_or(|(_, other)| {
                (Reverse(numbers.remaining), numbers.reset_ms) > (Reverse(other.remaining), other.reset_ms)
            });
            if is_tighter {
                shown = Some((check, numbers));
            }
        }
        for check in checks {
            tally.add(Metric::LeaseSpent, signed(check.cost));
        }
        shown.map(|(check, numbers)| Verdict {
            policy: check.policy.clone(),
            allowed: true,
            limit: numbers.limit,
            period_ms: numbers.period_ms,
            remaining: numbers.remaining,
            reset_ms: numbers.reset_ms,
            retry_after_ms: Some(0),
            charge: None,
            lease: None,
            unlimited: false,
            shadow: false,
        })
    }

    fn take(&mut self, check: &Check, now: Duration) -> Option<Numbers> {
        let ttl = self.ttl(&check.policy)?;
        name::write(&mut self.name, check);
        let key = self.keys.get_mut(&self.name)?;
        let lease = key.lease.as_mut().filter(|lease| now < lease.until && check.cost > 0)?;
        lease.left = lease.left.checked_sub(check.cost)?;
        key.usage.turn(ttl, now);
        key.usage.note_request();
        key.usage.note_cost(check.cost);
        Some(lease.numbers(now))
    }

    fn put_back(&mut self, check: &Check) {
        name::write(&mut self.name, check);
        if let Some(key) = self.keys.get_mut(&self.name)
            && let Some(lease) = &mut key.lease
        {
            lease.left = lease.left.saturating_add(check.cost);
            key.usage.take_back(check.cost);
        }
    }

    /// Notes that the checks of a request are about to be sent, and has those ask for tokens ahead that lack them.
    /// None of them asks unless all are of busy keys: a request of which one has to be asked about is sent anyway, and
    /// tokens for the others would lie idle. An answer is not waited for after `deadline`. True if one asks.
    pub fn ask(&mut self, checks: &mut [Check], now: Duration, deadline: Duration) -> bool {
        let mut all_busy = true;
        for check in checks.iter() {
            all_busy &= self.note(check, now);
        }
        if !all_busy {
            return false;
        }
        // A key that is there twice needs both.
        let of_the_key = |check: &Check, all: &[Check]| -> u64 {
            let same = all.iter().filter(|other| other.policy == check.policy && other.key == check.key);
            same.fold(0, |sum, other| sum.saturating_add(other.cost))
        };
        let needed: Vec<u64> = checks.iter().map(|check| of_the_key(check, checks)).collect();
        let mut asks = false;
        for (check, needed) in checks.iter_mut().zip(needed) {
            name::write(&mut self.name, check);
            let Some(key) = self.keys.get_mut(&self.name) else { continue };
            key.usage.note_cost(check.cost);
            let is_covered = key.lease.as_ref().is_some_and(|lease| now < lease.until && lease.left >= needed);
            if is_covered || key.asking.is_some_and(|until| now < until) {
                continue;
            }
            // As much as there was in the last ttl, but for what is taken right now.
            check.lease = key.usage.cost(now).saturating_sub(check.cost).min(crate::config::MAX_COST);
            if check.lease > 0 {
                key.asking = Some(deadline);
                asks = true;
            }
        }
        asks
    }

    /// Notes a request. True if the key is a busy one.
    fn note(&mut self, check: &Check, now: Duration) -> bool {
        let Some(ttl) = self.ttl(&check.policy) else { return false };
        name::write(&mut self.name, check);
        let Some(key) = self.keys.watch(&self.name, self.entries, ttl, now) else { return false };
        key.usage.turn(ttl, now);
        key.usage.note_request();
        check.cost > 0 && key.is_busy(now)
    }

    /// Takes what the answer to a request grants, and learns which policies lease. The question was `sent` before it
    /// was decided; the answer is here `now`. Verdicts are made to count what is leased as remaining: for the clients of
    /// this worker it is.
    pub fn learn(
        &mut self,
        checks: &[Check],
        verdicts: &mut [Verdict],
        sent: Duration,
        now: Duration,
        tally: &mut Tally,
    ) {
        if self.entries == 0 {
            return;
        }
        for (check, verdict) in checks.iter().zip(verdicts) {
            if check.lease > 0 {
                self.asked_in_vain(check);
            }
            if verdict.unlimited || verdict.shadow {
                continue;
            }
            if let Some(granted) = verdict.lease {
                let ttl = self.leasing(&check.policy, granted.ttl_ms);
                if granted.granted > 0 {
                    tally.add(Metric::Leased, signed(granted.granted));
                    self.grant(check, verdict, granted, (sent, ttl, now), tally);
                }
            } else if verdict.allowed && !self.policies.is_empty() {
                self.policies.retain(|known| known.name != check.policy);
            }
            if !self.ends.is_empty() {
                self.update(check, verdict, now);
            }
        }
    }

    /// Notes that an answer is there, or will not be.
    pub fn asked_in_vain(&mut self, check: &Check) {
        name::write(&mut self.name, check);
        if let Some(key) = self.keys.get_mut(&self.name) {
            key.asking = None;
        }
    }

    /// Notes that a policy leases, and returns for how long.
    fn leasing(&mut self, policy: &str, ttl_ms: u64) -> Duration {
        let ttl = Duration::from_millis(ttl_ms).clamp(Duration::from_millis(1), MAX_TTL);
        if let Some(known) = self.policies.iter_mut().find(|known| known.name == policy) {
            known.ttl = known.ttl.max(ttl);
            return known.ttl;
        }
        self.policies.push(Policy { name: policy.to_owned(), ttl });
        ttl
    }

    fn grant(
        &mut self,
        check: &Check,
        verdict: &Verdict,
        granted: wire::Lease,
        (sent, ttl, now): (Duration, Duration, Duration),
        tally: &mut Tally,
    ) {
        let until = sent + Duration::from_millis(granted.ttl_ms).min(MAX_TTL);
        let lease = Lease {
            left: granted.granted,
            until,
            check: check.clone(),
            charge: granted.charge,
            limit: verdict.limit,
            period_ms: verdict.period_ms,
            remaining: verdict.remaining,
            reset_ms: verdict.reset_ms,
            told: now,
        };
        name::write(&mut self.name, check);
        // It was forgotten if others needed its room: then there is none, and nothing to spend.
        if let Some(key) = self.keys.watch(&self.name, self.entries, ttl, now).filter(|_| now < until) {
            let old = key.lease.replace(lease);
            if !std::mem::replace(&mut key.is_looked_after, true) {
                self.ends.extend(self.keys.name(&self.name).map(|name| Reverse((until, name))));
            }
            // One at a time: what the older one has left was not enough for the request that asked.
            if let Some(old) = old {
                self.give_back(old, tally);
            }
        } else {
            self.give_back(lease, tally);
        }
    }

    fn update(&mut self, check: &Check, verdict: &mut Verdict, now: Duration) {
        name::write(&mut self.name, check);
        if let Some(key) = self.keys.get_mut(&self.name)
            && let Some(lease) = key.lease.as_mut().filter(|lease| now < lease.until)
        {
            lease.update(verdict, now);
            verdict.remaining = lease.numbers(now).remaining;
        }
    }

    /// Ends the leases whose time is up.
    pub fn expire(&mut self, now: Duration, tally: &mut Tally) {
        while let Some(Reverse((until, _))) = self.ends.peek()
            && *until <= now
            && let Some(Reverse((_, name))) = self.ends.pop()
        {
            let Some(key) = self.keys.get_mut(&name) else { continue };
            let ended = key.lease.take_if(|lease| lease.until <= now);
            match &key.lease {
                // Another one was granted meanwhile.
                Some(lease) => self.ends.push(Reverse((lease.until, name))),
                None => key.is_looked_after = false,
            }
            if let Some(lease) = ended {
                self.give_back(lease, tally);
            }
        }
    }

    /// Ends all leases, without giving anything back: there will be no more callouts.
    pub fn end(&mut self, tally: &mut Tally) {
        for lease in self.keys.values_mut().filter_map(|key| key.lease.take()) {
            tally.add(Metric::LeaseExpired, signed(lease.left));
        }
        self.ends.clear();
        self.refunds.clear();
    }

    fn give_back(&mut self, lease: Lease, tally: &mut Tally) {
        tally.add(Metric::LeaseExpired, signed(lease.left));
        // Nobody is let through by what gets lost here.
        if lease.left > 0 && self.refunds.len() < self.entries.max(MAX_REFUNDS) {
            let Check { policy, key, .. } = lease.check;
            self.refunds.push_back(Refund { policy, key, cost: lease.left, charge: lease.charge });
        }
    }

    /// Takes what the next callout gives back, as a JSON array, and how much that is. `None` if it is nothing.
    pub fn take_refunds(&mut self) -> Option<(String, u64)> {
        let (mut json, mut cost) = (String::new(), 0_u64);
        for _ in 0..MAX_REFUNDS {
            let Some(refund) = self.refunds.pop_front_if(|_| json.len() < REFUND_BYTES) else { break };
            // Texts and numbers always serialise.
            let Ok(one) = serde_json::to_string(&refund) else { continue };
            json.push(if json.is_empty() { '[' } else { ',' });
            json.push_str(&one);
            cost = cost.saturating_add(refund.cost);
        }
        (!json.is_empty()).then(|| (json + "]", cost))
    }

    /// How many keys are watched.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no key is watched.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
