//! Where counts are kept, and how a decision is had from there.
//!
//! [`Store`] is an enum and not a trait: which stores there are is known, and a caller never brings its own.

mod address;
mod memory;
mod redis;
pub mod script;
mod slots;

use std::time::Duration;

pub use address::{AddressError, StoreAddress};

use self::memory::MemoryStore;
use self::redis::RedisStore;
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
    /// There is no connection, or it broke. If it broke after the question was sent, the charge may have
    /// been made.
    #[error("the store cannot be reached: {0}")]
    Unreachable(#[source] ::redis::RedisError),
    /// The server refused the command. Nothing was charged.
    #[error("the store refused: {0}")]
    Refused(#[source] ::redis::RedisError),
    /// The answer is not one of the script's.
    #[error("the store's answer is not one of the script: {0}")]
    Malformed(&'static str),
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

/// A place where counts are kept.
#[derive(Debug, Clone)]
pub enum Store {
    /// This process.
    Memory(MemoryStore),
    /// A Redis server.
    Redis(RedisStore),
}

impl Store {
    /// A store at this address. It connects in the background, and does so again whenever the connection is
    /// lost; until then it answers with errors.
    ///
    /// # Errors
    ///
    /// If the address can't be used at all.
    pub fn connect(address: &StoreAddress, timeout: Duration) -> Result<Self, StoreError> {
        match address {
            StoreAddress::Memory => Ok(Self::Memory(MemoryStore::new())),
            StoreAddress::Redis(info) => Ok(Self::Redis(RedisStore::connect(info, timeout)?)),
        }
    }

    /// Decides requests, each all-or-nothing and each seeing the charges of those before it. Returns an
    /// outcome per check, in order.
    ///
    /// # Errors
    ///
    /// If there is no decision within the timeout.
    pub async fn decide(&self, requests: &[Vec<StoreCheck>]) -> Result<Vec<Vec<Outcome>>, StoreError> {
        match self {
            Self::Memory(memory) => Ok(memory.decide(requests)),
            Self::Redis(redis) => redis.decide(requests).await,
        }
    }

    /// Gives charges back, each only as long as it still counts, and never to more than a full limit.
    ///
    /// # Errors
    ///
    /// If there is no answer within the timeout. What was given back is not known then.
    pub async fn refund(&self, refunds: &[Refund]) -> Result<Vec<Refunded>, StoreError> {
        match self {
            Self::Memory(memory) => Ok(memory.refund(refunds)),
            Self::Redis(redis) => redis.refund(refunds).await,
        }
    }

    /// Looks at a key.
    ///
    /// # Errors
    ///
    /// If there is no answer within the timeout.
    pub async fn kept(&self, key: &str) -> Result<Kept, StoreError> {
        match self {
            Self::Memory(memory) => Ok(memory.kept(key)),
            Self::Redis(redis) => redis.kept(key).await,
        }
    }

    /// What kind of store this is.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Redis(_) => "redis",
        }
    }

    /// Whether it can be used.
    pub fn state(&self) -> StoreState {
        match self {
            Self::Memory(_) => StoreState::Up,
            Self::Redis(redis) => redis.state(),
        }
    }
}
