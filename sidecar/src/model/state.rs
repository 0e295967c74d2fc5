//! States, and the text they are kept as.

use std::fmt;
use std::str::FromStr;

/// What is kept of a key between two checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Of a fixed window.
    FixedWindow {
        /// What was taken in it.
        count: u64,
        /// When it ends, in microseconds since the epoch.
        end_us: u64,
        /// How long it was meant to be when this was written.
        period_us: u64,
    },
    /// Of a sliding window.
    SlidingWindow {
        /// The number of the window since the epoch.
        index: u64,
        /// What was taken in it.
        current: u64,
        /// What was taken in the one before.
        previous: u64,
        /// How long windows were when this was written.
        period_us: u64,
    },
    /// Of a token bucket.
    TokenBucket {
        /// When it is full again, in microseconds since the epoch, rounded down.
        full_at_us: u64,
        /// The fraction of a microsecond to that, as `rest` of `limit` parts.
        rest: u64,
        /// The limit this was written under.
        limit: u64,
        /// The period this was written under.
        period_us: u64,
    },
}

/// A text that is no state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a state that Sluice wrote")]
pub struct NoState;

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FixedWindow { count, end_us, period_us } => write!(f, "f:{count}:{end_us}:{period_us}"),
            Self::SlidingWindow { index, current, previous, period_us } => {
                write!(f, "s:{index}:{current}:{previous}:{period_us}")
            }
            Self::TokenBucket { full_at_us, rest, limit, period_us } => {
                write!(f, "t:{full_at_us}:{rest}:{limit}:{period_us}")
            }
        }
    }
}

impl FromStr for State {
    type Err = NoState;

    fn from_str(text: &str) -> Result<Self, NoState> {
        let number = |text: &str| -> Result<u64, NoState> {
            // `parse` alone would take a sign.
            let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            if is_digits { text.parse().map_err(|_| NoState) } else { Err(NoState) }
        };
        let fields: Vec<&str> = text.split(':').collect();
        match fields.as_slice() {
            ["f", count, end_us, period_us] => {
                Ok(Self::FixedWindow { count: number(count)?, end_us: number(end_us)?, period_us: number(period_us)? })
            }
            ["s", index, current, previous, period_us] => Ok(Self::SlidingWindow {
                index: number(index)?,
                current: number(current)?,
                previous: number(previous)?,
                period_us: number(period_us)?,
            }),
            ["t", full_at_us, rest, limit, period_us] => Ok(Self::TokenBucket {
                full_at_us: number(full_at_us)?,
                rest: number(rest)?,
                limit: number(limit)?,
                period_us: number(period_us)?,
            }),
            _ => Err(NoState),
        }
    }
}
