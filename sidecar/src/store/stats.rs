//! What a store counts of itself.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a store, since it was made.
#[derive(Debug, Default)]
pub struct Stats {
    /// Questions that were not answered in time.
    pub timeouts: Counter,
    /// Questions whose connection broke, or that found none.
    pub unreachable: Counter,
    /// Questions that the server refused.
    pub refused: Counter,
    /// Answers that were none.
    pub malformed: Counter,
    /// Batches that were turned away because too many were in work.
    pub shed: Counter,
    /// Questions that were answered at once, because the server is known not to.
    pub not_asked: Counter,
    /// Batches that were decided without the store, as `on_store_error` says.
    pub degraded: Counter,
    /// Connections that were made to servers.
    pub connections: Counter,
    /// Scripts that were loaded because a server had lost them.
    pub script_loads: Counter,
    /// Redirects that were followed in a cluster.
    pub redirects: Counter,
}

/// Counts.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
