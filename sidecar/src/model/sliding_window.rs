//! The current window, plus the share of the previous one that the last period still covers.

use super::used::used;
use super::{State, Step, muldiv};
use crate::policy::Rate;
use crate::store::Outcome;

pub(super) fn decide(state: Option<&State>, now_us: u64, rate: Rate, cost: u64) -> Step {
    let (limit, period) = (rate.count, rate.period_us);
    let index = now_us / period;
    let left = (index + 1) * period - now_us;
    let (current, previous, repair) = counts(state, now_us, period);

    let (quotient, remainder) = muldiv(previous, left, period);
    let total = current.saturating_add(quotient + u64::from(remainder > 0));
    let reset = |current| match (current, previous) {
        (0, 0) => 0,
        (0, _) => left,
        _ => left + period,
    };
    let windows = |current| State::SlidingWindow { index, current, previous, period_us: period };
    let ttl = left + period;
    if cost == 0 || total.saturating_add(cost) <= limit {
        let outcome = Outcome {
            allowed: true,
            remaining: limit.saturating_sub(total + cost),
            retry_after_us: Some(0),
            reset_us: reset(current + cost),
            charge: None,
            granted: 0,
        };
        return Step { outcome, write: (cost > 0).then(|| (windows(current + cost), ttl)) };
    }

    let retry_after_us = if cost > limit {
        None
    } else if current.saturating_add(cost) <= limit {
        // Still in this window, when `previous` has slid out far enough.
        Some(left - muldiv(limit - current - cost, period, previous).0)
    } else {
        // In the next one, where `current` is what slides out.
        Some(left + period - muldiv(limit - cost, period, current).0)
    };
    let outcome = Outcome {
        allowed: false,
        remaining: limit.saturating_sub(total),
        retry_after_us,
        reset_us: reset(current),
        charge: None,
        granted: 0,
    };
    Step { outcome, write: repair.then(|| (windows(current), ttl)) }
}

/// What counts in this window and in the one before, and whether that has to be written down.
fn counts(state: Option<&State>, now_us: u64, period: u64) -> (u64, u64, bool) {
    let index = now_us / period;
    let Some(State::SlidingWindow { index: had_index, current: had_current, previous: had_previous, period_us }) =
        state
    else {
        return (state.map_or(0, |state| used(state, now_us)), 0, false);
    };
    if *period_us != period {
        // Windows of another length: each count goes where the latest charge it can hold would be.
        let (mut current, mut previous) = (0, 0);
        let had_start = i128::from(*had_index) * i128::from(*period_us);
        let latest = (had_start + i128::from(*period_us) - 1).min(i128::from(now_us));
        let behind = |time: i128| i128::from(index) - time.div_euclid(i128::from(period));
        match behind(latest) {
            0 => current += had_current,
            1 => previous += had_current,
            _ => {}
        }
        match behind(had_start - 1) {
            ..=0 => current += had_previous,
            1 => previous += had_previous,
            _ => {}
        }
        return (current, previous, true);
    }
    if *had_index >= index {
        // An index ahead of now: the clock was set back, and what was counted counts from now.
        (*had_current, *had_previous, *had_index > index)
    } else if *had_index + 1 == index {
        (0, *had_current, false)
    } else {
        (0, 0, false)
    }
}
