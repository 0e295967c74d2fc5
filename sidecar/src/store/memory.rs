//! This process as the store: to try Sluice without Redis. Same decisions, but shared with nobody.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::{Kept, Outcome, Refund, Refunded, StoreCheck};
use crate::model::{self, State};

/// States are looked through for dead ones whenever there are twice as many as after the last time, so that
/// each costs a constant amount of work; below this number it isn't worth it.
const MIN_SWEEP: usize = 4096;

/// States in memory. Clones share them.
#[derive(Debug, Clone)]
pub struct MemoryStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The time since the epoch when the store was made, in microseconds, and the clock that goes on from
    /// there: it is never set back.
    start_us: u64,
    start: Instant,
    states: Mutex<States>,
}

#[derive(Debug)]
struct States {
    /// Each with the time from which it means nothing any more.
    by_key: HashMap<String, (State, u64)>,
    sweep_at: usize,
}

impl MemoryStore {
    pub(super) fn new() -> Self {
        let start_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
        Self(Arc::new(Inner {
            start_us: u64::try_from(start_us).unwrap_or(0),
            start: Instant::now(),
            states: Mutex::new(States { by_key: HashMap::new(), sweep_at: MIN_SWEEP }),
        }))
    }

    pub(super) fn decide(&self, requests: &[Vec<StoreCheck>]) -> Vec<Vec<Outcome>> {
        self.at_once(|states, now_us| states.decide(requests, now_us))
    }

    pub(super) fn refund(&self, refunds: &[Refund]) -> Vec<Refunded> {
        self.at_once(|states, now_us| refunds.iter().map(|refund| states.refund(refund, now_us)).collect())
    }

    /// Forgets everything that was counted.
    pub(super) fn forget(&self) {
        self.at_once(|states, _| *states = States { by_key: HashMap::new(), sweep_at: MIN_SWEEP });
    }

    /// Forgets a key. Returns whether it still meant anything.
    pub(super) fn forget_key(&self, key: &str) -> bool {
        self.at_once(|states, now_us| states.by_key.remove(key).is_some_and(|(_, end)| end > now_us))
    }

    pub(super) fn kept(&self, key: &str) -> Kept {
        self.at_once(|states, now_us| Kept {
            state: states.get(key, now_us).map(ToString::to_string),
            ttl_ms: states.by_key.get(key).map(|(_, end)| end.saturating_sub(now_us) / 1_000),
            now_us,
        })
    }

    fn at_once<T>(&self, call: impl FnOnce(&mut States, u64) -> T) -> T {
        let mut states = self.0.states.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock: decisions must not go back in time.
        let now_us = self.0.start_us + u64::try_from(self.0.start.elapsed().as_micros()).unwrap_or(u64::MAX / 2);
        call(&mut states, now_us)
    }
}

impl States {
    fn get(&self, key: &str, now_us: u64) -> Option<&State> {
        self.by_key.get(key).filter(|(_, end)| *end > now_us).map(|(state, _)| state)
    }

    fn refund(&mut self, refund: &Refund, now_us: u64) -> Refunded {
        let Refund { check, charge } = refund;
        let after = model::refund(self.get(&check.key, now_us), now_us, &check.limit, check.cost, *charge);
        let refunded = after.is_some();
        if let Some((state, ttl_us)) = after {
            self.by_key.insert(check.key.clone(), (state, now_us + ttl_us));
        }
        let now = model::decide(self.get(&check.key, now_us), now_us, &check.limit, 0).outcome;
        Refunded { refunded, remaining: now.remaining, reset_us: now.reset_us }
    }

    fn decide(&mut self, requests: &[Vec<StoreCheck>], now_us: u64) -> Vec<Vec<Outcome>> {
        let (outcomes, changes) = model::decide_requests(requests, now_us, |key| self.get(key, now_us).cloned());
        for (key, (state, ttl_us)) in changes {
            self.by_key.insert(key, (state, now_us + ttl_us));
        }
        if self.by_key.len() >= self.sweep_at {
            self.by_key.retain(|_, (_, end)| *end > now_us);
            self.sweep_at = MIN_SWEEP.max(2 * self.by_key.len());
        }
        outcomes
    }
}

#[cfg(test)]
mod tests {
    use super::super::Ahead;
    use super::*;
    use crate::policy::{Algorithm, Limit, Rate};

    fn request(key: String) -> Vec<StoreCheck> {
        let rate = Rate { count: 2, period_us: 1_000_000 };
        vec![StoreCheck {
            key,
            limit: Limit { algorithm: Algorithm::FixedWindow { align: false }, rate, shadow: false },
            cost: 1,
            ahead: Ahead::default(),
        }]
    }

    #[test]
    fn it_decides_and_its_clones_share_what_they_count() {
        let store = MemoryStore::new();
        let clone = store.clone();
        let allowed = |store: &MemoryStore| store.decide(&[request("k".to_owned())])[0][0].allowed;
        assert_eq!([allowed(&store), allowed(&clone), allowed(&store), allowed(&clone)], [true, true, false, false]);
    }

    #[test]
    fn a_key_that_is_forgotten_begins_anew_and_others_do_not() {
        let store = MemoryStore::new();
        let allowed = |key: &str| store.decide(&[request(key.to_owned())])[0][0].allowed;
        for key in ["a", "b"] {
            assert_eq!([allowed(key), allowed(key), allowed(key)], [true, true, false]);
        }
        assert!(store.forget_key("a"));
        assert!(!store.forget_key("a"), "there is nothing left of it");
        assert!(allowed("a") && !allowed("b"));
    }

    #[test]
    fn dead_states_are_swept_and_live_ones_kept() {
        let mut states = States { by_key: HashMap::new(), sweep_at: MIN_SWEEP };
        let mut most = 0;
        for i in 0..100_000_u64 {
            // A thousand keys a second, each alive for one.
            states.decide(&[request(i.to_string())], i * 1_000);
            most = most.max(states.by_key.len());
        }
        assert!((1_000..=MIN_SWEEP).contains(&most), "{most}");
        let last = states.decide(&[request("99999".to_owned())], 99_999 * 1_000);
        assert_eq!(last[0][0].remaining, 0);
    }
}
