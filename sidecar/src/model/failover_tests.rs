//! A failover to a server whose clock is a few seconds off: nobody is locked out for longer than that, and
//! nobody gets what was given already.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::tests::{T0, Try, config, runs};
use super::{State, decide};
use crate::policy::{Algorithm, Limit};

/// How far the promoted server's clock is off.
const OFF_US: u64 = 5_000_000;

fn fail_over(limit: &Limit, tries: &[Try], is_behind: bool) -> Result<(), TestCaseError> {
    let (mut state, mut now) = (None::<State>, T0);
    for (pause, cost) in tries {
        now += pause;
        if let Some((new, _)) = decide(state.as_ref(), now, limit, *cost).write {
            state = Some(new);
        }
    }
    let before = decide(state.as_ref(), now, limit, 0).outcome;
    let before_wait = decide(state.as_ref(), now, limit, 1).outcome.retry_after_us.unwrap_or(0);
    let promoted = if is_behind { now - OFF_US } else { now + OFF_US };
    let after = decide(state.as_ref(), promoted, limit, 1);

    let wait = after.outcome.retry_after_us.unwrap_or(0);
    prop_assert!(wait <= before_wait + OFF_US, "{wait} after {before_wait}: {state:?}");
    if is_behind {
        let remaining = decide(state.as_ref(), promoted, limit, 0).outcome.remaining;
        let most = match state {
            // How much of the previous window counts is known by the clock alone, and that is off. The current
            // window counts in full.
            Some(State::SlidingWindow { current, .. }) => {
                before.remaining.max(limit.rate.count.saturating_sub(current))
            }
            _ => before.remaining,
        };
        prop_assert!(remaining <= most, "{remaining} after {}: {state:?}", before.remaining);
    } else {
        // Ahead and back again: what was given for the skipped seconds is not given a second time.
        let mut given = decide(state.as_ref(), promoted, limit, 0).outcome.remaining;
        let all = decide(state.as_ref(), promoted, limit, given);
        state = all.write.map(|(state, _)| state).or(state);
        given -= given.min(decide(state.as_ref(), promoted, limit, 0).outcome.remaining);
        let back = decide(state.as_ref(), now, limit, 0).outcome.remaining;
        prop_assert!(given == 0 || back == 0, "{back} left after {given}: {state:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_promoted_server_whose_clock_is_off(
        (rate, tries) in runs(),
        algorithm in prop_oneof![
            Just(Algorithm::FixedWindow { align: false }),
            Just(Algorithm::FixedWindow { align: true }),
            Just(Algorithm::SlidingWindow),
            (1..3_000_u64).prop_map(|burst| Algorithm::TokenBucket { burst }),
        ],
        is_behind: bool,
    ) {
        fail_over(&Limit { algorithm, rate, shadow: false }, &tries, is_behind)?;
    }
}
