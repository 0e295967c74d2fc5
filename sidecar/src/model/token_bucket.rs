//! Holds `burst` tokens and refills continuously; its state is the time at which it is full again.

use super::{State, Step, muldiv};
use crate::policy::Rate;
use crate::store::Outcome;

/// A duration: whole microseconds, and a fraction in parts of the rate's count. Ordered as it should be.
type Duration = (u64, u64);

pub(super) fn decide(state: Option<&State>, now_us: u64, rate: Rate, burst: u64, cost: u64) -> Step {
    let Rate { count: limit, period_us: period } = rate;
    let capacity: Duration = muldiv(burst, period, limit);
    let (mut missing, repair) = match missing(state, now_us, limit) {
        // A smaller bucket than before, or a clock that was set back: empty is as empty as it gets.
        more if more > capacity => (capacity, true),
        missing => (missing, false),
    };

    let mut allowed = true;
    let mut retry_after_us = Some(0);
    if cost > burst {
        (allowed, retry_after_us) = (false, None);
    } else if cost > 0 {
        let charge = muldiv(cost, period, limit);
        let rest = missing.1 + charge.1;
        let wanted = (missing.0 + charge.0 + rest / limit, rest % limit);
        if wanted <= capacity {
            missing = wanted;
        } else {
            allowed = false;
            retry_after_us = Some(wanted.0 - capacity.0 + u64::from(wanted.1 > capacity.1));
        }
    }

    // Tokens missing = (missing + rest/limit) * limit / period, rounded up.
    let parts = u128::from(missing.0) * u128::from(limit) + u128::from(missing.1);
    let tokens = u64::try_from(parts.div_ceil(u128::from(period))).unwrap_or(burst);
    let reset_us = missing.0 + u64::from(missing.1 > 0);
    let outcome = Outcome { allowed, remaining: burst.saturating_sub(tokens), retry_after_us, reset_us, charge: None };
    let write = (cost > 0 && (allowed || repair))
        .then(|| (State::TokenBucket { full_at_us: now_us + missing.0, rest: missing.1, limit }, reset_us));
    Step { outcome, write }
}

/// How long the bucket needs to be full.
pub(super) fn missing(state: Option<&State>, now_us: u64, limit: u64) -> Duration {
    let Some(State::TokenBucket { full_at_us, rest, limit: had_limit }) = state else { return (0, 0) };
    let (full_at_us, rest) = match rest {
        0 => (*full_at_us, 0),
        rest if *had_limit == limit => (*full_at_us, *rest),
        // Thirds are not sevenths: round up, once.
        _ => (full_at_us + 1, 0),
    };
    full_at_us.checked_sub(now_us).map_or((0, 0), |missing| (missing, rest))
}
