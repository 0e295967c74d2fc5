//! The scripts that decide and refund: their text, their arguments and their answers. The contract is at the
//! head of each text.

use redis::{Cmd, Value};

use super::{Outcome, Refund, Refunded, StoreCheck, StoreError};
use crate::policy::{Algorithm, Limit};

// Redis knows no `require`: the parts are put together here.
macro_rules! part {
    ($name:literal) => {
        include_str!(concat!("../../../lua/", $name))
    };
}

macro_rules! algorithms {
    () => {
        concat!(
            part!("muldiv.lua"),
            part!("used.lua"),
            part!("fixed_window.lua"),
            part!("sliding_window.lua"),
            part!("token_bucket.lua"),
        )
    };
}

/// Decides requests.
pub const DECIDE: &str = concat!(
    part!("decide.head.lua"),
    "local LEASES, SIZE, CHECK, REPLY = false, 22, '<BBI4I8I4I4', '<i8i8i8i8i8'\n",
    part!("prelude.lua"),
    part!("whole_bucket.lua"),
    part!("one_bucket.lua"),
    algorithms!(),
    part!("by_hand.lua"),
    part!("decide.lua"),
);

/// Decides requests of which some want tokens ahead. A text of its own, so that the others don't pay for it.
pub const LEASE: &str = concat!(
    part!("lease.head.lua"),
    "local LEASES, SIZE, CHECK, REPLY = true, 30, '<BBI4I8I4I4I4I4', '<i8i8i8i8i8i8'\n",
    part!("prelude.lua"),
    part!("whole_bucket.lua"),
    algorithms!(),
    part!("by_hand.lua"),
    part!("decide.lua"),
);

/// Gives charges back.
pub const REFUND: &str = concat!(
    part!("refund.head.lua"),
    "local SIZE = math.huge\n",
    part!("prelude.lua"),
    part!("whole_bucket.lua"),
    algorithms!(),
    part!("refund.lua"),
);

const KIND_TOKEN_BUCKET: u8 = 1;
const KIND_FIXED_WINDOW: u8 = 2;
const KIND_SLIDING_WINDOW: u8 = 3;

const FLAG_ALIGN: u8 = 1;
const FLAG_SHADOW: u8 = 2;
/// The check that follows belongs to the same request.
const FLAG_GOES_ON: u8 = 4;

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
        let mut checks = request.iter().peekable();
        while let Some(check) = checks.next() {
            command.arg(packed(check, checks.peek().is_some(), is_leasing));
        }
    }
    command
}

/// A check as the script unpacks it: the format is `CHECK` of its text.
fn packed(check: &StoreCheck, goes_on: bool, is_leasing: bool) -> Vec<u8> {
    let (kind, align, burst) = match check.limit.algorithm {
        Algorithm::TokenBucket { burst } => (KIND_TOKEN_BUCKET, false, burst),
        Algorithm::FixedWindow { align } => (KIND_FIXED_WINDOW, align, 0),
        Algorithm::SlidingWindow => (KIND_SLIDING_WINDOW, false, 0),
    };
    let flags =
        u8::from(align) * FLAG_ALIGN + u8::from(check.limit.shadow) * FLAG_SHADOW + u8::from(goes_on) * FLAG_GOES_ON;
    let rate = check.limit.rate;
    let mut bytes = Vec::with_capacity(64);
    bytes.extend([kind, flags]);
    bytes.extend(count(rate.count));
    bytes.extend(rate.period_us.to_le_bytes());
    bytes.extend(count(burst));
    bytes.extend(count(check.cost));
    if is_leasing {
        bytes.extend(count(check.ahead.want));
        bytes.extend(check.ahead.share_ppm.to_le_bytes());
    }
    if kind == KIND_TOKEN_BUCKET {
        // How its states end: the script would take longer for these few digits than for all numbers before them.
        bytes.extend(format!(":0:{}:{}", rate.count, rate.period_us).into_bytes());
    }
    bytes
}

/// What does not fit is out of the script's range as well, and it says so.
fn count(number: u64) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes()
}

/// The command that has [`REFUND`] give these charges back.
pub fn refund(sha1: &str, refunds: &[Refund]) -> Cmd {
    let mut command = evalsha(sha1, refunds.iter().map(|refund| refund.check.key.as_str()));
    // Empty: the server's clock.
    command.arg("");
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
    let Value::BulkString(bytes) = answer else { return Err(StoreError::Malformed("not packed integers")) };
    let length = OUTCOME_LENGTH + usize::from(is_leasing(requests));
    let (integers, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() || integers.len() != length * requests.iter().map(Vec::len).sum::<usize>() {
        return Err(StoreError::Malformed("not as many integers as were asked for"));
    }
    let integers: Vec<i64> = integers.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
    let mut outcomes = integers.chunks(length).map(outcome);
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

fn outcome(integers: &[i64]) -> Result<Outcome, StoreError> {
    let (allowed, remaining, retry_after_us, reset_us, charge, granted) = match *integers {
        [allowed @ (0 | 1), remaining, retry, reset, charge] => (allowed, remaining, retry, reset, charge, 0),
        [allowed @ (0 | 1), remaining, retry, reset, charge, granted] => {
            (allowed, remaining, retry, reset, charge, granted)
        }
        _ => return Err(StoreError::Malformed("not five or six integers")),
    };
    Ok(Outcome {
        allowed: allowed == 1,
        remaining: natural(remaining)?,
        retry_after_us: match retry_after_us {
            -1 => None,
            us => Some(natural(us)?),
        },
        reset_us: natural(reset_us)?,
        charge: match charge {
            0 => None,
            charge => Some(natural(charge)?),
        },
        granted: natural(granted)?,
    })
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

    fn words(command: &Cmd) -> Vec<Vec<u8>> {
        command
            .args_iter()
            .map(|arg| match arg {
                redis::Arg::Simple(bytes) => bytes.to_vec(),
                _ => panic!("no cursor here"),
            })
            .collect()
    }

    /// Kind, flags, burst; the other numbers are the same for all.
    fn argument(kind: u8, flags: u8, burst: u8) -> Vec<u8> {
        [&[kind, flags, 5, 0, 0, 0][..], &1_000_000_u64.to_le_bytes(), &[burst, 0, 0, 0, 2, 0, 0, 0]].concat()
    }

    #[test]
    fn commands_follow_the_contract() {
        let bucket = [argument(1, 4, 9), b":0:5:1000000".to_vec()].concat();
        let decide_words = words(&decide("abc", &requests()));
        assert_eq!(decide_words[..6], ["EVALSHA", "abc", "3", "a", "b", "c"].map(|word| word.as_bytes().to_vec()));
        assert_eq!(decide_words[6..], [bucket, argument(3, 2, 0), argument(2, 1, 0)]);
        let mut leasing = requests();
        leasing[0][0].ahead = Ahead { want: 3, share_ppm: 7 };
        let expected = [argument(1, 4, 9), vec![3, 0, 0, 0, 7, 0, 0, 0], b":0:5:1000000".to_vec()].concat();
        assert_eq!(words(&decide("abc", &leasing))[6], expected);
        let mut too_much = requests();
        too_much[0][0].cost = u64::MAX;
        assert_eq!(words(&decide("abc", &too_much))[6][18..22], [0xff; 4]);

        let refunds = requests().into_iter().flatten().map(|check| Refund { check, charge: 77 }).collect::<Vec<_>>();
        assert_eq!(
            words(&refund("abc", &refunds)).join(&b' '),
            b"EVALSHA abc 3 a b c  token_bucket 5 1000000 9 2 77 sliding_window 5 1000000 0 2 77 fixed_window 5 1000000 0 2 77"
        );
    }

    #[test]
    fn only_the_scripts_answer_is_taken() {
        let packed = |ints: &[i64]| Value::BulkString(ints.iter().flat_map(|integer| integer.to_le_bytes()).collect());
        let ints = |ints: &[i64]| Value::Array(ints.iter().map(|int| Value::Int(*int)).collect());
        let good = [1, 3, 0, 10, 99, 0, 0, -1, 20, 0, 1, 4, 0, 30, 0];
        let decided = outcomes(&packed(&good), &requests()).unwrap();
        assert_eq!(decided.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        let outcome =
            Outcome { allowed: false, remaining: 0, retry_after_us: None, reset_us: 20, charge: None, granted: 0 };
        assert_eq!(decided[0][1], outcome);
        assert_eq!(decided[0][0].charge, Some(99));
        let changed = |at: usize, to: i64| {
            let mut bad = good;
            bad[at] = to;
            packed(&bad)
        };
        let bad = [
            Value::Nil,
            Value::Okay,
            ints(&good),
            packed(&[]),
            packed(&good[..5]),
            packed(&good[..14]),
            packed(&[good.as_slice(), &[1, 1, 1, 1, 1]].concat()),
            Value::BulkString(vec![0; 8 * 15 - 1]),
            Value::BulkString(vec![0; 8 * 15 + 1]),
            changed(0, 2),
            changed(1, -3),
            changed(2, -2),
            changed(3, -1),
            changed(4, -1),
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
