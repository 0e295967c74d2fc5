//! The script that decides: its text, its arguments and its answer. The contract is at the head of the text.

use redis::{Cmd, Value};

use super::{Outcome, StoreCheck, StoreError};
use crate::policy::Algorithm;

/// The script, put together from its parts: Redis knows no `require`.
pub const DECIDE: &str = concat!(
    include_str!("../../../lua/prelude.lua"),
    include_str!("../../../lua/fixed_window.lua"),
    include_str!("../../../lua/sliding_window.lua"),
    include_str!("../../../lua/token_bucket.lua"),
    include_str!("../../../lua/decide.lua"),
);

const FLAG_ALIGN: u8 = 1;
const FLAG_SHADOW: u8 = 2;

/// Integers per check in the answer.
const OUTCOME_LENGTH: usize = 4;

/// The command that has the script decide these requests by the server's clock.
pub fn command(sha1: &str, requests: &[Vec<StoreCheck>]) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(sha1).arg(requests.iter().map(Vec::len).sum::<usize>());
    for check in requests.iter().flatten() {
        command.arg(check.key.as_str());
    }
    command.arg("");
    for request in requests {
        command.arg(request.len());
        for check in request {
            let (name, burst, align) = match check.limit.algorithm {
                Algorithm::FixedWindow { align } => ("fixed_window", 0, align),
                Algorithm::SlidingWindow => ("sliding_window", 0, false),
                Algorithm::TokenBucket { burst } => ("token_bucket", burst, false),
            };
            let flags = u8::from(align) * FLAG_ALIGN + u8::from(check.limit.shadow) * FLAG_SHADOW;
            command.arg(name).arg(check.limit.rate.count).arg(check.limit.rate.period_us);
            command.arg(burst).arg(check.cost).arg(flags);
        }
    }
    command
}

/// What the script answered.
///
/// # Errors
///
/// If it is not an answer to these requests.
pub fn outcomes(answer: &Value, requests: &[Vec<StoreCheck>]) -> Result<Vec<Vec<Outcome>>, StoreError> {
    let Value::Array(integers) = answer else { return Err(StoreError::Malformed("not an array")) };
    let mut outcomes = integers.chunks(OUTCOME_LENGTH).map(outcome);
    let decided = requests
        .iter()
        .map(|request| {
            request
                .iter()
                .map(|_| outcomes.next().ok_or(StoreError::Malformed("fewer outcomes than checks"))?)
                .collect()
        })
        .collect();
    if outcomes.next().is_some() { Err(StoreError::Malformed("more outcomes than checks")) } else { decided }
}

fn outcome(integers: &[Value]) -> Result<Outcome, StoreError> {
    let [Value::Int(allowed), Value::Int(remaining), Value::Int(retry_after_us), Value::Int(reset_us)] = integers
    else {
        return Err(StoreError::Malformed("not four integers"));
    };
    let positive = |integer: &i64| u64::try_from(*integer);
    match (allowed, positive(remaining), positive(reset_us)) {
        (0 | 1, Ok(remaining), Ok(reset_us)) => {
            Ok(Outcome { allowed: *allowed == 1, remaining, retry_after_us: positive(retry_after_us).ok(), reset_us })
        }
        _ => Err(StoreError::Malformed("a number out of range")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Limit, Rate};

    fn requests() -> Vec<Vec<StoreCheck>> {
        let rate = Rate { count: 5, period_us: 1_000_000 };
        let check = |algorithm, key: &str| StoreCheck {
            key: key.to_owned(),
            limit: Limit { algorithm, rate, shadow: key == "b" },
            cost: 2,
        };
        vec![
            vec![check(Algorithm::TokenBucket { burst: 9 }, "a"), check(Algorithm::SlidingWindow, "b")],
            vec![check(Algorithm::FixedWindow { align: true }, "c")],
        ]
    }

    #[test]
    fn the_command_follows_the_contract() {
        let args: Vec<String> = command("abc", &requests())
            .args_iter()
            .map(|arg| match arg {
                redis::Arg::Simple(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
                _ => panic!("no cursor here"),
            })
            .collect();
        assert_eq!(
            args.join(" "),
            "EVALSHA abc 3 a b c  2 token_bucket 5 1000000 9 2 0 sliding_window 5 1000000 0 2 2 1 fixed_window 5 1000000 0 2 1"
        );
    }

    #[test]
    fn only_the_scripts_answer_is_taken() {
        let ints = |ints: &[i64]| Value::Array(ints.iter().map(|int| Value::Int(*int)).collect());
        let good = ints(&[1, 3, 0, 10, 0, 0, -1, 20, 1, 4, 0, 30]);
        let decided = outcomes(&good, &requests()).unwrap();
        assert_eq!(decided.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(decided[0][1], Outcome { allowed: false, remaining: 0, retry_after_us: None, reset_us: 20 });
        let bad = [
            Value::Nil,
            Value::Okay,
            ints(&[]),
            ints(&[1, 3, 0, 10]),
            ints(&[1, 3, 0, 10, 0, 0, -1, 20, 1, 4, 0]),
            ints(&[1, 3, 0, 10, 0, 0, -1, 20, 1, 4, 0, 30, 1, 1, 1, 1]),
            ints(&[2, 3, 0, 10, 0, 0, -1, 20, 1, 4, 0, 30]),
            ints(&[1, -3, 0, 10, 0, 0, -1, 20, 1, 4, 0, 30]),
            Value::Array(vec![Value::Nil; 12]),
        ];
        for answer in bad {
            assert!(matches!(outcomes(&answer, &requests()), Err(StoreError::Malformed(_))), "{answer:?}");
        }
    }
}
