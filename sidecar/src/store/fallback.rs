//! What is decided when the store can't.

use super::memory::MemoryStore;
use super::redis::RedisStore;
use super::{Ahead, OnStoreError, Outcome, Share, StoreCheck, StoreError, StoreState};
use crate::policy::{Algorithm, Limit, MAX_PERIOD_US, Rate};

/// When to ask again, in microseconds, if every limit is treated as used up: the store may be back by then.
const RETRY_AFTER_US: u64 = 1_000_000;

/// Decides without the store.
#[derive(Debug, Clone)]
pub enum Fallback {
    /// Not at all.
    Fail,
    /// Denies.
    Deny,
    /// Allows.
    Allow,
    /// By what this process has counted itself, up to a share of each limit.
    Local(MemoryStore, Share),
}

impl Fallback {
    /// What this setting asks for.
    pub fn new(setting: OnStoreError) -> Self {
        match setting {
            OnStoreError::Fail => Self::Fail,
            OnStoreError::Deny => Self::Deny,
            OnStoreError::Allow => Self::Allow,
            OnStoreError::Local(share) => Self::Local(MemoryStore::new(), share),
        }
    }

    /// What it counts in, if it counts.
    pub fn memory(&self) -> Option<&MemoryStore> {
        match self {
            Self::Local(memory, _) => Some(memory),
            Self::Fail | Self::Deny | Self::Allow => None,
        }
    }

    /// Decides requests that the store couldn't.
    ///
    /// # Errors
    ///
    /// The store's, if nothing else is wanted.
    pub fn decide(&self, requests: &[Vec<StoreCheck>], error: StoreError) -> Result<Vec<Vec<Outcome>>, StoreError> {
        let each = |outcome: fn(&StoreCheck) -> Outcome| {
            requests.iter().map(|request| request.iter().map(outcome).collect()).collect()
        };
        match self {
            Self::Fail => Err(error),
            Self::Deny => Ok(each(denied)),
            Self::Allow => Ok(each(allowed)),
            Self::Local(memory, share) => {
                let shared = |check: &StoreCheck| StoreCheck {
                    limit: part_of(&check.limit, *share),
                    ahead: Ahead::default(),
                    ..check.clone()
                };
                let requests: Vec<Vec<_>> =
                    requests.iter().map(|request| request.iter().map(shared).collect()).collect();
                let mut outcomes = memory.decide(&requests);
                for outcome in outcomes.iter_mut().flatten() {
                    // The store knows nothing of it, and could not give it back.
                    outcome.charge = None;
                }
                Ok(outcomes)
            }
        }
    }
}

fn denied(check: &StoreCheck) -> Outcome {
    Outcome {
        allowed: false,
        remaining: 0,
        retry_after_us: (check.cost <= check.limit.most() && check.limit.rate.count > 0).then_some(RETRY_AFTER_US),
        reset_us: RETRY_AFTER_US,
        charge: None,
        granted: 0,
    }
}

/// What never fits is denied all the same: for that, nothing needs to be known.
fn allowed(check: &StoreCheck) -> Outcome {
    let most = check.limit.most();
    if check.cost > most || most == 0 {
        return Outcome {
            allowed: false,
            remaining: most,
            retry_after_us: None,
            reset_us: 0,
            charge: None,
            granted: 0,
        };
    }
    Outcome {
        allowed: true,
        remaining: most - check.cost,
        retry_after_us: Some(0),
        reset_us: 0,
        charge: None,
        granted: 0,
    }
}

/// A part of a limit. Where the count is too small to be divided, the period is made longer instead.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "counts are at most 10^9 and periods at most 10^14, so that all are exact in a double, and positive"
)]
fn part_of(limit: &Limit, share: Share) -> Limit {
    let share = share.get();
    let part = limit.rate.count as f64 * share;
    let rate = if limit.rate.count == 0 || part >= 1.0 {
        Rate { count: part as u64, ..limit.rate }
    } else {
        let period_us = (limit.rate.period_us as f64 / part).ceil() as u64;
        Rate { count: 1, period_us: period_us.min(MAX_PERIOD_US) }
    };
    let algorithm = match limit.algorithm {
        Algorithm::TokenBucket { burst } => Algorithm::TokenBucket { burst: ((burst as f64 * share) as u64).max(1) },
        other => other,
    };
    Limit { algorithm, rate, ..*limit }
}

/// Has this process forget what it counted itself whenever the store is back: from then on, the store's
/// counts are the ones that matter, and the next time it is away, everybody starts with a whole share.
pub async fn forget_after_outages(store: RedisStore, memory: MemoryStore) {
    let mut was_down = false;
    loop {
        store.changed().await;
        match store.state() {
            StoreState::Down(_) => was_down = true,
            StoreState::Unknown => {}
            StoreState::Up => {
                if was_down {
                    memory.forget();
                }
                was_down = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(algorithm: Algorithm, count: u64, period_us: u64) -> Limit {
        Limit { algorithm, rate: Rate { count, period_us }, shadow: false }
    }

    fn check(limit: Limit, cost: u64) -> StoreCheck {
        StoreCheck { key: "k".to_owned(), limit, cost, ahead: Ahead::default() }
    }

    const WINDOW: Algorithm = Algorithm::FixedWindow { align: false };

    #[test]
    fn a_part_of_a_limit_is_its_share_of_the_rate() {
        let bucket = |burst| Algorithm::TokenBucket { burst };
        let table = [
            (limit(WINDOW, 100, 1_000), 0.5, limit(WINDOW, 50, 1_000)),
            (limit(WINDOW, 100, 1_000), 1.0, limit(WINDOW, 100, 1_000)),
            (limit(WINDOW, 7, 1_000), 0.5, limit(WINDOW, 3, 1_000)),
            (limit(WINDOW, 1, 1_000), 0.25, limit(WINDOW, 1, 4_000)),
            (limit(WINDOW, 3, 1_000), 0.25, limit(WINDOW, 1, 1_334)),
            (limit(WINDOW, 1, MAX_PERIOD_US), 0.5, limit(WINDOW, 1, MAX_PERIOD_US)),
            (limit(WINDOW, 0, 1_000), 0.5, limit(WINDOW, 0, 1_000)),
            (limit(bucket(200), 100, 1_000), 0.25, limit(bucket(50), 25, 1_000)),
            (limit(bucket(2), 1, 1_000), 0.25, limit(bucket(1), 1, 4_000)),
        ];
        for (whole, share, part) in table {
            assert_eq!(part_of(&whole, Share::new(share).unwrap()), part, "{share} of {whole:?}");
        }
    }

    #[test]
    fn what_is_decided_is_what_was_asked_for() {
        let error = || StoreError::Malformed("x");
        let bucket = limit(Algorithm::TokenBucket { burst: 20 }, 10, 1_000_000);
        let requests = vec![vec![check(bucket, 2), check(bucket, 21), check(limit(WINDOW, 0, 1), 1)]];
        let ask = |setting| {
            Fallback::new(setting).decide(&requests, error()).map(|outcomes| {
                let of = |o: &Outcome| (o.allowed, o.remaining, o.retry_after_us);
                outcomes[0].iter().map(of).collect::<Vec<_>>()
            })
        };
        assert!(matches!(ask(OnStoreError::Fail), Err(StoreError::Malformed("x"))));
        let second = Some(RETRY_AFTER_US);
        assert_eq!(ask(OnStoreError::Deny).unwrap(), [(false, 0, second), (false, 0, None), (false, 0, None)]);
        assert_eq!(ask(OnStoreError::Allow).unwrap(), [(true, 18, Some(0)), (false, 20, None), (false, 0, None)]);
    }

    #[test]
    fn local_counts_up_to_its_share_and_forgets_when_told() {
        let fallback = Fallback::new(OnStoreError::Local(Share::of(4)));
        let requests = vec![vec![check(limit(WINDOW, 8, 1_000_000_000), 1)]];
        let ask = || fallback.decide(&requests, StoreError::Malformed("x")).unwrap()[0][0];
        let allowed: Vec<bool> = (0..3).map(|_| ask().allowed).collect();
        assert_eq!(allowed, [true, true, false]);
        assert_eq!(ask().charge, None);
        fallback.memory().unwrap().forget();
        assert!(ask().allowed);
    }
}
