//! The sketches against plain counting.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

/// Prints the seed, for a run that fails to be repeated.
fn random() -> StdRng {
    let seed = std::env::var("SLUICE_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("repeat with SLUICE_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

fn key(number: usize) -> Vec<String> {
    vec![format!("key-{number}")]
}

fn count(top: &Top, number: usize, is_denied: bool, now: Duration) {
    let key = key(number);
    top.count(&[top.seen("p", &key, is_denied)], now);
}

/// Entries by key.
fn by_key(entries: &[Entry]) -> HashMap<&str, &Entry> {
    entries.iter().map(|entry| (entry.key[0].as_str(), entry)).collect()
}

/// Numbers of which the first comes most often, the second half as often, and so on.
fn zipf(random: &mut StdRng, keys: usize, draws: usize) -> Vec<usize> {
    #[allow(clippy::cast_precision_loss)]
    let weights: Vec<f64> = (1..=keys)
        .scan(0.0, |sum, rank| {
            *sum += 1.0 / rank as f64;
            Some(*sum)
        })
        .collect();
    let all = weights[keys - 1];
    (0..draws).map(|_| weights.partition_point(|sum| *sum < random.random_range(0.0..all))).collect()
}

#[test]
fn counts_are_never_too_low_nor_too_high_by_more_than_is_told() {
    let mut random = random();
    for round in 0..10 {
        let top = Top::default();
        // From few keys, which are all known, to many more than there are entries.
        let keys = 1 << (round + 4);
        let numbers = zipf(&mut random, keys, 10_000);
        let mut truth: HashMap<String, (u64, u64)> = HashMap::new();
        for (index, number) in numbers.iter().enumerate() {
            // Over five sub-windows, so that all of it is still there at the end.
            let now = Duration::from_millis(u64::try_from(index).unwrap() * 5);
            let is_denied = random.random_bool(0.3);
            count(&top, *number, is_denied, now);
            let (checks, denials) = truth.entry(key(*number).remove(0)).or_default();
            *checks += 1;
            *denials += u64::from(is_denied);
        }
        let report = top.report(usize::MAX, Duration::from_secs(50));
        for (entries, of) in
            [(&report.hottest, (|it| it.0) as fn(&(u64, u64)) -> u64), (&report.most_denied, |it| it.1)]
        {
            let most = truth.values().map(of).sum::<u64>() / ENTRIES as u64;
            let told = by_key(entries);
            for (key, entry) in &told {
                let exact = truth.get(*key).map_or(0, of);
                assert!(
                    (entry.checks - entry.error..=entry.checks).contains(&exact),
                    "{keys} keys, {exact}: {entry:?}"
                );
                assert!(entry.error <= most, "{keys} keys: {entry:?}, but at most {most}");
                assert!(keys > ENTRIES || entry.error == 0, "{keys} keys fit: {entry:?}");
            }
            for (key, exact) in truth.iter().map(|(key, it)| (key.as_str(), of(it))) {
                assert!(exact <= most || told.contains_key(key), "{keys} keys: {key} came {exact} times");
            }
            let certain: Vec<_> = entries.iter().map(|entry| entry.checks - entry.error).collect();
            assert!(certain.is_sorted_by(|a, b| a >= b), "{certain:?}");
        }
    }
}

#[test]
fn the_true_top_is_found_among_many_keys() {
    let mut random = random();
    let top = Top::default();
    let mut truth: HashMap<String, u64> = HashMap::new();
    for number in zipf(&mut random, 50_000, 100_000) {
        count(&top, number, false, Duration::ZERO);
        *truth.entry(key(number).remove(0)).or_default() += 1;
    }
    let entries = top.report(usize::MAX, Duration::ZERO).hottest;
    let mut told: Vec<u64> = entries[..10].iter().map(|entry| truth[&entry.key[0]]).collect();
    let mut counts: Vec<u64> = truth.into_values().collect();
    told.sort_unstable_by(|a, b| b.cmp(a));
    counts.sort_unstable_by(|a, b| b.cmp(a));
    // Keys that come nearly as often as each other may change places, by no more than their errors.
    let errors = entries.iter().filter(|entry| entry.checks >= counts[9]).map(|entry| entry.error);
    let error = errors.max().unwrap();
    assert!(error * 10 < counts[9], "{error} of {}", counts[9]);
    for (told, exact) in told.iter().zip(&counts) {
        assert!(told + error >= *exact, "{told} instead of {exact}");
    }
}

#[test]
fn keys_that_come_once_do_not_hide_one_that_comes_often() {
    let top = Top::default();
    for number in 0..50_000 {
        count(&top, number, false, Duration::ZERO);
        if number % 100 == 0 {
            count(&top, usize::MAX, true, Duration::ZERO);
        }
    }
    let report = top.report(3, Duration::ZERO);
    assert_eq!(report.hottest[0].key, key(usize::MAX));
    assert!((500..=500 + 50_500 / 512).contains(&report.hottest[0].checks), "{report:?}");
    let alone = Entry { policy: "p".to_owned(), key: key(usize::MAX), cut: false, checks: 500, error: 0 };
    assert_eq!(report.most_denied, [alone]);
}

#[test]
fn a_million_keys_take_no_more_memory_than_some() {
    let mut sketch = Sketch::new(ENTRIES);
    let mut after_some = 0;
    let (mut key, long) = ([String::new()], "x".repeat(400));
    for number in 0..1_000_000_u64 {
        key[0].clear();
        let _ = write!(key[0], "{number}");
        if number % 16 == 0 {
            key[0].push_str(&long[..usize::try_from(number % 400).unwrap()]);
        }
        sketch.count(number.wrapping_mul(0x9E37_79B9_7F4A_7C15), |name| name.write("p", &key));
        if number == 500_000 {
            after_some = sketch.bytes();
        }
    }
    assert_eq!(sketch.entries().count(), ENTRIES);
    assert_eq!(
        sketch.entries().map(|entry| entry.count).sum::<u64>(),
        1_000_000,
        "whoever makes room hands on his count"
    );
    // Twelve of these are all that is kept. What is left to grow is that of buffers to the longest name.
    assert!(sketch.bytes() <= 1 << 19, "{}", sketch.bytes());
    assert!(sketch.bytes() <= after_some + after_some / 4, "{after_some}, then {}", sketch.bytes());
    sketch.clear();
    assert_eq!((sketch.entries().count(), sketch.least()), (0, 0));
}

#[test]
fn a_minute_later_it_is_forgotten() {
    let top = Top::default();
    let at = |now| top.report(9, Duration::from_secs(now)).hottest.iter().map(|it| it.checks).collect::<Vec<_>>();
    for second in [0, 1, 9] {
        count(&top, 1, false, Duration::from_secs(second));
    }
    count(&top, 2, false, Duration::from_secs(10));
    // Somebody who was late.
    count(&top, 1, false, Duration::from_secs(9));
    assert_eq!(at(10), [4, 1]);
    assert_eq!(at(59), [4, 1]);
    assert_eq!(at(60), [1, 1], "the first ten seconds are a minute ago");
    assert_eq!(at(70), [0; 0]);
    count(&top, 3, false, Duration::from_secs(1_000_000));
    assert_eq!(at(1_000_000), [1]);
    assert_eq!(at(2_000_000), [0; 0]);
}

#[test]
fn names_are_told_as_they_are() {
    let top = Top::default();
    let parts = |key: &[&str]| key.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
    let keys = [parts(&["a", "b"]), parts(&["ab"]), parts(&[]), parts(&[""])];
    for (key, times) in keys.iter().zip(1..) {
        for policy in ["p", "q"].into_iter().cycle().take(times) {
            top.count(&[top.seen(policy, key, false)], Duration::ZERO);
        }
    }
    let told: Vec<_> =
        top.report(20, Duration::ZERO).hottest.into_iter().map(|it| (it.checks, it.policy, it.key)).collect();
    let of = |checks, policy: &str, key: usize| (checks, policy.to_owned(), keys[key].clone());
    let expected =
        [of(2, "p", 3), of(2, "p", 2), of(2, "q", 3), of(1, "p", 0), of(1, "p", 1), of(1, "q", 1), of(1, "q", 2)];
    let sorted = |mut all: Vec<(u64, String, Vec<String>)>| {
        all.sort();
        all
    };
    assert_eq!(sorted(told), sorted(expected.to_vec()));
}
