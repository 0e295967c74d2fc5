//! How much of a key is used: counted in periods of one ttl, of which the last two are kept.

use std::time::Duration;

/// What one worker saw of a key.
#[derive(Debug)]
pub(super) struct Usage {
    ttl: Duration,
    /// When the current period began.
    since: Duration,
    current: Count,
    previous: Count,
}

#[derive(Debug, Default)]
struct Count {
    /// Requests that had the key.
    times: u64,
    /// What those of them took that could have been decided here.
    cost: u64,
}

impl Usage {
    pub(super) fn new(ttl: Duration, now: Duration) -> Self {
        Self { ttl, since: now, current: Count::default(), previous: Count::default() }
    }

    /// Begins a new period, if it is time.
    pub(super) fn turn(&mut self, ttl: Duration, now: Duration) {
        self.ttl = ttl;
        let elapsed = now.saturating_sub(self.since);
        if elapsed < ttl {
            return;
        }
        let current = std::mem::take(&mut self.current);
        if elapsed < ttl * 2 {
            (self.previous, self.since) = (current, self.since + ttl);
        } else {
            (self.previous, self.since) = (Count::default(), now);
        }
    }

    pub(super) fn note_request(&mut self) {
        self.current.times = self.current.times.saturating_add(1);
    }

    pub(super) fn note_cost(&mut self, cost: u64) {
        self.current.cost = self.current.cost.saturating_add(cost);
    }

    pub(super) fn take_back(&mut self, cost: u64) {
        self.current.times = self.current.times.saturating_sub(1);
        self.current.cost = self.current.cost.saturating_sub(cost);
    }

    /// How many requests there were in the last ttl.
    pub(super) fn times(&self, now: Duration) -> u64 {
        self.in_one_ttl(now, |count| count.times)
    }

    /// What was taken in the last ttl.
    pub(super) fn cost(&self, now: Duration) -> u64 {
        self.in_one_ttl(now, |count| count.cost)
    }

    /// Whether there was nothing in the last ttl, and nothing that still counts.
    pub(super) fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.since) >= self.ttl * 2
    }

    /// The current period, and of the previous one the share that is less than a ttl ago.
    fn in_one_ttl(&self, now: Duration, what: impl Fn(&Count) -> u64) -> u64 {
        let left = self.ttl.saturating_sub(now.saturating_sub(self.since)).as_micros();
        let share = u128::from(what(&self.previous)) * left / self.ttl.as_micros().max(1);
        what(&self.current).saturating_add(u64::try_from(share).unwrap_or(u64::MAX))
    }
}
