//! A circuit breaker: a server that doesn't answer is not asked again and again, each time for a whole
//! deadline.
//!
//! The crates that there are try a server again with somebody's request, who then waits for nothing. Here the
//! link to a server looks at it all the time anyway, so that the breaker only has to count.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// So many questions in a row without an answer open it. A pause of the server that is shorter than the
/// deadline never does; one that is longer does as soon as this many have waited in vain.
const THRESHOLD: u32 = 5;

/// Whether questions may be asked.
#[derive(Debug, Default)]
pub struct Breaker {
    failures: AtomicU32,
    is_open: AtomicBool,
    why: Mutex<Option<Arc<str>>>,
}

impl Breaker {
    /// Why nothing may be asked, if so.
    pub fn why_open(&self) -> Option<Arc<str>> {
        // The answer for nearly all questions costs one load.
        if !self.is_open.load(Ordering::Acquire) {
            return None;
        }
        self.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A question was answered, be it with a refusal.
    pub fn succeeded(&self) {
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// A question was not answered. Returns whether that opened the breaker.
    pub fn failed(&self, why: impl FnOnce() -> String) -> bool {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        failures >= THRESHOLD && self.open(why)
    }

    /// Opens it. Returns whether it was closed.
    pub fn open(&self, why: impl FnOnce() -> String) -> bool {
        let mut reason = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        *reason = Some(why().into());
        !self.is_open.swap(true, Ordering::AcqRel)
    }

    /// Closes it. Returns whether it was open.
    pub fn close(&self) -> bool {
        self.failures.store(0, Ordering::Relaxed);
        self.is_open.swap(false, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(breaker: &Breaker) -> bool {
        breaker.failed(|| "slow".to_owned())
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_closes_when_told() {
        let breaker = Breaker::default();
        for _ in 1..THRESHOLD {
            assert!(!fail(&breaker));
        }
        breaker.succeeded();
        for _ in 1..THRESHOLD {
            assert!(!fail(&breaker));
            assert_eq!(breaker.why_open(), None);
        }
        assert!(fail(&breaker));
        assert_eq!(breaker.why_open().as_deref(), Some("slow"));
        assert!(!fail(&breaker), "it was open before");
        breaker.succeeded();
        assert!(breaker.why_open().is_some(), "an answer to an old question doesn't close it");
        assert!(breaker.close());
        assert!(!breaker.close());
        assert_eq!(breaker.why_open(), None);
        assert!(!fail(&breaker), "it counts from the start");
    }
}
