//! Holds `burst` tokens and refills continuously; its state is the time at which it is full again.

use super::used::used;
use super::{State, Step, muldiv};
use crate::policy::{MAX_COUNT, Rate};
use crate::store::Outcome;

/// A duration: whole microseconds, and a fraction in parts of the rate's count. Ordered as it should be.
type Duration = (u64, u64);

pub(super) fn decide(state: Option<&State>, now_us: u64, rate: Rate, burst: u64, cost: u64) -> Step {
    let Rate { count: limit, period_us: period } = rate;
    let capacity: Duration = muldiv(burst, period, limit);
    let (mut missing, mut repair) = match state {
        None => ((0, 0), false),
        Some(state @ State::TokenBucket { .. }) => missing(state, now_us, rate),
        Some(state) => (muldiv(used(state, now_us).min(burst), period, limit), false),
    };
    if missing > capacity {
        // A smaller bucket than before, or a clock that was set back: empty is as empty as it gets.
        (missing, repair) = (capacity, true);
    }

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
    let outcome = Outcome {
        allowed,
        remaining: burst.saturating_sub(tokens),
        retry_after_us,
        reset_us,
        charge: None,
        granted: 0,
    };
    let write = (cost > 0 && (allowed || repair)).then(|| {
        (State::TokenBucket { full_at_us: now_us + missing.0, rest: missing.1, limit, period_us: period }, reset_us)
    });
    Step { outcome, write }
}

/// How long the bucket needs to be full, and whether its state was written under another rate. Under a changed
/// rate as many tokens are missing as before.
pub(super) fn missing(state: &State, now_us: u64, rate: Rate) -> (Duration, bool) {
    let &State::TokenBucket { full_at_us, rest, limit: had_limit, period_us: had_period } = state else {
        return ((0, 0), false);
    };
    let Some(missing) = full_at_us.checked_sub(now_us) else { return ((0, 0), false) };
    let Rate { count: limit, period_us: period } = rate;
    if (had_limit, had_period) == (limit, period) {
        return ((missing, rest), false);
    }
    // Whole tokens, and a fraction in parts of the period that was.
    let parts = u128::from(missing) * u128::from(had_limit) + u128::from(rest);
    let tokens = u64::try_from(parts / u128::from(had_period)).unwrap_or(u64::MAX);
    let fraction = u64::try_from(parts % u128::from(had_period)).unwrap_or(0);
    if tokens > MAX_COUNT {
        // More than any bucket holds.
        return ((u64::MAX, 0), true);
    }
    let (missing, rest) = muldiv(tokens, period, limit);
    // A fraction of a token is rounded up to a microsecond: no more is lost even if two sidecars with
    // different rates take turns.
    let (parts, below) = muldiv(fraction, period, had_period);
    let rest = rest + parts + u64::from(below > 0);
    ((missing.saturating_add(rest.div_ceil(limit)), 0), true)
}
