//! The algorithms once more, in Rust: what a decision means, apart from where its state is kept.
//!
//! The memory store decides with it, and it is the oracle that the script is held against: given the same
//! state, time and numbers, both give the same integers and write the same text. Each algorithm is a pure
//! function, told in `lua/` and in docs/algorithms.md; here are the same steps with integers wide enough not
//! to need care.

#[cfg(test)]
mod failover_tests;
mod fixed_window;
mod refund;
mod requests;
mod sliding_window;
mod state;
#[cfg(test)]
mod tests;
mod token_bucket;
mod used;

pub use refund::refund;
pub use requests::{Changes, decide_requests};
pub use state::State;

use crate::policy::{Algorithm, Limit};
use crate::store::Outcome;

/// What a check does to a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The verdict.
    pub outcome: Outcome,
    /// What is to be written, and in how many microseconds it means nothing any more; `None` if nothing is.
    pub write: Option<(State, u64)>,
}

/// Decides one check. Of a state of another algorithm, what it says is used counts.
///
/// `now_us` is in microseconds since the epoch, below 2^52; `cost` at most [`MAX_COUNT`](crate::policy::MAX_COUNT).
pub fn decide(state: Option<&State>, now_us: u64, limit: &Limit, cost: u64) -> Step {
    let rate = limit.rate;
    if rate.count == 0 {
        let outcome =
            Outcome { allowed: false, remaining: 0, retry_after_us: None, reset_us: 0, charge: None, granted: 0 };
        return Step { outcome, write: None };
    }
    let mut step = match limit.algorithm {
        Algorithm::FixedWindow { align } => fixed_window::decide(state, now_us, rate, align, cost),
        Algorithm::SlidingWindow => sliding_window::decide(state, now_us, rate, cost),
        Algorithm::TokenBucket { burst } => token_bucket::decide(state, now_us, rate, burst, cost),
    };
    let is_charged = step.outcome.allowed && step.write.is_some();
    step.outcome.charge = is_charged.then_some(now_us + step.outcome.reset_us);
    step
}

/// a * b / c, rounded down, and what is left.
fn muldiv(a: u64, b: u64, c: u64) -> (u64, u64) {
    let (product, c) = (u128::from(a) * u128::from(b), u128::from(c));
    // Every caller's quotient fits: it is at most a count, a period or a bucket's time to refill.
    let fit = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
    (fit(product / c), fit(product % c))
}
