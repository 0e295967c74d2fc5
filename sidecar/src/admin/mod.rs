//! The admin API as it is written and read: what the admin listener answers, shared with the commands that ask it.
//!
//! Unknown fields of an answer are ignored, so that a newer sidecar can be asked by an older command.

pub mod client;
pub mod command;
mod text;

use serde::{Deserialize, Serialize};
use sluice_filter::wire::Verdict;

use crate::policy::{Algorithm, LeaseTerms, Policy};

/// All policies in force, by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyList {
    /// Which reading of the configuration this is: 1 at the start, one more for each change.
    pub generation: u64,
    /// The policies.
    pub policies: Vec<PolicyEntry>,
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyEntry {
    /// Its name.
    pub name: String,
    /// `fixed_window`, `sliding_window` or `token_bucket`.
    pub algorithm: String,
    /// Such as `100/s`.
    pub rate: String,
    /// What a token bucket holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// Whether a fixed window starts at multiples of its duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<bool>,
    /// Whether it is only tried out.
    pub shadow: bool,
    /// How tokens may be taken ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseEntry>,
    /// How many overrides there are.
    pub overrides: usize,
    /// All of the limit in words.
    pub limit_text: String,
}

/// How tokens of a policy may be taken ahead.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LeaseEntry {
    /// How many at once.
    pub max: u64,
    /// How much of what remains, above 0 to 1.
    pub share: f64,
    /// How long they may be spent.
    pub ttl_ms: u64,
}

/// What is kept of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspection {
    /// The policy.
    pub policy: String,
    /// The parts of the key.
    pub key: Vec<String>,
    /// The key in Redis.
    pub redis_key: String,
    /// What limits the key, in words: the policy's limit, or an override's.
    pub limit_text: String,
    /// The text that is kept, if there is any.
    pub state: Option<String>,
    /// How long it is kept; `null` beside a state is one that Sluice did not write.
    pub ttl_ms: Option<u64>,
    /// What the text means.
    pub meaning: Option<String>,
    /// What could be taken now.
    pub remaining: u64,
    /// Until the whole limit is available again if nothing else is taken.
    pub reset_ms: u64,
    /// Whether an override frees the key: it has no limit, and nothing is kept of it.
    pub unlimited: bool,
    /// The store's time, since the epoch; `null` if it was not asked.
    pub now_ms: Option<u64>,
}

/// What a check would say now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peeked {
    /// Its verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Whether this is what `on_store_error` says, because the store can't.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub degraded: bool,
}

/// What became of a reset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    /// The policy.
    pub policy: String,
    /// The parts of the key.
    pub key: Vec<String>,
    /// Whether anything was kept.
    pub existed: bool,
}

/// What came of reading the configuration again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// Which reading is in force now.
    pub generation: u64,
    /// Whether it is another one than before.
    pub changed: bool,
    /// The fields whose changes come into force with a restart.
    pub restart_needed: Vec<String>,
}

impl PolicyEntry {
    /// This policy in the list.
    pub fn new(name: &str, policy: &Policy) -> Self {
        let limit = policy.limit;
        let (algorithm, burst, align) = match limit.algorithm {
            Algorithm::FixedWindow { align } => ("fixed_window", None, Some(align)),
            Algorithm::SlidingWindow => ("sliding_window", None, None),
            Algorithm::TokenBucket { burst } => ("token_bucket", Some(burst), None),
        };
        Self {
            name: name.to_owned(),
            algorithm: algorithm.to_owned(),
            rate: limit.rate.to_string(),
            burst,
            align,
            shadow: limit.shadow,
            lease: policy.lease.map(LeaseEntry::from),
            overrides: policy.overrides.count(),
            limit_text: limit.to_string(),
        }
    }
}

impl From<LeaseTerms> for LeaseEntry {
    fn from(terms: LeaseTerms) -> Self {
        Self { max: terms.max, share: f64::from(terms.share_ppm) / 1e6, ttl_ms: terms.ttl_us / 1_000 }
    }
}
