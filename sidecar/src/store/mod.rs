//! Where counts are kept, and how a decision is had from there.
//!
//! [`Store`] is an enum and not a trait: which stores there are is known, and a caller never brings its own.

mod address;
mod fallback;
mod memory;
mod redis;
pub mod script;
mod secret;
mod settings;
pub mod stats;

use std::sync::Arc;
use std::time::Duration;

pub use address::{AddressError, StoreAddress};
pub use secret::Secret;
pub use settings::{OnStoreError, SentinelLogin, Share, StoreSettings, TlsFiles};

use self::fallback::Fallback;
use self::memory::MemoryStore;
pub use self::redis::DialError;
use self::redis::RedisStore;
use self::stats::Stats;
use crate::policy::Limit;

/// One check as a store decides it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreCheck {
    /// The state key.
    pub key: String,
    /// The numbers.
    pub limit: Limit,
    /// What is to be taken; 0 is a peek.
    pub cost: u64,
    /// What is wanted ahead.
    pub ahead: Ahead,
}

/// Tokens wanted ahead of use, on top of a cost. By default none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ahead {
    /// How many at most, 0 to [`MAX_COUNT`](crate::policy::MAX_COUNT).
    pub want: u64,
    /// How much of what remains may be granted, in millionths.
    pub share_ppm: u32,
}

/// What a store says of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Whether this check by itself allows.
    pub allowed: bool,
    /// What could be taken now.
    pub remaining: u64,
    /// Until the check can be allowed, in microseconds; `None` if waiting doesn't help.
    pub retry_after_us: Option<u64>,
    /// Until the whole limit is available again, in microseconds.
    pub reset_us: u64,
    /// What was charged, if anything was: the time until which it counts, in microseconds since the epoch.
    pub charge: Option<u64>,
    /// What was granted ahead, and charged with the cost.
    pub granted: u64,
}

/// A charge to be given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refund {
    /// The check it was made for.
    pub check: StoreCheck,
    /// The outcome's [`charge`](Outcome::charge).
    pub charge: u64,
}

/// What became of a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refunded {
    /// Whether it was given back. If not, it does not count any more.
    pub refunded: bool,
    /// What could be taken now.
    pub remaining: u64,
    /// Until the whole limit is available again, in microseconds.
    pub reset_us: u64,
}

/// What is kept under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The text, if there is one.
    pub state: Option<String>,
    /// How long it is kept, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// The store's time, in microseconds since the epoch.
    pub now_us: u64,
}

/// Why a store couldn't decide. Nothing is known of what was charged, except where it says so.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No answer within the store timeout. The charge may have been made.
    #[error("the store did not answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The connection broke after the question was sent. The charge may have been made.
    #[error("the connection to the store broke: {0}")]
    Unreachable(#[source] ::redis::RedisError),
    /// The server refused the command. Nothing was charged.
    #[error("the store refused: {0}")]
    Refused(#[source] ::redis::RedisError),
    /// It is known to be down, and was not asked. Nothing was charged.
    #[error("the store is down: {0}")]
    Down(Arc<str>),
    /// Too many batches are in work. Nothing was charged.
    #[error("{0} batches are in work already (limits.in_flight): try again later, or run more sidecars")]
    Overloaded(usize),
    /// The answer is not one of the script's.
    #[error("the store's answer is not one of the script: {0}")]
    Malformed(&'static str),
}

impl StoreError {
    /// The kind of it in one word, as metrics have it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Timeout(_) => "timeout",
            Self::Unreachable(_) => "unreachable",
            Self::Refused(_) => "refused",
            Self::Down(_) => "not_asked",
            Self::Overloaded(_) => "shed",
            Self::Malformed(_) => "malformed",
        }
    }
}

/// Whether the store can be used, as last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreState {
    /// Not looked yet.
    Unknown,
    /// It answered.
    Up,
    /// It didn't, and why.
    Down(String),
}

/// What a store decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// An outcome per check, in order.
    pub outcomes: Vec<Vec<Outcome>>,
    /// Whether this was decided without the store, as [`OnStoreError`] says.
    pub is_degraded: bool,
}

/// A place where counts are kept, and what is decided when it is away.
#[derive(Debug, Clone)]
pub struct Store {
    backend: Backend,
    fallback: Fallback,
}

#[derive(Debug, Clone)]
enum Backend {
    /// This process.
    Memory(MemoryStore),
    /// Redis.
    Redis(RedisStore),
}

impl Store {
    /// A store with these settings. It connects in the background, and does so again whenever a connection is
    /// lost.
    ///
    /// # Errors
    ///
    /// If files that it needs can't be used.
    pub fn connect(settings: &StoreSettings) -> Result<Self, DialError> {
        let backend = match &settings.address {
            StoreAddress::Memory => Backend::Memory(MemoryStore::new()),
            StoreAddress::Redis(address) => Backend::Redis(RedisStore::connect(address, settings)?),
        };
        let fallback = Fallback::new(settings.on_error);
        if let (Backend::Redis(redis), Some(memory)) = (&backend, fallback.memory()) {
            tokio::spawn(fallback::forget_after_outages(redis.clone(), memory.clone()));
        }
        Ok(Self { backend, fallback })
    }

    /// Decides requests, each all-or-nothing and each seeing the charges of those before it.
    ///
    /// # Errors
    ///
    /// If there is no decision within the timeout, and [`OnStoreError::Fail`] is set.
    pub async fn decide(&self, requests: &[Vec<StoreCheck>]) -> Result<Decided, StoreError> {
        let outcomes = match &self.backend {
            Backend::Memory(memory) => Ok(memory.decide(requests)),
            Backend::Redis(redis) => redis.decide(requests).await,
        };
        match outcomes {
            Ok(outcomes) => Ok(Decided { outcomes, is_degraded: false }),
            Err(error) => {
                let outcomes = self.fallback.decide(requests, error)?;
                if let Some(stats) = self.stats() {
                    stats.degraded.count();
                }
                Ok(Decided { outcomes, is_degraded: true })
            }
        }
    }

    /// Gives charges back, each only as long as it still counts, and never to more than a full limit.
    ///
    /// # Errors
    ///
    /// If there is no answer within the timeout. What was given back is not known then.
    pub async fn refund(&self, refunds: &[Refund]) -> Result<Vec<Refunded>, StoreError> {
        match &self.backend {
            Backend::Memory(memory) => Ok(memory.refund(refunds)),
            Backend::Redis(redis) => redis.refund(refunds).await,
        }
    }

    /// Looks at a key.
    ///
    /// # Errors
    ///
    /// If there is no answer within the timeout.
    pub async fn kept(&self, key: &str) -> Result<Kept, StoreError> {
        match &self.backend {
            Backend::Memory(memory) => Ok(memory.kept(key)),
            Backend::Redis(redis) => redis.kept(key).await,
        }
    }

    /// Forgets a key, as if it had never been asked about. Returns whether anything was kept of it.
    ///
    /// # Errors
    ///
    /// If there is no answer within the timeout. Whether it was forgotten is not known then.
    pub async fn forget(&self, key: &str) -> Result<bool, StoreError> {
        // What this process has counted itself while the store was away goes first: that can't fail.
        let was_local = self.fallback.memory().is_some_and(|memory| memory.forget_key(key));
        let was_kept = match &self.backend {
            Backend::Memory(memory) => memory.forget_key(key),
            Backend::Redis(redis) => redis.forget(key).await?,
        };
        Ok(was_kept || was_local)
    }

    /// What kind of store this is.
    pub fn kind(&self) -> &'static str {
        match &self.backend {
            Backend::Memory(_) => "memory",
            Backend::Redis(_) => "redis",
        }
    }

    /// Whether it can be used.
    pub fn state(&self) -> StoreState {
        match &self.backend {
            Backend::Memory(_) => StoreState::Up,
            Backend::Redis(redis) => redis.state(),
        }
    }

    /// What somebody should know of it, though it works.
    pub fn warnings(&self) -> Vec<String> {
        match &self.backend {
            Backend::Memory(_) => Vec::new(),
            Backend::Redis(redis) => redis.warnings(),
        }
    }

    /// How many of its servers are not asked at the moment, because they left several questions in a row unanswered: 0 or
    /// 1, and in a cluster up to the number of its nodes.
    pub fn breakers_open(&self) -> usize {
        match &self.backend {
            Backend::Memory(_) => 0,
            Backend::Redis(redis) => redis.breakers_open(),
        }
    }

    /// What it has counted; memory counts nothing.
    pub fn stats(&self) -> Option<&Stats> {
        match &self.backend {
            Backend::Memory(_) => None,
            Backend::Redis(redis) => Some(redis.stats()),
        }
    }

    /// How many batches are in work.
    pub fn in_flight(&self) -> usize {
        match &self.backend {
            Backend::Memory(_) => 0,
            Backend::Redis(redis) => redis.in_flight(),
        }
    }
}
