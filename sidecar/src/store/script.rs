//! The scripts that decide and refund: their text, their arguments and their answers. The contract is at the
//! head of each text.

use redis::{Cmd, Value};

use super::{Outcome, Refund, Refunded, StoreCheck, StoreError};
use crate::policy::{Algorithm, Limit};

// Redis knows no `require`: the parts are put together here.
macro_rules! script {
    ($head:literal, $constants:literal, $main:literal) => {
        concat!(
            include_str!(concat!("../../../lua/", $head)),
            $constants,
            include_str!("../../../lua/prelude.lua"),
            include_str!("../../../lua/used.lua"),
            include_str!("../../../lua/fixed_window.lua"),
            include_str!("../../../lua/sliding_window.lua"),
            include_str!("../../../lua/token_bucket.lua"),
            include_str!(concat!("../../../lua/", $main)),
        )
    };
}

/// Decides requests.
pub const DECIDE: &str = script!("decide.head.lua", "local LEASES = false\n", "decide.lua");

/// Decides requests of which some want tokens ahead. A text of its own, so that the others don't pay for it.
pub const LEASE: &str = script!("lease.head.lua", "local LEASES = true\n", "decide.lua");

/// Gives charges back.
pub const REFUND: &str = script!("refund.head.lua", "", "refund.lua");

const FLAG_ALIGN: u8 = 1;
const FLAG_SHADOW: u8 = 2;

/// Integers per check in the answer of [`DECIDE`]; that of [`LEASE`] has one more.
const OUTCOME_LENGTH: usize = 5;

/// Integers per refund in the answer of [`REFUND`].
const REFUNDED_LENGTH: usize = 3;

/// Whether a check of these requests wants tokens ahead: then it is [`LEASE`] that has to decide them.
pub fn is_leasing(requests: &[Vec<StoreCheck>]) -> bool {
    requests.iter().flatten().any(|check| check.ahead.want > 0)
}

/// The command that has [`DECIDE`] or [`LEASE`] decide these requests by the server's clock.
pub fn decide(sha1: &str, requests: &[Vec<StoreCheck>]) -> Cmd {
    let mut command = evalsha(sha1, requests.iter().flatten().map(|check| check.key.as_str()));
    let is_leasing = is_leasing(requests);
    for request in requests {
        command.arg(request.len());
        for check in request {
            let align = matches!(check.limit.algorithm, Algorithm::FixedWindow { align: true });
            let flags = u8::from(align) * FLAG_ALIGN + u8::from(check.limit.shadow) * FLAG_SHADOW;
            push_numbers(&mut command, &check.limit, check.cost);
            command.arg(flags);
            if is_leasing {
                command.arg(check.ahead.want).arg(check.ahead.share_ppm);
            }
        }
    }
    command
}

/// The command that has [`REFUND`] give these charges back.
pub fn refund(sha1: &str, refunds: &[Refund]) -> Cmd {
    let mut command = evalsha(sha1, refunds.iter().map(|refund| refund.check.key.as_str()));
    for refund in refunds {
        push_numbers(&mut command, &refund.check.limit, refund.check.cost);
        command.arg(refund.charge);
    }
    command
}

fn evalsha<'a>(sha1: &str, keys: impl Iterator<Item = &'a str> + Clone) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(sha1).arg(keys.clone().count());
    for key in keys {
        command.arg(key);
    }
    // Empty: the server's clock.
    command.arg("");
    command
}

fn push_numbers(command: &mut Cmd, limit: &Limit, cost: u64) {
    let (name, burst) = match limit.algorithm {
        Algorithm::FixedWindow { .. } => ("fixed_window", 0),
        Algorithm::SlidingWindow => ("sliding_window", 0),
        Algorithm::TokenBucket { burst } => ("token_bucket", burst),
    };
    command.arg(name).arg(limit.rate.count).arg(limit.rate.period_us).arg(burst).arg(cost);
}

/// What [`DECIDE`] or [`LEASE`] answered.
///
/// # Errors
///
/// If it is not an answer to these requests.
pub fn outcomes(answer: &Value, requests: &[Vec<StoreCheck>]) -> Result<Vec<Vec<Outcome>>, StoreError> {
    let count = requests.iter().map(Vec::len).sum();
    let length = OUTCOME_LENGTH + usize::from(is_leasing(requests));
    let mut outcomes = chunks(answer, length, count)?.map(outcome);
    let missing = || Err(StoreError::Malformed("fewer outcomes than checks"));
    requests.iter().map(|request| request.iter().map(|_| outcomes.next().unwrap_or_else(missing)).collect()).collect()
}

/// What [`REFUND`] answered.
///
/// # Errors
///
/// If it is not an answer to as many refunds.
pub fn refunded(answer: &Value, count: usize) -> Result<Vec<Refunded>, StoreError> {
    chunks(answer, REFUNDED_LENGTH, count)?
        .map(|integers| match integers {
            [Value::Int(refunded @ (0 | 1)), Value::Int(remaining), Value::Int(reset_us)] => Ok(Refunded {
                refunded: *refunded == 1,
                remaining: natural(*remaining)?,
                reset_us: natural(*reset_us)?,
            }),
            _ => Err(StoreError::Malformed("not three integers")),
        })
        .collect()
}

fn chunks(answer: &Value, length: usize, count: usize) -> Result<std::slice::Chunks<'_, Value>, StoreError> {
    match answer {
        Value::Array(integers) if integers.len() == length * count => Ok(integers.chunks(length)),
        Value::Array(_) => Err(StoreError::Malformed("not as many integers as were asked for")),
        _ => Err(StoreError::Malformed("not an array")),
    }
}

fn outcome(integers: &[Value]) -> Result<Outcome, StoreError> {
    let malformed = StoreError::Malformed("not five or six integers");
    let (integers, granted) = match integers.split_at_checked(OUTCOME_LENGTH) {
        Some((integers, [])) => (integers, 0),
        Some((integers, [Value::Int(granted)])) => (integers, natural(*granted)?),
        _ => return Err(malformed),
    };
    match integers {
        [
            Value::Int(allowed @ (0 | 1)),
            Value::Int(remaining),
            Value::Int(retry_after_us),
            Value::Int(reset_us),
            Value::Int(charge),
        ] => Ok(Outcome {
            allowed: *allowed == 1,
            remaining: natural(*remaining)?,
            retry_after_us: match retry_after_us {
                -1 => None,
                us => Some(natural(*us)?),
            },
            reset_us: natural(*reset_us)?,
            charge: match charge {
                0 => None,
                charge => Some(natural(*charge)?),
            },
            granted,
        }),
        _ => Err(malformed),
    }
}

fn natural(integer: i64) -> Result<u64, StoreError> {
    u64::try_from(integer).map_err(|_| StoreError::Malformed("a number out of range"))
}

#[cfg(test)]
mod tests {
    use super::super::Ahead;
    use super::*;
    use crate::policy::Rate;

    fn check(algorithm: Algorithm, key: &str) -> StoreCheck {
        let rate = Rate { count: 5, period_us: 1_000_000 };
        StoreCheck {
            key: key.to_owned(),
            limit: Limit { algorithm, rate, shadow: key == "b" },
            cost: 2,
            ahead: Ahead::default(),
        }
    }

    fn requests() -> Vec<Vec<StoreCheck>> {
        vec![
            vec![check(Algorithm::TokenBucket { burst: 9 }, "a"), check(Algorithm::SlidingWindow, "b")],
            vec![check(Algorithm::FixedWindow { align: true }, "c")],
        ]
    }

    fn words(command: &Cmd) -> String {
        let words: Vec<String> = command
            .args_iter()
            .map(|arg| match arg {
                redis::Arg::Simple(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
                _ => panic!("no cursor here"),
            })
            .collect();
        words.join(" ")
    }

    #[test]
    fn commands_follow_the_contract() {
        assert_eq!(
            words(&decide("abc", &requests())),
            "EVALSHA abc 3 a b c  2 token_bucket 5 1000000 9 2 0 sliding_window 5 1000000 0 2 2 1 fixed_window 5 1000000 0 2 1"
        );
        let refunds = requests().into_iter().flatten().map(|check| Refund { check, charge: 77 }).collect::<Vec<_>>();
        assert_eq!(
            words(&refund("abc", &refunds)),
            "EVALSHA abc 3 a b c  token_bucket 5 1000000 9 2 77 sliding_window 5 1000000 0 2 77 fixed_window 5 1000000 0 2 77"
        );
    }

    #[test]
    fn only_the_scripts_answer_is_taken() {
        let ints = |ints: &[i64]| Value::Array(ints.iter().map(|int| Value::Int(*int)).collect());
        let good = [1, 3, 0, 10, 99, 0, 0, -1, 20, 0, 1, 4, 0, 30, 0];
        let decided = outcomes(&ints(&good), &requests()).unwrap();
        assert_eq!(decided.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        let outcome =
            Outcome { allowed: false, remaining: 0, retry_after_us: None, reset_us: 20, charge: None, granted: 0 };
        assert_eq!(decided[0][1], outcome);
        assert_eq!(decided[0][0].charge, Some(99));
        let changed = |at: usize, to: i64| {
            let mut bad = good;
            bad[at] = to;
            ints(&bad)
        };
        let bad = [
            Value::Nil,
            Value::Okay,
            ints(&[]),
            ints(&good[..5]),
            ints(&good[..14]),
            ints(&[good.as_slice(), &[1, 1, 1, 1, 1]].concat()),
            changed(0, 2),
            changed(1, -3),
            changed(2, -2),
            changed(3, -1),
            changed(4, -1),
            Value::Array(vec![Value::Nil; 15]),
        ];
        for answer in bad {
            assert!(matches!(outcomes(&answer, &requests()), Err(StoreError::Malformed(_))), "{answer:?}");
        }

        assert_eq!(
            refunded(&ints(&[1, 3, 10, 0, 2, 0]), 2).unwrap(),
            [
                Refunded { refunded: true, remaining: 3, reset_us: 10 },
                Refunded { refunded: false, remaining: 2, reset_us: 0 }
            ]
        );
        for answer in [Value::Nil, ints(&[1, 3]), ints(&[1, 3, 10, 4]), ints(&[2, 3, 10]), ints(&[1, -3, 10])] {
            assert!(matches!(refunded(&answer, 1), Err(StoreError::Malformed(_))), "{answer:?}");
        }
    }
}
