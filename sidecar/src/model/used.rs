//! How much a state says is used, whatever algorithm wrote it.

use super::{State, muldiv};

/// What is used now, by the numbers the state was written under, rounded up: for a state of another
/// algorithm. Changing a policy's algorithm gives nobody a fresh limit.
pub(super) fn used(state: &State, now_us: u64) -> u64 {
    match *state {
        State::FixedWindow { count, end_us, .. } => {
            if end_us > now_us {
                count
            } else {
                0
            }
        }
        State::SlidingWindow { index, current, previous, period_us } => {
            let left = period_us - now_us % period_us;
            let share = |count| {
                let (whole, rest) = muldiv(count, left, period_us);
                whole + u64::from(rest > 0)
            };
            match (now_us / period_us).checked_sub(index) {
                // An index ahead of now: the clock was set back, and what was counted counts from now.
                None | Some(0) => current + share(previous),
                Some(1) => share(current),
                Some(_) => 0,
            }
        }
        State::TokenBucket { full_at_us, rest, limit, period_us } => match full_at_us.checked_sub(now_us) {
            None => 0,
            Some(missing) => {
                let parts = u128::from(missing) * u128::from(limit) + u128::from(rest);
                u64::try_from(parts.div_ceil(u128::from(period_us))).unwrap_or(u64::MAX)
            }
        },
    }
}
