#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::time::Duration;

use super::{BUSY, Leases, Limits, MAX_REFUNDS};
use crate::host::fake::FakeHost;
use crate::metrics::{Metric, Tally};
use crate::wire::{Check, Lease, Refund, Verdict};

const TTL: u64 = 100;
const TIMEOUT: u64 = 20;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn check(policy: &str, key: &str, cost: u64) -> Check {
    Check { policy: policy.to_owned(), key: vec![key.to_owned()], cost, lease: 0 }
}

fn verdict(check: &Check, remaining: u64, granted: Option<u64>) -> Verdict {
    Verdict {
        policy: check.policy.clone(),
        allowed: true,
        limit: 1000,
        period_ms: 60_000,
        remaining,
        reset_ms: 5_000,
        retry_after_ms: Some(0),
        charge: None,
        lease: granted.map(|granted| Lease { granted, ttl_ms: TTL, charge: granted + 7 }),
        unlimited: false,
        shadow: false,
    }
}

/// Leases, and what they count.
struct Bench {
    leases: Leases,
    tally: Tally,
}

impl Bench {
    fn new(entries: usize) -> Self {
        Self { leases: Leases::new(Limits { entries }), tally: Tally::default() }
    }

    /// With 10,000 keys and the policies `p` and `q`, which lease.
    fn leasing() -> Self {
        let mut bench = Self::new(10_000);
        for policy in ["p", "q"] {
            let check = check(policy, "another", 1);
            bench.learn(std::slice::from_ref(&check), &mut [verdict(&check, 9, Some(0))], 0, 0);
        }
        bench
    }

    fn learn(&mut self, checks: &[Check], verdicts: &mut [Verdict], sent: u64, now: u64) {
        self.leases.learn(checks, verdicts, ms(sent), ms(now), &mut self.tally);
    }

    /// What is left of these leases. 500 more remain.
    fn grant(&mut self, check: &Check, granted: u64, sent: u64, now: u64) -> Verdict {
        let mut verdict = [verdict(check, 500, Some(granted))];
        self.learn(std::slice::from_ref(check), &mut verdict, sent, now);
        let [verdict] = verdict;
        verdict
    }

    /// What remains after a request, if it is decided here.
    fn spend(&mut self, checks: &[Check], now: u64) -> Option<u64> {
        self.leases.spend(checks, ms(now), &mut self.tally).map(|verdict| verdict.remaining)
    }

    /// What each check of a request asks for ahead.
    fn ask(&mut self, checks: &[Check], now: u64) -> Vec<u64> {
        let mut checks = checks.to_vec();
        let asks = self.leases.ask(&mut checks, ms(now), ms(now + TIMEOUT));
        let wanted: Vec<_> = checks.iter().map(|check| check.lease).collect();
        assert_eq!(asks, wanted.iter().any(|&wanted| wanted > 0));
        wanted
    }

    /// Makes a key busy: of what follows within a ttl, everything asks.
    fn warm(&mut self, check: &Check, now: u64) {
        for _ in 0..=BUSY {
            self.ask(std::slice::from_ref(check), now);
        }
    }

    fn expire(&mut self, now: u64) {
        self.leases.expire(ms(now), &mut self.tally);
    }

    fn refunds(&mut self) -> Vec<Refund> {
        self.leases.take_refunds().map_or(Vec::new(), |(json, cost)| {
            let refunds: Vec<Refund> = serde_json::from_str(&json).unwrap();
            assert_eq!(cost, refunds.iter().fold(0, |sum: u64, refund| sum.saturating_add(refund.cost)));
            refunds
        })
    }

    /// Leased, spent and expired.
    fn counted(&mut self) -> [i64; 3] {
        let host = FakeHost::default();
        self.tally.flush(&host);
        [Metric::Leased, Metric::LeaseSpent, Metric::LeaseExpired].map(|metric| host.counted(metric))
    }
}

#[test]
fn rare_keys_never_ask_and_busy_ones_do() {
    // Milliseconds between requests, and the first of a hundred that asks.
    for (gap, first) in [(0, Some(BUSY)), (1, Some(BUSY)), (20, Some(BUSY)), (50, None), (100, None), (1000, None)] {
        let mut bench = Bench::leasing();
        let asked = (0..100).find(|&n| bench.ask(&[check("p", "a", 1)], n * gap) != [0]);
        assert_eq!(asked, first, "every {gap} ms");
    }
}

#[test]
fn as_much_is_wanted_as_was_used_in_the_last_ttl() {
    let (mut bench, a) = (Bench::leasing(), check("p", "a", 3));
    bench.warm(&a, 0);
    let wanted = bench.ask(std::slice::from_ref(&a), TIMEOUT);
    assert_eq!(wanted, [2 * 3], "from when it was busy, but for its own cost");
    bench.grant(&check("p", "a", 3), 60, 0, 0);
    for _ in 0..20 {
        assert!(bench.spend(std::slice::from_ref(&a), 50).is_some());
    }
    assert_eq!(bench.ask(std::slice::from_ref(&a), 50), [23 * 3], "what was spent counts");
    bench.leases.asked_in_vain(&a);
    // Half of the period before is less than a ttl ago.
    assert_eq!(bench.ask(std::slice::from_ref(&a), 150), [24 * 3 / 2]);
    bench.leases.asked_in_vain(&a);
    assert_eq!(bench.ask(&[a], 1000), [0], "that was long ago");
}

#[test]
fn nobody_asks_while_a_question_is_on_its_way() {
    let (mut bench, a) = (Bench::leasing(), check("p", "a", 1));
    bench.warm(&a, 0);
    for (now, asks) in [(0, false), (TIMEOUT - 1, false), (TIMEOUT, true), (TIMEOUT, false), (2 * TIMEOUT, true)] {
        assert_eq!(bench.ask(std::slice::from_ref(&a), now) != [0], asks, "{now} ms");
    }
    // An answer without tokens is an answer.
    let asked = Check { lease: 9, ..a.clone() };
    bench.grant(&asked, 0, 40, 41);
    assert_ne!(bench.ask(&[a], 41), [0]);
}

#[test]
fn only_a_request_that_could_be_decided_here_asks() {
    let (mut bench, hot, rare) = (Bench::leasing(), check("p", "hot", 1), check("q", "rare", 1));
    bench.warm(&hot, 0);
    let later = TIMEOUT;
    assert_eq!(bench.ask(&[hot.clone(), rare.clone()], later), [0, 0], "of a rare key");
    assert_eq!(bench.ask(&[hot.clone(), check("unknown", "hot", 1)], later), [0, 0], "of a policy without leases");
    assert_eq!(bench.ask(&[hot.clone(), check("q", "hot", 0)], later), [0, 0], "that only looks");
    bench.warm(&rare, later);
    let wanted = bench.ask(&[hot.clone(), rare.clone()], 2 * later);
    assert!(wanted.iter().all(|&wanted| wanted > 0), "{wanted:?}");
    // A key that is there twice needs both.
    bench.grant(&hot, 1, 40, 40);
    bench.leases.asked_in_vain(&hot);
    assert_eq!(bench.ask(std::slice::from_ref(&hot), later + 20), [0], "one is enough");
    assert_ne!(bench.ask(&[hot.clone(), hot.clone()], later + 20), [0, 0]);
    // Who has enough doesn't ask.
    bench.grant(&hot, 10, 40, 40);
    bench.leases.asked_in_vain(&hot);
    bench.leases.asked_in_vain(&rare);
    assert_eq!(bench.ask(&[hot, rare], 2 * later).iter().map(|&wanted| wanted > 0).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn tokens_are_spent_until_none_is_left() {
    let (mut bench, a) = (Bench::leasing(), check("p", "a", 1));
    assert_eq!(bench.grant(&a, 3, 0, 0).remaining, 503, "what is leased remains, for this worker's clients");
    for remaining in [502, 501, 500] {
        assert_eq!(bench.spend(std::slice::from_ref(&a), 1), Some(remaining));
    }
    assert_eq!(bench.spend(&[a], 1), None);
    assert_eq!(bench.counted(), [3, 3, 0]);
    bench.expire(1000);
    assert!(bench.refunds().is_empty() && bench.leases.is_idle());
    assert_eq!(bench.counted(), [0, 0, 0]);
}

#[test]
fn what_does_not_fit_is_asked_about() {
    let a = check("p", "a", 1);
    let with = |cost| check("p", "a", cost);
    let table: [(&str, Vec<Check>, Option<u64>); 9] = [
        ("all of it", vec![with(5)], Some(500)),
        ("more than is left", vec![with(6)], None),
        ("more than there can be", vec![with(u64::MAX)], None),
        ("nothing", vec![with(0)], None),
        ("twice", vec![with(2), with(3)], Some(500)),
        ("twice, and too much together", vec![with(3), with(3)], None),
        ("another key", vec![check("p", "b", 1)], None),
        ("another policy", vec![check("q", "a", 1)], None),
        ("with another key", vec![a.clone(), check("q", "a", 1)], None),
    ];
    for (name, checks, remaining) in table {
        let mut bench = Bench::leasing();
        bench.grant(&a, 5, 0, 0);
        assert_eq!(bench.spend(&checks, 1), remaining, "{name}");
        let spent = if remaining.is_some() { 5 } else { 0 };
        assert_eq!(bench.counted(), [5, spent, 0], "{name}");
        let left = (1..=6).take_while(|_| bench.spend(std::slice::from_ref(&a), 1).is_some()).count();
        assert_eq!(left, if remaining.is_some() { 0 } else { 5 }, "{name}: all or none");
    }
}

#[test]
fn several_checks_are_decided_here_if_each_has_tokens() {
    let (mut bench, both) = (Bench::leasing(), [check("p", "a", 1), check("q", "a", 2)]);
    bench.grant(&both[0], 5, 0, 0);
    let mut tight = [verdict(&both[1], 8, Some(4))];
    bench.learn(&both[1..], &mut tight, 0, 0);
    let shown = bench.leases.spend(&both, ms(1), &mut bench.tally).unwrap();
    assert_eq!((shown.policy.as_str(), shown.remaining), ("q", 8 + 2), "the tightest");
    assert_eq!(bench.spend(&both, 1), Some(8));
    assert_eq!(bench.spend(&both, 1), None, "q has none");
    assert_eq!(bench.spend(&both[..1], 1), Some(502), "and p was not charged for it");
    assert_eq!(bench.counted(), [9, 7, 0]);
}

#[test]
fn a_lease_ends_with_its_time_which_counts_from_the_question() {
    let a = check("p", "a", 1);
    for (sent, arrived, spent, decided) in [
        (0, 0, TTL - 1, true),
        (0, 0, TTL, false),
        (0, TTL - 1, TTL - 1, true),
        (0, TTL - 1, TTL, false),
        (0, TTL, TTL, false),
        (50, 60, 50 + TTL - 1, true),
        (50, 60, 50 + TTL, false),
    ] {
        let mut bench = Bench::leasing();
        bench.grant(&a, 5, sent, arrived);
        let left = bench.spend(std::slice::from_ref(&a), spent);
        assert_eq!(left.is_some(), decided, "sent {sent}, arrived {arrived}, spent {spent}");
        bench.expire(sent + TTL - 1);
        bench.expire(sent + TTL);
        let left = if decided { 4 } else { 5 };
        let refund = Refund { policy: "p".to_owned(), key: vec!["a".to_owned()], cost: left, charge: 12 };
        assert_eq!(bench.refunds(), [refund]);
        assert!(bench.refunds().is_empty(), "once");
        assert_eq!(bench.spend(std::slice::from_ref(&a), sent), None, "not even if the clock is set back");
        assert_eq!(bench.counted(), [5, 5 - i64::try_from(left).unwrap(), i64::try_from(left).unwrap()]);
        assert!(bench.leases.is_idle());
    }
}

#[test]
fn nothing_is_given_back_before_its_time() {
    let (mut bench, a) = (Bench::leasing(), check("p", "a", 1));
    bench.grant(&a, 5, 0, 0);
    bench.expire(TTL - 1);
    assert!(bench.refunds().is_empty() && !bench.leases.is_idle());
    assert!(bench.spend(&[a], TTL - 1).is_some());
}

#[test]
fn a_second_grant_takes_the_place_of_the_first() {
    let (mut bench, a) = (Bench::leasing(), check("p", "a", 1));
    bench.grant(&a, 2, 0, 0);
    let newer = bench.grant(&a, 9, 50, 50);
    assert_eq!(newer.remaining, 509);
    assert_eq!(bench.refunds().iter().map(|refund| (refund.cost, refund.charge)).collect::<Vec<_>>(), [(2, 9)]);
    // When the first would have ended, the second goes on.
    bench.expire(TTL);
    assert_eq!(bench.spend(std::slice::from_ref(&a), 50 + TTL - 1), Some(508));
    bench.expire(50 + TTL);
    assert_eq!(bench.refunds().iter().map(|refund| (refund.cost, refund.charge)).collect::<Vec<_>>(), [(8, 16)]);
    assert_eq!(bench.counted(), [11, 1, 10]);
    assert!(bench.leases.is_idle());
}

#[test]
fn what_remains_never_rises() {
    let (mut bench, a) = (Bench::leasing(), check("p", "a", 1));
    bench.grant(&a, 3, 0, 0);
    // The next of the batch, which was decided after it; and an answer that was overtaken.
    for (told, shown) in [(499, 502), (505, 502), (490, 493)] {
        let mut verdict = [verdict(&a, told, Some(0))];
        bench.learn(std::slice::from_ref(&a), &mut verdict, 0, 1);
        assert_eq!(verdict[0].remaining, shown, "told {told}");
    }
    assert_eq!(bench.spend(std::slice::from_ref(&a), 1), Some(492));
    let shown = bench.leases.spend(&[a], ms(1 + 75), &mut bench.tally).unwrap();
    assert_eq!((shown.remaining, shown.reset_ms, shown.limit, shown.period_ms), (491, 5_000 - 75, 1000, 60_000));
}

#[test]
fn policies_lease_as_long_as_they_say_so() {
    let (mut bench, a) = (Bench::new(10), check("p", "a", 1));
    let tell = |bench: &mut Bench, verdict: Verdict| bench.learn(std::slice::from_ref(&a), &mut [verdict], 0, 0);
    tell(&mut bench, verdict(&a, 9, None));
    tell(&mut bench, Verdict { shadow: true, ..verdict(&a, 9, Some(5)) });
    tell(&mut bench, Verdict { unlimited: true, ..verdict(&a, 9, Some(5)) });
    assert!(!bench.leases.concern(std::slice::from_ref(&a)));
    assert!(bench.leases.is_empty());

    tell(&mut bench, verdict(&a, 9, Some(5)));
    assert!(bench.leases.concern(std::slice::from_ref(&a)));
    // These are no policy's word.
    tell(&mut bench, Verdict { unlimited: true, ..verdict(&a, 9, None) });
    tell(&mut bench, Verdict { shadow: true, ..verdict(&a, 9, None) });
    tell(&mut bench, Verdict { allowed: false, ..verdict(&a, 0, None) });
    assert!(bench.leases.concern(std::slice::from_ref(&a)));
    tell(&mut bench, verdict(&a, 9, None));
    assert!(!bench.leases.concern(std::slice::from_ref(&a)));
    assert_eq!(bench.spend(&[a], 0), None);
    bench.expire(TTL);
    assert_eq!(bench.refunds().len(), 1, "what was charged is given back");
}

#[test]
fn off_is_off() {
    let (mut bench, a) = (Bench::new(0), check("p", "a", 1));
    bench.grant(&a, 5, 0, 0);
    assert!(!bench.leases.concern(std::slice::from_ref(&a)));
    assert_eq!((bench.spend(&[a], 0), bench.leases.len()), (None, 0));
}

#[test]
fn entries_are_bounded_and_busy_keys_stay() {
    const ENTRIES: usize = 8;
    let (mut bench, hot, leased) = (Bench::new(ENTRIES), check("p", "hot", 1), check("p", "leased", 1));
    bench.grant(&leased, 1000, 0, 0);
    for n in 0..1000 {
        assert_eq!(bench.ask(&[check("p", &format!("hostile-{n}"), 1)], 0), [0]);
        bench.ask(std::slice::from_ref(&hot), 0);
        assert!(bench.leases.len() <= ENTRIES);
        assert_eq!(bench.leases.keys.order.len(), bench.leases.len());
    }
    assert_ne!(bench.ask(std::slice::from_ref(&hot), TIMEOUT), [0], "it is known to be busy");
    assert!(bench.spend(&[leased], 1).is_some());
    // When all are busy, others are asked about each time.
    for n in 0..ENTRIES {
        bench.warm(&check("p", &format!("busy-{n}"), 1), 10);
    }
    assert_eq!(bench.leases.len(), ENTRIES);
    let late = check("p", "late", 1);
    bench.warm(&late, 10);
    let refused = bench.grant(&late, 5, 10, 10);
    assert_eq!(refused.remaining, 500);
    assert_eq!(bench.refunds().len(), 1, "no room: given back at once");
    // Until they are not used any more.
    bench.warm(&late, 1000);
    assert!(bench.leases.len() < ENTRIES, "{}", bench.leases.len());
    assert_ne!(bench.ask(&[late], 1000 + TIMEOUT), [0]);
}

#[test]
fn a_callout_carries_so_many_refunds() {
    let mut bench = Bench::leasing();
    for n in 0..=MAX_REFUNDS {
        bench.grant(&check("p", &format!("{n}"), 1), 1, 0, 0);
    }
    let long = check("p", &"x".repeat(40_000), 1);
    bench.grant(&long, 1, 0, 1);
    bench.grant(&check("q", &"x".repeat(40_000), 1), 1, 1, 1);
    bench.expire(1 + TTL);
    assert_eq!(bench.refunds().len(), MAX_REFUNDS);
    assert!(!bench.leases.is_idle());
    let mut rest = 0;
    while let refunds @ 1.. = bench.refunds().len() {
        assert!(refunds <= 2, "{refunds} with 40 kB each");
        rest += refunds;
    }
    assert_eq!(rest, 3);
    assert!(bench.leases.is_idle());
}

#[test]
fn at_the_end_nothing_is_left() {
    let (mut bench, a) = (Bench::leasing(), check("p", "a", 1));
    bench.grant(&a, 5, 0, 0);
    bench.spend(std::slice::from_ref(&a), 1);
    bench.leases.end(&mut bench.tally);
    assert_eq!(bench.spend(&[a], 1), None);
    assert!(bench.leases.is_idle() && bench.refunds().is_empty());
    assert_eq!(bench.counted(), [5, 1, 4]);
}

#[test]
fn absurd_answers_do_no_harm() {
    let (mut bench, a) = (Bench::leasing(), check("p", "a", 1));
    let absurd = Lease { granted: u64::MAX, ttl_ms: u64::MAX, charge: u64::MAX };
    let mut told = [Verdict { lease: Some(absurd), remaining: u64::MAX, ..verdict(&a, 0, None) }];
    bench.learn(std::slice::from_ref(&a), &mut told, 0, 0);
    assert_eq!(bench.spend(std::slice::from_ref(&a), 0), Some(u64::MAX));
    assert_eq!(bench.spend(&[a.clone(), check("p", "a", u64::MAX)], 0), None);
    bench.ask(std::slice::from_ref(&a), 0);
    assert_eq!(bench.spend(std::slice::from_ref(&a), 60_000), None, "a minute at most");
    bench.learn(
        std::slice::from_ref(&a),
        &mut [Verdict { lease: Some(Lease { ttl_ms: 0, ..absurd }), ..verdict(&a, 9, None) }],
        0,
        0,
    );
    bench.expire(60_000);
    assert_eq!(bench.refunds().len(), 2);
}
