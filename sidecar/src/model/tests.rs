//! The algorithms against their definitions, by brute force.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::{State, decide, refund};
use crate::policy::{Algorithm, Limit, Rate};

pub(super) const T0: u64 = 1_777_777_777_777_777;

/// Prints the seed, for a run that fails to be repeated. `SLUICE_CASES` makes more of it.
pub(super) fn config() -> ProptestConfig {
    let seed = std::env::var("SLUICE_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("repeat with SLUICE_SEED={seed}");
    ProptestConfig {
        cases: std::env::var("SLUICE_CASES").map_or(400, |cases| cases.parse().unwrap()),
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// One request of a run: how long after the one before it, and what it costs.
pub(super) type Try = (u64, u64);

/// What was admitted: when, and how much.
#[derive(Debug, Default)]
struct Admitted(Vec<(u64, u64)>);

impl Admitted {
    fn between(&self, from: u64, to: u64) -> u64 {
        self.0.iter().filter(|(time, _)| (from..to).contains(time)).map(|(_, cost)| cost).sum()
    }
}

/// Runs tries against an algorithm, and each decision against `fits`: what the definition says of a cost at a time,
/// given what was admitted before.
fn hold_against(
    algorithm: Algorithm,
    rate: Rate,
    tries: &[Try],
    mut fits: impl FnMut(&Admitted, u64, u64) -> bool,
) -> Result<(), TestCaseError> {
    let limit = Limit { algorithm, rate, shadow: false };
    let (mut state, mut now) = (None, T0);
    let mut admitted = Admitted::default();
    for (pause, cost) in tries {
        now += pause;
        let step = decide(state.as_ref(), now, &limit, *cost);
        let expected = fits(&admitted, now, *cost);
        prop_assert_eq!(step.outcome.allowed, expected, "cost {} at {}: {:?} {:?}", cost, now - T0, state, admitted);
        if let Some(wait) = step.outcome.retry_after_us.filter(|_| !step.outcome.allowed) {
            // Waiting as told is enough, and a microsecond less is not.
            prop_assert!(wait > 0);
            prop_assert!(decide(state.as_ref(), now + wait, &limit, *cost).outcome.allowed, "{} later", wait);
            prop_assert!(
                !decide(state.as_ref(), now + wait - 1, &limit, *cost).outcome.allowed,
                "1 less than {}",
                wait
            );
        }
        if step.outcome.allowed {
            admitted.0.push((now, *cost));
        }
        if let Some((new, ttl_us)) = step.write {
            // Once the state is said to mean nothing, it is as good as none.
            for cost in [0, 1, rate.count] {
                let forgotten = decide(None, now + ttl_us, &limit, cost);
                prop_assert_eq!(&decide(Some(&new), now + ttl_us, &limit, cost).outcome, &forgotten.outcome);
            }
            state = Some(new);
        }
        let peek = decide(state.as_ref(), now, &limit, 0);
        prop_assert!(peek.write.is_none());
        prop_assert_eq!(peek.outcome.remaining, step.outcome.remaining);
        // All that remains can be had, and one more can't.
        prop_assert!(decide(state.as_ref(), now, &limit, peek.outcome.remaining).outcome.allowed);
        prop_assert!(!decide(state.as_ref(), now, &limit, peek.outcome.remaining + 1).outcome.allowed);
    }
    Ok(())
}

fn rates() -> impl Strategy<Value = Rate> {
    let counts = prop_oneof![1..20_u64, 1..2_000_u64, Just(999_983), Just(1_000_000)];
    let periods = prop_oneof![1_000..5_000_u64, Just(1_000_000), Just(2_000_000), Just(30 * 86_400_000_000)];
    (counts, periods).prop_map(|(count, period_us)| Rate { count, period_us })
}

/// Tries in the rhythm of a rate: bunched together, spread over periods, at the very edges.
fn tries(rate: Rate) -> impl Strategy<Value = Vec<Try>> {
    let Rate { count, period_us } = rate;
    let pause = prop_oneof![
        3 => Just(0),
        3 => 0..=(period_us / count).max(1),
        2 => 0..=period_us,
        1 => Just(period_us),
        1 => 0..=3 * period_us,
    ];
    let cost = prop_oneof![6 => Just(1), 3 => 0..=(count / 3).max(1), 1 => 0..=count + 1];
    prop::collection::vec((pause, cost), 1..60)
}

pub(super) fn runs() -> impl Strategy<Value = (Rate, Vec<Try>)> {
    rates().prop_flat_map(|rate| (Just(rate), tries(rate)))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_fixed_window_holds_its_limit((rate, tries) in runs()) {
        hold_against(Algorithm::FixedWindow { align: false }, rate, &tries, |admitted, now, cost| {
            // Windows from the list alone: each starts at the first charge that the one before doesn't cover.
            let mut start = None;
            for (time, cost) in &admitted.0 {
                if *cost > 0 && start.is_none_or(|start| *time >= start + rate.period_us) {
                    start = Some(*time);
                }
            }
            let start = start.filter(|start| now < start + rate.period_us);
            start.map_or(0, |start| admitted.between(start, now + 1)) + cost <= rate.count
        })?;
    }

    #[test]
    fn an_aligned_window_holds_its_limit((rate, tries) in runs()) {
        hold_against(Algorithm::FixedWindow { align: true }, rate, &tries, |admitted, now, cost| {
            admitted.between(now - now % rate.period_us, now + 1) + cost <= rate.count
        })?;
    }

    #[test]
    fn a_sliding_window_holds_its_limit((rate, tries) in runs()) {
        hold_against(Algorithm::SlidingWindow, rate, &tries, |admitted, now, cost| {
            let start = now - now % rate.period_us;
            let current = u128::from(admitted.between(start, now + 1) + cost);
            let previous = u128::from(admitted.between(start - rate.period_us, start));
            let (period, left) = (u128::from(rate.period_us), u128::from(start + rate.period_us - now));
            current * period + previous * left <= u128::from(rate.count) * period
        })?;
    }

    /// Over every interval that ends now, burst + rate * its length; and what holds for all of those is allowed.
    #[test]
    fn a_token_bucket_holds_its_rate_and_its_burst((rate, tries) in runs(), burst in prop_oneof![1..5_u64, 1..3_000_u64]) {
        hold_against(Algorithm::TokenBucket { burst }, rate, &tries, |admitted, now, cost| {
            let mut sum = u128::from(cost);
            cost <= burst && admitted.0.iter().rev().all(|(time, cost)| {
                sum += u128::from(*cost);
                let refilled = u128::from(now - time) * u128::from(rate.count);
                sum * u128::from(rate.period_us) <= u128::from(burst) * u128::from(rate.period_us) + refilled
            })
        })?;
    }

    #[test]
    fn states_are_read_as_they_are_written(a in any::<u64>(), b in any::<u64>(), c in any::<u64>(), d in any::<u64>()) {
        for state in [
            State::FixedWindow { count: a, end_us: b, period_us: c },
            State::SlidingWindow { index: a, current: b, previous: c, period_us: d },
            State::TokenBucket { full_at_us: a, rest: b, limit: c, period_us: d },
        ] {
            prop_assert_eq!(state.to_string().parse::<State>().unwrap(), state);
        }
    }
}

#[test]
fn what_is_no_state_is_not_read_as_one() {
    for text in ["", "x", "+5", "-5", "5+", "5+1", "5+1/", "5 ", "f:1:2", "f:1:2:3:4", "f:1:2:x", "s:1:2:3", "t", "1:2"]
    {
        assert!(text.parse::<State>().is_err(), "{text}");
    }
}

#[test]
fn what_has_been_refilled_of_a_charge_is_not_given_back() {
    let algorithm = Algorithm::TokenBucket { burst: 5 };
    let limit = Limit { algorithm, rate: Rate { count: 1, period_us: 1_000 }, shadow: false };
    let take = |state: Option<&State>, now| {
        let step = decide(state, now, &limit, 1);
        (step.write.unwrap().0, step.outcome.charge.unwrap())
    };
    let (first, charge) = take(None, T0);
    let (second, _) = take(Some(&first), T0 + 900);
    // Without the first, 950 us would be missing now.
    let (state, _) = refund(Some(&second), T0 + 950, &limit, 1, charge).unwrap();
    let reset_us = decide(Some(&state), T0 + 950, &limit, 0).outcome.reset_us;
    assert!((950..=1_001).contains(&reset_us), "{reset_us}");
    // If nothing was taken since, the bucket is full.
    let (state, _) = refund(Some(&first), T0 + 950, &limit, 1, charge).unwrap();
    assert_eq!(decide(Some(&state), T0 + 950, &limit, 0).outcome.reset_us, 0);
    // And all of it comes back while it is still missing.
    let (second, charge) = take(Some(&first), T0);
    let (state, _) = refund(Some(&second), T0 + 500, &limit, 1, charge).unwrap();
    assert_eq!(decide(Some(&state), T0 + 500, &limit, 0).outcome.reset_us, 500);
}

/// What happens in a run with refunds.
#[derive(Debug, Clone)]
enum Event {
    Take(Try),
    /// After a pause, gives back the charge that was made so many charges ago.
    Refund(u64, usize),
}

fn events() -> impl Strategy<Value = (Rate, Vec<Event>)> {
    runs().prop_flat_map(|(rate, tries)| {
        let pauses = prop::collection::vec((prop::bool::weighted(0.4), 0..rate.period_us * 2, 0..4_usize), tries.len());
        (Just(rate), Just(tries), pauses).prop_map(|(rate, tries, pauses)| {
            let mut events = Vec::new();
            for (take, (refund, pause, ago)) in tries.into_iter().zip(pauses) {
                events.push(Event::Take(take));
                if refund {
                    events.push(Event::Refund(pause, ago));
                }
            }
            (rate, events)
        })
    })
}

/// Runs events, and holds what was admitted and not given back against `is_over` after each charge.
fn hold_with_refunds(
    algorithm: Algorithm,
    (rate, events): (Rate, Vec<Event>),
    is_over: impl Fn(&Admitted) -> bool,
) -> Result<(), TestCaseError> {
    let limit = Limit { algorithm, rate, shadow: false };
    let (mut state, mut now) = (None, T0);
    let mut admitted = Admitted::default();
    let mut charges = Vec::new();
    for event in events {
        match event {
            Event::Take((pause, cost)) => {
                now += pause;
                let step = decide(state.as_ref(), now, &limit, cost);
                if let Some(charge) = step.outcome.charge {
                    prop_assert!(step.outcome.allowed && cost > 0);
                    charges.push((charge, now, cost));
                    admitted.0.push((now, cost));
                    prop_assert!(!is_over(&admitted), "{:?}", admitted);
                    state = step.write.map(|(state, _)| state);
                }
            }
            Event::Refund(pause, ago) => {
                now += pause;
                let Some(index) = charges.len().checked_sub(ago + 1) else { continue };
                let (charge, time, cost) = charges[index];
                let before = decide(state.as_ref(), now, &limit, 0).outcome.remaining;
                if let Some((after, _)) = refund(state.as_ref(), now, &limit, cost, charge) {
                    charges.remove(index);
                    let at = admitted.0.iter().position(|taken| *taken == (time, cost));
                    admitted.0.remove(at.unwrap());
                    let remaining = decide(Some(&after), now, &limit, 0).outcome.remaining;
                    prop_assert!((before..=before + cost).contains(&remaining), "{} after {}", remaining, before);
                    state = Some(after);
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn refunds_do_not_let_a_fixed_window_over_admit(run in events()) {
        let Rate { count, period_us } = run.0;
        hold_with_refunds(Algorithm::FixedWindow { align: true }, run, |admitted| {
            let (now, _) = admitted.0[admitted.0.len() - 1];
            admitted.between(now - now % period_us, now + 1) > count
        })?;
    }

    #[test]
    fn refunds_do_not_let_a_sliding_window_over_admit(run in events()) {
        let Rate { count, period_us } = run.0;
        hold_with_refunds(Algorithm::SlidingWindow, run, |admitted| {
            let (now, _) = admitted.0[admitted.0.len() - 1];
            let start = now - now % period_us;
            let (current, previous) = (admitted.between(start, now + 1), admitted.between(start - period_us, start));
            let left = u128::from(start + period_us - now);
            u128::from(current) * u128::from(period_us) + u128::from(previous) * left > u128::from(count) * u128::from(period_us)
        })?;
    }

    #[test]
    fn refunds_do_not_let_a_token_bucket_over_admit(run in events(), burst in prop_oneof![1..5_u64, 1..3_000_u64]) {
        let rate = run.0;
        hold_with_refunds(Algorithm::TokenBucket { burst }, run, |admitted| is_over_rate(admitted, rate, burst))?;
    }
}

/// Whether more than burst + rate * its length was admitted in any interval that ends with the last charge.
fn is_over_rate(admitted: &Admitted, rate: Rate, burst: u64) -> bool {
    let (now, _) = admitted.0[admitted.0.len() - 1];
    let mut sum = 0;
    admitted.0.iter().rev().any(|(time, cost)| {
        sum += u128::from(*cost);
        let refilled = u128::from(now - time) * u128::from(rate.count);
        sum * u128::from(rate.period_us) > u128::from(burst) * u128::from(rate.period_us) + refilled
    })
}
