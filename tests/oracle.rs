//! The script in a real Redis against the model in Rust: the same integers, and the same text under every key.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestCaseError, TestRunner};
use redis::Connection;
use sluice::model::{self, State};
use sluice::policy::{Algorithm, Limit, Rate};
use sluice::store::script::{self, DECIDE, LEASE, REFUND};
use sluice::store::{Ahead, Outcome, Refund, Refunded, StoreCheck};

use crate::support::Redis;

const T0: u64 = 1_777_777_777_777_777;
const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// One run of the script.
#[derive(Debug, Clone)]
struct Call {
    /// Microseconds since the call before; the clock may stand still, leap, and be set back.
    step_us: i64,
    requests: Vec<Vec<StoreCheck>>,
    /// Before them, give back a charge: the one made that many charges ago.
    refund: Option<usize>,
}

fn rates() -> impl Strategy<Value = Rate> {
    let counts = prop_oneof![4 => 1..30_u64, 2 => 1..10_000_u64, 1 => 1..=1_000_000_000_u64, 1 => Just(0)];
    // In a batch of runs the same few come back, so that counts and periods change under a state that fits.
    let periods = prop_oneof![
        4 => prop::sample::select(vec![1_000, 1_000_000, 2_000_000, 60_000_000]),
        1 => 1_000..10_000_000_u64,
        1 => prop::sample::select(vec![3_600_000_000, 86_400_000_000, 30 * 86_400_000_000, 366 * 86_400_000_000_u64]),
    ];
    (counts, periods).prop_map(|(count, period_us)| Rate { count, period_us })
}

fn limits() -> impl Strategy<Value = Limit> {
    let bursts = prop_oneof![3 => 1..40_u64, 1 => 1..=1_000_000_000_u64];
    let algorithms = (0..4, bursts).prop_map(|(kind, burst)| match kind {
        0 => Algorithm::FixedWindow { align: false },
        1 => Algorithm::FixedWindow { align: true },
        2 => Algorithm::SlidingWindow,
        _ => Algorithm::TokenBucket { burst },
    });
    let shadow = prop::bool::weighted(0.15);
    (algorithms, rates(), shadow).prop_map(|(algorithm, rate, shadow)| Limit { algorithm, rate, shadow }).prop_filter(
        "the configuration refuses it",
        |limit| match limit.algorithm {
            Algorithm::TokenBucket { burst } => {
                u128::from(burst) * u128::from(limit.rate.period_us)
                    <= sluice::policy::MAX_REFILL_US * u128::from(limit.rate.count.max(1))
            }
            _ => true,
        },
    )
}

/// Calls that mostly use one limit per key, so that states build up, and now and then another, so that they have to
/// be carried over.
fn calls() -> impl Strategy<Value = Vec<Call>> {
    let limits = (prop::collection::vec(limits(), KEYS.len()), prop::collection::vec(limits(), 4));
    limits.prop_flat_map(|(usual, other)| {
        let costs = prop_oneof![6 => Just(1_u64), 2 => Just(0), 4 => 1..20_u64, 1 => 0..=1_000_000_000_u64];
        let ahead = prop_oneof![
            8 => Just(Ahead::default()),
            1 => (0..30_u64, 0..=1_000_000_u32).prop_map(|(want, share_ppm)| Ahead { want, share_ppm }),
            1 => Just(Ahead { want: 1_000_000_000, share_ppm: 1_000_000 }),
        ];
        let odd = prop::option::weighted(0.15, 0..other.len());
        let check = (0..KEYS.len(), odd, costs, ahead).prop_map(move |(key, odd, cost, ahead)| {
            let limit = odd.map_or(usual[key], |odd| other[odd]);
            StoreCheck { key: KEYS[key].to_owned(), limit, cost, ahead }
        });
        let requests = prop::collection::vec(prop::collection::vec(check, 1..4), 1..4);
        let steps = prop_oneof![
            4 => Just(0_i64),
            4 => 0..2_000_000_i64,
            2 => 0..120_000_000_i64,
            2 => prop::sample::select(vec![1, 999_999, 1_000_000, 59_999_999, 60_000_000]),
            1 => -3_000_000..0_i64,
            1 => -86_400_000_000..86_400_000_000_i64,
        ];
        let refund = prop::option::weighted(0.3, 0..6_usize);
        let call = (steps, requests, refund).prop_map(|(step_us, requests, refund)| Call { step_us, requests, refund });
        prop::collection::vec(call, 1..40)
    })
}

struct Both {
    connection: Connection,
    states: HashMap<String, State>,
    /// All that was charged so far.
    charges: Vec<Refund>,
}

impl Both {
    /// Runs one of the sidecar's own commands, with the text where it has a digest, and in that the time where it asks
    /// the server.
    fn run(&mut self, text: &str, now_us: u64, sidecars: &redis::Cmd) -> redis::RedisResult<redis::Value> {
        let text = text
            .replace("TTL_SLACK_MS = 1000", &format!("TTL_SLACK_MS = {SLACK_MS}"))
            .replace("call('TIME')", "{ math.floor(NOW_US / 1e6), NOW_US % 1e6 }");
        let mut command = redis::cmd("EVAL");
        command.arg(format!("local NOW_US = tonumber(table.remove(ARGV))\n{text}"));
        for argument in sidecars.args_iter().skip(2) {
            let redis::Arg::Simple(bytes) = argument else { unreachable!() };
            command.arg(bytes);
        }
        command.arg(now_us);
        command.query(&mut self.connection)
    }

    fn decide(&mut self, now_us: u64, requests: &[Vec<StoreCheck>]) -> Result<(), TestCaseError> {
        let text = if script::is_leasing(requests) { LEASE } else { DECIDE };
        let answer = self.run(text, now_us, &script::decide("", requests));
        let answer = answer.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let by_script: Vec<Vec<Outcome>> = script::outcomes(&answer, requests).unwrap();
        let (by_model, changes) = model::decide_requests(requests, now_us, |key| self.states.get(key).cloned());
        prop_assert_eq!(&by_script, &by_model, "at {}, states {:?}", now_us, self.states);
        for (check, outcome) in requests.iter().flatten().zip(by_model.iter().flatten()) {
            self.charges.extend(outcome.charge.map(|charge| Refund { check: check.clone(), charge }));
        }
        for (key, (state, ttl_us)) in changes {
            self.assert_ttl(&key, ttl_us)?;
            self.states.insert(key, state);
        }
        self.assert_same_states()
    }

    fn refund(&mut self, now_us: u64, refund: &Refund) -> Result<(), TestCaseError> {
        let refunds = std::slice::from_ref(refund);
        let answer = self.run(REFUND, now_us, &script::refund("", refunds));
        let answer = answer.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let by_script = script::refunded(&answer, 1).unwrap()[0];

        let Refund { check, charge } = refund;
        let state = self.states.get(&check.key);
        let after = model::refund(state, now_us, &check.limit, check.cost, *charge);
        let refunded = after.is_some();
        if let Some((state, ttl_us)) = after {
            self.assert_ttl(&check.key, ttl_us)?;
            self.states.insert(check.key.clone(), state);
        }
        // `align` decides where a window starts, not what is left in one.
        let mut limit = check.limit;
        if let Algorithm::FixedWindow { align } = &mut limit.algorithm {
            *align = false;
        }
        let now = model::decide(self.states.get(&check.key), now_us, &limit, 0).outcome;
        let by_model = Refunded { refunded, remaining: now.remaining, reset_us: now.reset_us };
        prop_assert_eq!(by_script, by_model, "{:?} at {}, states {:?}", refund, now_us, self.states);
        self.assert_same_states()
    }

    fn assert_ttl(&mut self, key: &str, ttl_us: u64) -> Result<(), TestCaseError> {
        let kept_ms: i64 = redis::cmd("PTTL").arg(key).query(&mut self.connection).unwrap();
        prop_assert!(kept_ms > 0, "{}: TTL {}", key, kept_ms);
        prop_assert!(u64::try_from(kept_ms).unwrap() <= ttl_us.div_ceil(1_000) + SLACK_MS, "{}: TTL {}", key, kept_ms);
        Ok(())
    }

    fn assert_same_states(&mut self) -> Result<(), TestCaseError> {
        let kept: Vec<Option<String>> = redis::cmd("MGET").arg(&KEYS).query(&mut self.connection).unwrap();
        let expected = KEYS.map(|key| self.states.get(key).map(State::to_string));
        prop_assert_eq!(&kept[..], &expected[..]);
        Ok(())
    }

    fn run_all(&mut self, calls: &[Call]) -> Result<(), TestCaseError> {
        redis::cmd("DEL").arg(&KEYS).exec(&mut self.connection).unwrap();
        self.states.clear();
        self.charges.clear();
        let mut now_us = T0;
        for Call { step_us, requests, refund } in calls {
            now_us = now_us.saturating_add_signed(*step_us);
            let ago = refund.map(|ago| self.charges.iter().rev().nth(ago).cloned());
            if let Some(Some(refund)) = ago {
                self.refund(now_us, &refund)?;
            }
            self.decide(now_us, requests)?;
        }
        Ok(())
    }
}

/// States must not run out while a case stands still in the script's time but not in the server's.
const SLACK_MS: u64 = 3_600_000;

#[tokio::test]
async fn script_and_model_agree_to_the_integer() {
    let redis = Redis::start().await;
    for text in [DECIDE, LEASE, REFUND] {
        assert!(text.contains("TTL_SLACK_MS = 1000") && text.matches("call('TIME')").count() == 1);
    }
    let mut both = Both { connection: redis.connect().unwrap(), states: HashMap::new(), charges: Vec::new() };
    let seed = std::env::var("SLUICE_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    // More cases than these few: SLUICE_CASES.
    println!("repeat with SLUICE_SEED={seed}");
    let config = ProptestConfig {
        cases: std::env::var("SLUICE_CASES").map_or(300, |cases| cases.parse().unwrap()),
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 1_000,
        ..ProptestConfig::default()
    };
    let both = std::cell::RefCell::new(&mut both);
    let result = TestRunner::new(config).run(&calls(), |calls| both.borrow_mut().run_all(&calls));
    assert!(result.is_ok(), "{}", result.unwrap_err());
}

/// What the script reads and writes, as Redis itself reports it, is in KEYS.
#[tokio::test]
async fn only_keys_in_keys_are_touched() {
    let redis = Redis::start().await;
    let mut connection = redis.connect().unwrap();
    // A user that may use these keys and no others: Redis refuses a script's command on any other.
    let rules = ["ACL", "SETUSER", "narrow", "on", "nopass", "~k:*", "+eval", "+mget", "+set", "+time"];
    redis::cmd(rules[0]).arg(&rules[1..]).exec(&mut connection).unwrap();
    redis::cmd("AUTH").arg("narrow").arg("any").exec(&mut connection).unwrap();
    let eval = |connection: &mut Connection, keys: &[&str]| {
        let mut command = redis::cmd("EVAL");
        command.arg(DECIDE).arg(keys.len()).arg(keys).arg("").arg(keys.len());
        for algorithm in ["fixed_window", "sliding_window", "token_bucket"].iter().cycle().take(keys.len()) {
            command.arg(&[algorithm, "5", "1000000", "5", "1", "0"]);
        }
        command.query::<Vec<i64>>(connection)
    };
    assert_eq!(eval(&mut connection, &["k:a", "k:b", "k:c"]).unwrap().len(), 15);
    assert_eq!(eval(&mut connection, &["x"]).unwrap_err().code(), Some("NOPERM"));
}
