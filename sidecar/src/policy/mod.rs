//! Policies: named limits, and what of them applies to a key.

mod overrides;
pub(crate) mod rate;

use std::collections::HashMap;
use std::fmt;

pub use overrides::{Effect, Override, Overrides, Pattern};
pub use rate::{MAX_PERIOD_US, Rate, RateError};

/// The largest limit, burst and cost: what the script computes with exactly.
pub const MAX_COUNT: u64 = 1_000_000_000;

/// The longest time in which a token bucket may refill, 100 years. The script refuses 2^52 µs (142 years).
pub const MAX_REFILL_US: u128 = 100 * 365 * 86_400 * 1_000_000;

/// How a limit is counted. The meaning of each is told in `lua/`, where it is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// At most `limit` per window; the window starts at its first charge, or at multiples of the period.
    FixedWindow {
        /// Whether windows start at multiples of the period since the epoch.
        align: bool,
    },
    /// The current window plus the share of the previous one that the last period still covers.
    SlidingWindow,
    /// Holds `burst` tokens and refills continuously.
    TokenBucket {
        /// What the bucket holds, 1 to [`MAX_COUNT`].
        burst: u64,
    },
}

/// The numbers a check is decided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limit {
    /// How it is counted.
    pub algorithm: Algorithm,
    /// How many per how long. A count of 0 denies everything.
    pub rate: Rate,
    /// Whether it is only tried out: it is decided and counted, but never denies the request.
    pub shadow: bool,
}

impl Limit {
    /// What could ever be taken at once.
    pub fn most(&self) -> u64 {
        match self.algorithm {
            Algorithm::TokenBucket { burst } if self.rate.count > 0 => burst,
            _ => self.rate.count,
        }
    }
}

/// In words, such as `token_bucket 100/s, burst 200`.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.rate;
        match self.algorithm {
            _ if rate.count == 0 => f.write_str("blocked by an override")?,
            Algorithm::FixedWindow { align: false } => write!(f, "fixed_window {rate}")?,
            Algorithm::FixedWindow { align: true } => write!(f, "fixed_window {rate}, aligned")?,
            Algorithm::SlidingWindow => write!(f, "sliding_window {rate}")?,
            Algorithm::TokenBucket { burst } => write!(f, "token_bucket {rate}, burst {burst}")?,
        }
        f.write_str(if self.shadow { ", shadow" } else { "" })
    }
}

/// How tokens may be taken ahead of use, and spent by a filter without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTerms {
    /// How many at once.
    pub max: u64,
    /// How much of what remains, in millionths.
    pub share_ppm: u32,
    /// How long they may be spent, in microseconds.
    pub ttl_us: u64,
}

/// A named limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Whether tokens of it may be taken ahead.
    pub lease: Option<LeaseTerms>,
    /// What applies to a key that no override names.
    pub limit: Limit,
    /// Exceptions for single keys.
    pub overrides: Overrides,
}

impl Policy {
    /// What applies to this key: `None` if it is unlimited.
    pub fn limit_for(&self, key: &[String]) -> Option<Limit> {
        match self.overrides.find(key) {
            None => Some(self.limit),
            Some(Effect::Limit(limit)) => Some(*limit),
            Some(Effect::Unlimited) => None,
            Some(Effect::Blocked) => Some(Limit { rate: Rate { count: 0, ..self.limit.rate }, ..self.limit }),
        }
    }
}

/// All policies, by name.
pub type Policies = HashMap<String, Policy>;
