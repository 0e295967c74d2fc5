//! At most `count` per window, which starts at its first charge or at a multiple of the period.

use super::used::used;
use super::{State, Step};
use crate::policy::Rate;
use crate::store::Outcome;

pub(super) fn decide(state: Option<&State>, now_us: u64, rate: Rate, align: bool, cost: u64) -> Step {
    let period = rate.period_us;
    let (mut count, mut repair) = (0, false);
    let mut start = if align { now_us - now_us % period } else { now_us };
    match state {
        None => {}
        Some(State::FixedWindow { count: had, end_us, period_us }) => {
            // Signed: nothing keeps a text in Redis from ending before it began.
            let had_start = i128::from(*end_us) - i128::from(*period_us);
            if had_start > i128::from(now_us) {
                // The clock was set back: the count stays, in a window that starts now.
                (count, repair) = (*had, true);
            } else if align && had_start >= i128::from(start)
                || !align && had_start + i128::from(period) > i128::from(now_us)
            {
                (count, repair) = (*had, *period_us != period);
                if !align {
                    start = u64::try_from(had_start).unwrap_or(0);
                }
            }
        }
        Some(state) => count = used(state, now_us),
    }

    let left = start + period - now_us;
    let window = |count| State::FixedWindow { count, end_us: start + period, period_us: period };
    let reset = |count| if count > 0 { left } else { 0 };
    let total = count.saturating_add(cost);
    if cost > 0 && total > rate.count {
        let outcome = Outcome {
            allowed: false,
            remaining: rate.count.saturating_sub(count),
            retry_after_us: (cost <= rate.count).then_some(left),
            reset_us: reset(count),
            charge: None,
            granted: 0,
        };
        return Step { outcome, write: repair.then(|| (window(count), left)) };
    }
    let outcome = Outcome {
        allowed: true,
        remaining: rate.count.saturating_sub(total),
        retry_after_us: Some(0),
        reset_us: reset(total),
        charge: None,
        granted: 0,
    };
    Step { outcome, write: (cost > 0).then(|| (window(total), left)) }
}
