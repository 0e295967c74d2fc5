//! Giving back what was charged, as long as it still counts.

use super::{State, muldiv, token_bucket};
use crate::policy::{Algorithm, Limit};

/// The state after a refund, and in how many microseconds it means nothing any more. `None` if the charge
/// does not count any more: its window is over, or the bucket has been full since.
///
/// `charge` is what [`Outcome::charge`](crate::store::Outcome::charge) said: the time until which the charge
/// counts, which names its window too.
pub fn refund(state: Option<&State>, now_us: u64, limit: &Limit, cost: u64, charge: u64) -> Option<(State, u64)> {
    let left = charge.checked_sub(now_us).filter(|left| *left > 0)?;
    match (limit.algorithm, state?) {
        (Algorithm::FixedWindow { .. }, State::FixedWindow { count, end_us, period_us }) if *end_us == charge => {
            let count = count.saturating_sub(cost);
            Some((State::FixedWindow { count, end_us: *end_us, period_us: *period_us }, left))
        }
        (Algorithm::SlidingWindow, State::SlidingWindow { index, current, previous, period_us }) => {
            // A charge counts until the end of the window after its own.
            let end_us = (index + 2) * period_us;
            let (mut current, mut previous) = (*current, *previous);
            if end_us == charge {
                current = current.saturating_sub(cost);
            } else if end_us - period_us == charge {
                previous = previous.saturating_sub(cost);
            } else {
                return None;
            }
            let state = State::SlidingWindow { index: *index, current, previous, period_us: *period_us };
            Some((state, end_us - now_us))
        }
        (Algorithm::TokenBucket { burst }, bucket @ State::TokenBucket { .. }) => {
            let count = limit.rate.count;
            let ((missing, rest), _) = token_bucket::missing(bucket, now_us, limit.rate);
            if (missing, rest) == (0, 0) {
                return None;
            }
            // What has been refilled of the charge is not given back: without the charge, the bucket would have
            // been full for a while, and would have lost it. What has not is `left`, less the fraction of a
            // microsecond that it was rounded up by, or all that is missing if nobody has charged since.
            let is_last = count <= limit.rate.period_us && left == missing + u64::from(rest > 0);
            let still_missing = if is_last { (missing, rest) } else { (left - 1, 0) };
            let (back, back_rest) = muldiv(cost, limit.rate.period_us, count).min(still_missing);
            // Never fuller than full, nor emptier than empty.
            let left = if (missing, rest) <= (back, back_rest) {
                (0, 0)
            } else if rest >= back_rest {
                (missing - back, rest - back_rest)
            } else {
                (missing - back - 1, rest + count - back_rest)
            };
            let (missing, rest) = left.min(muldiv(burst, limit.rate.period_us, count));
            let state = State::TokenBucket {
                full_at_us: now_us + missing,
                rest,
                limit: count,
                period_us: limit.rate.period_us,
            };
            Some((state, missing + u64::from(rest > 0)))
        }
        _ => None,
    }
}
