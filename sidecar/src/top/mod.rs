//! The keys that were asked about most in the last minute, and those that were denied most.
//!
//! The memory for it is fixed, whatever clients send: see [`Sketch`]. A minute is a ring of sub-windows, each with
//! sketches of its own, so that what is older is forgotten as a whole.

mod name;
mod sketch;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use self::name::Name;
use self::sketch::Sketch;

/// What is told of: the sub-window of now and those before it, 50 to 60 s.
pub const WINDOW: Duration = Duration::from_mins(1);

const SUB_WINDOWS: usize = 6;

/// Entries of a sketch. Of N checks in a minute, a key's count is too high by N/512 at most, and all keys with more than
/// that are seen. As long as there are no more keys than this in ten seconds, counts are exact.
const ENTRIES: usize = 512;

/// Counts keys.
#[derive(Debug)]
pub struct Top {
    start: Instant,
    /// Keyed by chance, so that nobody can make keys that are taken for each other.
    hasher: RandomState,
    windows: Mutex<Windows>,
}

/// A check as it is counted.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    hash: u64,
    policy: &'a str,
    key: &'a [String],
    is_denied: bool,
}

/// The keys at the top.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How many seconds it is about, at most.
    pub window_s: u64,
    /// The keys that were asked about most.
    pub hottest: Vec<Entry>,
    /// The keys that were denied most.
    pub most_denied: Vec<Entry>,
}

/// A key at the top.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The policy.
    pub policy: String,
    /// The parts of the key, as the filter sent them.
    pub key: Vec<String>,
    /// Whether the key is longer than what is told of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// How many checks, or denied checks. Never too low.
    pub checks: u64,
    /// By how much that can be too high.
    pub error: u64,
}

#[derive(Debug)]
struct Windows {
    /// The number of the sub-window of now.
    number: u64,
    ring: [Sketches; SUB_WINDOWS],
}

#[derive(Debug)]
struct Sketches {
    checks: Sketch,
    denials: Sketch,
}

impl Default for Top {
    fn default() -> Self {
        Self { start: Instant::now(), hasher: RandomState::new(), windows: Mutex::new(Windows::new()) }
    }
}

impl Top {
    /// The time that [`count`](Self::count) and [`report`](Self::report) want.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// A check to be counted.
    pub fn seen<'a>(&self, policy: &'a str, key: &'a [String], is_denied: bool) -> Seen<'a> {
        Seen { hash: self.hasher.hash_one((policy, key)), policy, key, is_denied }
    }

    /// Counts the checks of a batch. Under one lock and without I/O; a key that is known takes no new memory.
    pub fn count(&self, seen: &[Seen<'_>], now: Duration) {
        if seen.is_empty() {
            return;
        }
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sketches) = windows.at(now) else { return };
        for Seen { hash, policy, key, is_denied } in seen {
            let write = |name: &mut Name| name.write(policy, key);
            sketches.checks.count(*hash, write);
            if *is_denied {
                sketches.denials.count(*hash, write);
            }
        }
    }

    /// The keys at the top, at most `count` of each kind.
    pub fn report(&self, count: usize, now: Duration) -> Report {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        windows.at(now);
        Report {
            window_s: WINDOW.as_secs(),
            hottest: top(windows.ring.iter().map(|sketches| &sketches.checks), count),
            most_denied: top(windows.ring.iter().map(|sketches| &sketches.denials), count),
        }
    }
}

impl Windows {
    fn new() -> Self {
        let sketches = |_| Sketches { checks: Sketch::new(ENTRIES), denials: Sketch::new(ENTRIES) };
        Self { number: 0, ring: std::array::from_fn(sketches) }
    }

    /// The sub-window of now. What is too old is forgotten.
    fn at(&mut self, now: Duration) -> Option<&mut Sketches> {
        let number = now.as_secs() * SUB_WINDOWS as u64 / WINDOW.as_secs();
        // Whoever took his time before somebody else counts a moment late.
        let passed = number.saturating_sub(self.number).min(SUB_WINDOWS as u64);
        for _ in 0..passed {
            self.number += 1;
            if let Some(sketches) = self.current() {
                sketches.checks.clear();
                sketches.denials.clear();
            }
        }
        // Which place of the ring is the current one doesn't matter when all of them are empty.
        self.number = self.number.max(number);
        self.current()
    }

    fn current(&mut self) -> Option<&mut Sketches> {
        let place = usize::try_from(self.number % SUB_WINDOWS as u64).unwrap_or(0);
        self.ring.get_mut(place)
    }
}

/// Adds sketches up. Where a key has no entry, it can have come as often as the least one that has.
fn top<'a>(sketches: impl Iterator<Item = &'a Sketch> + Clone, count: usize) -> Vec<Entry> {
    struct Sum<'a> {
        name: &'a Name,
        count: u64,
        error: u64,
        /// Of the sketches in which it has an entry.
        least: u64,
    }
    let least: u64 = sketches.clone().map(Sketch::least).sum();
    let mut sums: HashMap<u64, Sum<'_>> = HashMap::with_capacity(ENTRIES);
    for sketch in sketches {
        for entry in sketch.entries() {
            let sum = sums.entry(entry.hash).or_insert(Sum { name: entry.name, count: 0, error: 0, least: 0 });
            sum.count += entry.count;
            sum.error += entry.error;
            sum.least += sketch.least();
        }
    }
    let mut sums: Vec<Sum<'_>> = sums.into_values().collect();
    // By what is certain: among many keys that come once, those that others made room for would seem to be the hottest.
    let certain = |sum: &Sum<'_>| sum.count - sum.error;
    sums.sort_unstable_by(|a, b| {
        let by_name = || a.name.policy().cmp(b.name.policy()).then_with(|| a.name.key().cmp(b.name.key()));
        certain(b).cmp(&certain(a)).then_with(by_name)
    });
    let entry = |sum: &Sum<'_>| Entry {
        policy: sum.name.policy().to_owned(),
        key: sum.name.key().map(str::to_owned).collect(),
        cut: sum.name.is_cut(),
        checks: sum.count + (least - sum.least),
        error: sum.error + (least - sum.least),
    };
    sums.iter().take(count).map(entry).collect()
}
