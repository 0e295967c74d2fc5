#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::time::Duration;

use super::{Denials, Limits};
use crate::wire::{Check, Verdict};

const ENTRIES: usize = 3;

fn denials() -> Denials {
    Denials::new(Limits { max_age: Duration::from_secs(1), entries: ENTRIES })
}

fn check(key: &[&str], cost: u64) -> Check {
    Check { policy: "p".to_owned(), key: key.iter().map(|part| (*part).to_owned()).collect(), cost, lease: 0 }
}

fn denied(retry_after_ms: Option<u64>) -> Verdict {
    Verdict {
        policy: "p".to_owned(),
        allowed: false,
        limit: 10,
        period_ms: 1000,
        remaining: 0,
        reset_ms: 5000,
        retry_after_ms,
        charge: None,
        lease: None,
        unlimited: false,
        shadow: false,
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_denial_is_repeated_until_its_retry_time_and_no_longer() {
    let mut denials = denials();
    denials.remember(&[check(&["a"], 1)], &[denied(Some(300))], ms(1000));
    let found = denials.find(&check(&["a"], 1), ms(1000)).unwrap();
    assert_eq!((found.retry_after_ms, found.reset_ms), (Some(300), 5000));
    let later = Duration::from_micros(1_299_999);
    let found = denials.find(&check(&["a"], 1), later).unwrap();
    assert_eq!((found.retry_after_ms, found.reset_ms), (Some(1), 4701), "rounded up");
    assert_eq!(denials.find(&check(&["a"], 1), ms(1300)), None, "who waited as told is asked about");
}

#[test]
fn no_denial_is_kept_longer_than_the_age_allows() {
    for retry_after_ms in [Some(60_000), None] {
        let mut denials = denials();
        denials.remember(&[check(&["a"], 1)], &[denied(retry_after_ms)], ms(0));
        let found = denials.find(&check(&["a"], 1), ms(999)).unwrap();
        assert_eq!(found.retry_after_ms, retry_after_ms.map(|ms| ms - 999));
        assert_eq!(denials.find(&check(&["a"], 1), ms(1000)), None);
    }
}

#[test]
fn no_age_keeps_nothing_and_so_does_no_wait() {
    let mut off = Denials::new(Limits { max_age: Duration::ZERO, entries: ENTRIES });
    off.remember(&[check(&["a"], 1)], &[denied(None)], ms(0));
    assert!(off.is_empty());
    let mut denials = denials();
    denials.remember(&[check(&["a"], 1)], &[denied(Some(0))], ms(0));
    assert!(denials.is_empty());
}

#[test]
fn less_than_was_denied_is_asked_about_and_more_waits_longer() {
    let mut denials = denials();
    denials.remember(&[check(&["a"], 5)], &[denied(Some(300))], ms(0));
    assert_eq!(denials.find(&check(&["a"], 4), ms(1)), None);
    assert_eq!(denials.find(&check(&["a"], 5), ms(100)).unwrap().retry_after_ms, Some(200));
    assert_eq!(denials.find(&check(&["a"], 6), ms(100)).unwrap().retry_after_ms, Some(4900), "until nothing is taken");

    // A smaller cost says more and stays.
    denials.remember(&[check(&["a"], 2)], &[denied(Some(400))], ms(0));
    denials.remember(&[check(&["a"], 9)], &[denied(Some(900))], ms(0));
    assert!(denials.find(&check(&["a"], 2), ms(399)).is_some());
    assert!(denials.find(&check(&["a"], 9), ms(400)).is_none());
    // Once it is over, any will do.
    denials.remember(&[check(&["a"], 9)], &[denied(Some(900))], ms(400));
    assert!(denials.find(&check(&["a"], 9), ms(1299)).is_some());
    assert_eq!(denials.len(), 1);
}

#[test]
fn only_what_denied_is_kept() {
    let mut denials = denials();
    let checks = [check(&["allowed"], 1), check(&["denied"], 1), check(&["shadow"], 1)];
    let allowed = Verdict { allowed: true, ..denied(Some(0)) };
    let shadow = Verdict { shadow: true, ..denied(Some(900)) };
    denials.remember(&checks, &[allowed, denied(Some(900)), shadow], ms(0));
    let found = checks.each_ref().map(|check| denials.find(check, ms(1)).is_some());
    assert_eq!(found, [false, true, false]);
}

#[test]
fn a_key_that_a_request_names_twice_is_not_kept() {
    let mut denials = denials();
    let twice = [check(&["a"], 1), check(&["a"], 1), check(&["b"], 1)];
    let allowed = Verdict { allowed: true, ..denied(Some(0)) };
    denials.remember(&twice, &[allowed, denied(Some(900)), denied(Some(900))], ms(0));
    assert!(denials.find(&check(&["a"], 1), ms(1)).is_none(), "once may be allowed");
    assert!(denials.find(&check(&["b"], 1), ms(1)).is_some());
}

#[test]
fn keys_are_not_mixed_up() {
    let mut denials = denials();
    denials.remember(&[check(&["a", "b"], 1)], &[denied(Some(900))], ms(0));
    for key in [&["ab"][..], &["a", "b", ""], &["", "ab"], &["a1:b"], &["b", "a"], &[]] {
        assert!(denials.find(&check(key, 1), ms(1)).is_none(), "{key:?}");
    }
    let other = Check { policy: "q".to_owned(), ..check(&["a", "b"], 1) };
    assert!(denials.find(&other, ms(1)).is_none());
    assert!(denials.find(&check(&["a", "b"], 1), ms(1)).is_some());
}

#[test]
fn what_is_over_goes_first_and_then_what_is_oldest() {
    let mut denials = denials();
    for (key, at) in [("a", 0), ("b", 500), ("c", 600), ("d", 700)] {
        denials.remember(&[check(&[key], 1)], &[denied(None)], ms(at));
        assert!(denials.len() <= ENTRIES);
    }
    assert!(denials.find(&check(&["a"], 1), ms(700)).is_none(), "the oldest");
    assert!(denials.find(&check(&["b"], 1), ms(700)).is_some());
    denials.remember(&[check(&["e"], 1)], &[denied(None)], ms(1650));
    assert_eq!(denials.len(), 2, "b and c are over");
    assert!(denials.find(&check(&["d"], 1), ms(1650)).is_some());
    // A key that is denied for ever takes one place, however often it is asked about.
    for at in 0..1000 {
        denials.remember(&[check(&["d"], 1)], &[denied(None)], ms(2000 + at * 1000));
    }
    assert_eq!(denials.order.len(), denials.len());
}
