//! What docs/algorithms.md says in numbers, tried out on the model; and its picture is what the example draws.

use std::fs;

use sluice::model::{State, decide};
use sluice::policy::{Algorithm, Limit, Rate};

use crate::support::repository;

#[path = "../sidecar/examples/plot_algorithms.rs"]
#[allow(dead_code, reason = "`main` is the example's")]
mod plot_algorithms;

const ALIGNED: Algorithm = Algorithm::FixedWindow { align: true };
const UNALIGNED: Algorithm = Algorithm::FixedWindow { align: false };
const SLIDING: Algorithm = Algorithm::SlidingWindow;
const SECOND: u64 = 1_000_000;
/// A multiple of every period here.
const T0: u64 = 1_800_000_000 * SECOND;

fn bucket(burst: u64) -> Algorithm {
    Algorithm::TokenBucket { burst }
}

fn limit(algorithm: Algorithm, count: u64, period_us: u64) -> Limit {
    Limit { algorithm, rate: Rate { count, period_us }, shadow: false }
}

/// A key, and the limit it has at the moment.
struct Key {
    state: Option<State>,
    limit: Limit,
}

impl Key {
    fn new(algorithm: Algorithm, count: u64, period_us: u64) -> Self {
        Self { state: None, limit: limit(algorithm, count, period_us) }
    }

    fn take(&mut self, after_us: u64, cost: u64) -> bool {
        let step = decide(self.state.as_ref(), T0 + after_us, &self.limit, cost);
        if let Some((state, _)) = step.write {
            self.state = Some(state);
        }
        step.outcome.allowed
    }

    /// As many single ones as are admitted.
    fn take_all(&mut self, after_us: u64) -> u64 {
        let mut taken = 0;
        while self.take(after_us, 1) {
            taken += 1;
        }
        taken
    }

    fn remaining(&self, after_us: u64) -> u64 {
        decide(self.state.as_ref(), T0 + after_us, &self.limit, 0).outcome.remaining
    }
}

#[test]
fn the_picture_is_what_the_example_draws() {
    let file = repository().join("docs/algorithms.svg");
    let again = "cargo run -p sluice --example plot_algorithms > docs/algorithms.svg";
    assert!(fs::read_to_string(file).unwrap() == plot_algorithms::Plot.to_string(), "draw it again: {again}");
}

/// Tries all there is: every amount that is admitted at every microsecond of some periods. Returns the most within any
/// time from one microsecond to another so much later, for each length.
fn most_within(limit: &Limit, length_us: u64) -> Vec<u64> {
    fn go(limit: &Limit, state: Option<&State>, taken: &mut Vec<u64>, length_us: u64, most: &mut [u64]) {
        let now_us = T0 + u64::try_from(taken.len()).unwrap();
        if now_us == T0 + length_us {
            return;
        }
        for cost in 0..=decide(state, now_us, limit, 0).outcome.remaining {
            let step = decide(state, now_us, limit, cost);
            assert!(step.outcome.allowed);
            taken.push(cost);
            let mut sum = 0;
            for (most, cost) in most.iter_mut().zip(taken.iter().rev()) {
                sum += cost;
                *most = sum.max(*most);
            }
            go(limit, step.write.as_ref().map(|(state, _)| state).or(state), taken, length_us, most);
            taken.pop();
        }
    }
    let mut most = vec![0; usize::try_from(length_us).unwrap()];
    go(limit, None, &mut Vec::new(), length_us, &mut most);
    most
}

#[test]
fn no_traffic_is_admitted_beyond_the_bounds() {
    for (count, period) in [(1, 2), (1, 4), (2, 4), (3, 4), (2, 5), (3, 3), (4, 3)] {
        let longest = 3 * period;
        // `span` is from the first to the last charge; a time that is longer than that by 1 µs holds both.
        let bounds: [(Algorithm, &dyn Fn(u64) -> u64); 5] = [
            (ALIGNED, &|span| count * (span.div_ceil(period) + 1)),
            (UNALIGNED, &|span| count * (span / period + 1) + if span == 0 { 0 } else { count - 1 }),
            (SLIDING, &|span| count + count * span / period),
            (bucket(1), &|span| 1 + count * span / period),
            (bucket(3), &|span| 3 + count * span / period),
        ];
        for (algorithm, bound) in bounds {
            let most = most_within(&limit(algorithm, count, period), longest);
            for (span, most) in (0_u64..).zip(&most) {
                assert!(*most <= bound(span), "{algorithm:?} {count}/{period}us: {most} within {span}");
            }
            // And within one period, the worst is had.
            let worst = match algorithm {
                Algorithm::FixedWindow { align } => 2 * count - u64::from(!align),
                Algorithm::SlidingWindow => 2 * count - (2 * count).div_ceil(period),
                // Where a token takes a fraction of a microsecond, there is not a try for each.
                Algorithm::TokenBucket { .. } if period % count > 0 => continue,
                Algorithm::TokenBucket { burst } => burst + count - 1,
            };
            assert_eq!(most[usize::try_from(period).unwrap() - 1], worst, "{algorithm:?} {count}/{period}us");
        }
    }
}

/// Within one period: the limit at the end of a window, and once more at the end of the next but for one.
#[test]
fn a_sliding_window_admits_almost_twice_its_limit_at_worst() {
    let mut key = Key::new(SLIDING, 10, 10 * SECOND);
    assert_eq!(key.take_all(10 * SECOND - 1), 10);
    assert_eq!(key.take_all(20 * SECOND - 2), 9);
}

#[test]
fn a_sliding_window_counts_what_is_longer_ago_than_its_period() {
    let mut key = Key::new(SLIDING, 10, 10 * SECOND);
    assert_eq!(key.take_all(0), 10);
    for (after_us, remaining) in [
        (10 * SECOND, 0),
        (11 * SECOND - 1, 0),
        (11 * SECOND, 1),
        (15 * SECOND, 5),
        (20 * SECOND - 1, 9),
        (20 * SECOND, 10),
    ] {
        assert_eq!(key.remaining(after_us), remaining, "{after_us}");
    }
}

/// Admitted in each of ten periods, with a try every millisecond.
fn under_constant_demand(algorithm: Algorithm, count: u64) -> Vec<u64> {
    let mut key = Key::new(algorithm, count, SECOND);
    let mut period = |from| (0..1_000).filter(|ms| key.take(from * SECOND + ms * 1_000, 1)).count();
    (0..10).map(|from| u64::try_from(period(from)).unwrap()).collect()
}

#[test]
fn under_constant_demand_a_sliding_window_admits_one_less_per_period() {
    for count in [1, 2, 3, 10, 100] {
        for algorithm in [ALIGNED, UNALIGNED] {
            assert_eq!(under_constant_demand(algorithm, count), [count; 10], "{algorithm:?}");
        }
        let by_bucket = under_constant_demand(bucket(count), count);
        assert_eq!(by_bucket.iter().sum::<u64>(), count + 10 * count - 1, "{by_bucket:?}");
        let by_sliding = under_constant_demand(SLIDING, count);
        if count == 1 {
            assert_eq!(by_sliding, [1, 0, 1, 0, 1, 0, 1, 0, 1, 0]);
        } else {
            assert_eq!(by_sliding[0], count);
            assert!(by_sliding[1..].iter().all(|admitted| *admitted == count - 1), "{by_sliding:?}");
        }
    }
}

#[test]
fn a_bucket_keeps_what_is_taken_when_its_numbers_change() {
    // 100/s with a burst of 100, some taken; then another rate and burst, and what remains at once.
    let table = [
        (100, 100, SECOND, 100, 0),
        (100, 1_000, SECOND, 100, 0),
        (50, 1_000, SECOND, 100, 50),
        (100, 1_000, SECOND, 1_000, 900),
        (50, 1_000, SECOND, 1_000, 950),
        (100, 10, SECOND, 100, 0),
        (50, 10, SECOND, 100, 50),
        (100, 100, 10 * SECOND, 100, 0),
        (100, 100, SECOND, 150, 50),
        (50, 100, SECOND, 150, 100),
        (50, 100, SECOND, 80, 30),
        (100, 100, SECOND, 30, 0),
        (50, 100, SECOND, 30, 0),
    ];
    for (taken, count, period_us, burst, remaining) in table {
        let mut key = Key::new(bucket(100), 100, SECOND);
        assert!(key.take(0, taken));
        key.limit = limit(bucket(burst), count, period_us);
        assert_eq!(key.remaining(0), remaining, "{taken} taken, then {count}/{period_us}us burst {burst}");
        // Never in debt: from the first request on, it fills as fast as an empty one.
        assert!(!key.take(0, burst));
        assert_eq!(key.remaining(burst * period_us / count), burst);
    }
}

#[test]
fn windows_carry_their_count_over_when_their_numbers_change() {
    // 10/10s, all taken after 3 s; then another rate, and what remains after 8 s.
    let table = [
        (ALIGNED, ALIGNED, 15, 10, 5),
        (ALIGNED, ALIGNED, 5, 10, 0),
        (ALIGNED, ALIGNED, 10, 20, 0),
        // The window that holds the charges began before the one that runs now.
        (ALIGNED, ALIGNED, 10, 5, 10),
        (ALIGNED, ALIGNED, 10, 7, 10),
        (UNALIGNED, UNALIGNED, 15, 10, 5),
        (UNALIGNED, UNALIGNED, 10, 20, 0),
        (UNALIGNED, UNALIGNED, 10, 7, 0),
        (UNALIGNED, UNALIGNED, 10, 5, 10),
        (UNALIGNED, ALIGNED, 10, 10, 0),
        (ALIGNED, UNALIGNED, 10, 10, 0),
        (SLIDING, SLIDING, 15, 10, 5),
        (SLIDING, SLIDING, 10, 4, 0),
        (SLIDING, SLIDING, 10, 5, 0),
        (SLIDING, SLIDING, 10, 60, 0),
        // Another algorithm takes over what is used by the old one's numbers.
        (SLIDING, ALIGNED, 10, 10, 0),
        (ALIGNED, SLIDING, 10, 10, 0),
        (ALIGNED, bucket(10), 10, 10, 0),
        (bucket(10), SLIDING, 10, 10, 5),
    ];
    for (before, after, count, seconds, remaining) in table {
        let mut key = Key::new(before, 10, 10 * SECOND);
        assert!(key.take(3 * SECOND, 10));
        key.limit = limit(after, count, seconds * SECOND);
        assert_eq!(key.remaining(8 * SECOND), remaining, "{before:?}, then {after:?} {count}/{seconds}s");
    }
}

#[test]
fn a_bucket_with_a_burst_of_one_is_exact_over_every_period() {
    let mut key = Key::new(bucket(1), 10, SECOND);
    let admitted: Vec<u64> = (0..10_000).map(|ms| ms * 1_000).filter(|after_us| key.take(*after_us, 1)).collect();
    let most = admitted.iter().map(|from| admitted.iter().filter(|at| (*from..from + SECOND).contains(at)).count());
    assert_eq!(most.max(), Some(10));
    assert_eq!(admitted.len(), 100);
}

/// Two sidecars, of which one has another algorithm under the same name already.
#[test]
fn two_algorithms_under_one_name_share_what_is_used() {
    for (one, other) in [(SLIDING, bucket(10)), (UNALIGNED, bucket(10)), (SLIDING, ALIGNED)] {
        let mut key = Key::new(one, 10, 10 * SECOND);
        let mut other = limit(other, 10, 10 * SECOND);
        let mut admitted = 0;
        for _ in 0..100 {
            admitted += u64::from(key.take(0, 1));
            std::mem::swap(&mut key.limit, &mut other);
        }
        assert_eq!(admitted, 10, "{one:?}, {other:?}");
    }
}

#[test]
fn a_peek_is_denied_only_by_a_limit_of_0() {
    for algorithm in [ALIGNED, UNALIGNED, SLIDING, bucket(10)] {
        let mut key = Key::new(algorithm, 10, 10 * SECOND);
        assert!(key.take(0, 10));
        assert!(key.take(0, 0), "{algorithm:?}");
        // More is counted than the limit, which was lowered since.
        key.limit.rate.count = 5;
        assert!(key.take(0, 0), "{algorithm:?}");
        assert_eq!(key.remaining(0), 0, "{algorithm:?}");
        key.limit.rate.count = 0;
        assert!(!key.take(0, 0), "{algorithm:?}");
    }
}
