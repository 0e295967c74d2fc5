//! The script's contract, at given times, in a real Redis.

use std::process::Command;

use crate::support::{Redis, repository, tool};
use redis::Connection;
use sluice::store::script::DECIDE;

/// A time of day, in microseconds, that is no multiple of anything.
const T0: u64 = 1_777_777_777_777_777;
const SECOND: u64 = 1_000_000;
const DAY: u64 = 86_400 * SECOND;

const TOKENS: &str = "token_bucket 3 1000000 3 1 0";

struct Script {
    redis: Redis,
    connection: Connection,
}

impl Script {
    async fn new() -> Self {
        let redis = Redis::start().await;
        let connection = redis.connect().unwrap();
        Self { redis, connection }
    }

    /// Runs requests, written as `key=algorithm limit period burst cost flags` with ` + ` between the checks of one,
    /// and returns the first four integers per check.
    fn try_run(&mut self, now: u64, requests: &[&str]) -> redis::RedisResult<Vec<[i64; 4]>> {
        let checks: Vec<Vec<(&str, &str)>> = requests
            .iter()
            .map(|request| request.split(" + ").map(|check| check.split_once('=').unwrap()).collect())
            .collect();
        let mut command = redis::cmd("EVAL");
        command.arg(DECIDE).arg(checks.iter().flatten().count());
        for (key, _) in checks.iter().flatten() {
            command.arg(*key);
        }
        command.arg(now);
        for request in &checks {
            command.arg(request.len());
            for word in request.iter().flat_map(|(_, words)| words.split(' ')) {
                command.arg(word);
            }
        }
        let integers: Vec<i64> = command.query(&mut self.connection)?;
        Ok(integers.chunks(5).map(|chunk| chunk[..4].try_into().unwrap()).collect())
    }

    fn run(&mut self, now: u64, requests: &[&str]) -> Vec<[i64; 4]> {
        self.try_run(now, requests).unwrap()
    }

    /// The one check of one request.
    fn one(&mut self, now: u64, check: &str) -> [i64; 4] {
        self.run(now, &[check])[0]
    }

    fn state(&self, key: &str) -> Option<String> {
        self.redis.command(&["GET", key])
    }

    /// How many of `tries` requests, `every` microseconds apart, are allowed.
    fn allowed(&mut self, check: &str, tries: u64, every: u64) -> i64 {
        (0..tries).map(|i| self.one(T0 + i * every, check)[0]).sum()
    }
}

#[tokio::test]
async fn a_bucket_gives_its_burst_and_then_its_rate() {
    let mut script = Script::new().await;
    let check = format!("b={TOKENS}");
    assert_eq!(script.one(T0, &check), [1, 2, 0, 333_334]);
    assert_eq!(script.one(T0, &check), [1, 1, 0, 666_667]);
    assert_eq!(script.one(T0, &check), [1, 0, 0, 1_000_000]);
    assert_eq!(script.one(T0, &check), [0, 0, 333_334, 1_000_000]);
    assert_eq!(script.one(T0 + 333_333, &check), [0, 0, 1, 666_667]);
    assert_eq!(script.one(T0 + 333_334, &check), [1, 0, 0, 999_999 + 1 - 333_334 + 333_333 + 1]);
    // Thirds are kept: a second later exactly three have come back, less the one taken.
    assert_eq!(script.one(T0 + SECOND, &check), [1, 1, 0, 333_334 + 333_333]);
    assert_eq!(script.one(T0 + 9 * SECOND, &check), [1, 2, 0, 333_334]);
}

#[tokio::test]
async fn a_fixed_window_starts_at_its_first_charge_or_at_a_multiple() {
    let mut script = Script::new().await;
    let check = "f=fixed_window 2 10000000 0 1 0";
    assert_eq!(script.one(T0, check), [1, 1, 0, 10_000_000]);
    assert_eq!(script.one(T0 + 4 * SECOND, check), [1, 0, 0, 6_000_000]);
    assert_eq!(script.one(T0 + 10 * SECOND - 1, check), [0, 0, 1, 1]);
    assert_eq!(script.one(T0 + 10 * SECOND, check), [1, 1, 0, 10_000_000]);

    let check = "a=fixed_window 2 10000000 0 1 1";
    let left = i64::try_from(10 * SECOND - T0 % (10 * SECOND)).unwrap();
    assert_eq!(script.one(T0, check), [1, 1, 0, left]);
    let next = T0 + left.unsigned_abs();
    assert_eq!(script.one(next - 1, check), [1, 0, 0, 1]);
    assert_eq!(script.one(next - 1, check), [0, 0, 1, 1]);
    assert_eq!(script.one(next, check), [1, 1, 0, 10_000_000]);
}

#[tokio::test]
async fn a_sliding_window_weighs_the_one_before() {
    let mut script = Script::new().await;
    let (check, start) = ("s=sliding_window 10 10000000 0 10 0", T0 - T0 % (10 * SECOND));
    assert_eq!(script.one(start, check), [1, 0, 0, 20_000_000]);
    let one = "s=sliding_window 10 10000000 0 1 0";
    // 10 weigh 10 at the start of the next window, and one less each second.
    assert_eq!(script.one(start + 9 * SECOND, one), [0, 0, 2_000_000, 11_000_000]);
    assert_eq!(script.one(start + 10 * SECOND, one), [0, 0, 1_000_000, 10_000_000]);
    assert_eq!(script.one(start + 11 * SECOND - 1, one), [0, 0, 1, 9_000_001]);
    assert_eq!(script.one(start + 11 * SECOND, one), [1, 0, 0, 19_000_000]);
    assert_eq!(script.one(start + 15 * SECOND, "s=sliding_window 10 10000000 0 0 0"), [1, 4, 0, 15_000_000]);
}

#[tokio::test]
async fn a_request_is_charged_whole_or_not_at_all() {
    let mut script = Script::new().await;
    let user = "user=fixed_window 1 60000000 0 1 0";
    let both = format!("{user} + global=token_bucket 10 60000000 10 1 0");
    assert_eq!(script.run(T0, &[&both]), [[1, 0, 0, 60_000_000], [1, 9, 0, 6_000_000]]);
    let before = (script.state("user"), script.state("global"));
    for _ in 0..19 {
        // The check that allowed reports what is there, not what it would have taken.
        assert_eq!(script.run(T0, &[&both]), [[0, 0, 60_000_000, 60_000_000], [1, 9, 0, 6_000_000]]);
    }
    assert_eq!((script.state("user"), script.state("global")), before, "a denied request changed something");
}

#[tokio::test]
async fn costs_of_one_key_add_up_within_a_request() {
    let mut script = Script::new().await;
    for algorithm in
        ["token_bucket 3 60000000 3 2 0", "fixed_window 3 60000000 0 2 0", "sliding_window 3 60000000 0 2 0"]
    {
        let key = algorithm.split('_').next().unwrap();
        let twice = format!("{key}={algorithm} + {key}={algorithm}");
        let reply = script.run(T0, &[&twice]);
        assert_eq!([reply[0][0], reply[0][1], reply[1][0]], [1, 3, 0], "{algorithm}: {reply:?}");
        assert_eq!(script.state(key), None, "{algorithm}");
        assert_eq!(script.one(T0, &format!("{key}={algorithm}"))[..2], [1, 1], "{algorithm}");
    }
}

#[tokio::test]
async fn requests_of_a_batch_see_the_charges_before_them() {
    let mut script = Script::new().await;
    let check = format!("b={TOKENS}");
    let replies = script.run(T0, &[check.as_str(); 5]);
    assert_eq!(replies.iter().map(|reply| reply[0]).collect::<Vec<_>>(), [1, 1, 1, 0, 0]);
    // What is denied in between leaves nothing behind.
    let pair = format!("c={TOKENS} + b={TOKENS}");
    let replies = script.run(T0, &[&format!("c={TOKENS}"), &pair, &format!("c={TOKENS}")]);
    assert_eq!(replies.iter().map(|reply| reply[0]).collect::<Vec<_>>(), [1, 1, 0, 1]);
    assert_eq!(replies[3][1], 1);
}

#[tokio::test]
async fn peeks_impossible_costs_and_limit_zero_change_nothing() {
    let mut script = Script::new().await;
    for (check, reply) in [
        ("x=token_bucket 3 1000000 5 0 0", [1, 5, 0, 0]),
        ("x=token_bucket 3 1000000 5 6 0", [0, 5, -1, 0]),
        ("x=token_bucket 0 1000000 5 1 0", [0, 0, -1, 0]),
        ("x=fixed_window 3 1000000 0 0 0", [1, 3, 0, 0]),
        ("x=fixed_window 3 1000000 0 4 0", [0, 3, -1, 0]),
        ("x=fixed_window 0 1000000 0 0 0", [0, 0, -1, 0]),
        ("x=sliding_window 3 1000000 0 0 0", [1, 3, 0, 0]),
        ("x=sliding_window 3 1000000 0 4 0", [0, 3, -1, 0]),
        ("x=sliding_window 0 1000000 0 1 1", [0, 0, -1, 0]),
    ] {
        assert_eq!(script.one(T0, check), reply, "{check}");
    }
    assert_eq!(script.redis.keys(), Vec::<String>::new());
}

#[tokio::test]
async fn a_shadow_check_counts_but_never_denies() {
    let mut script = Script::new().await;
    let pair = format!("shadow=fixed_window 2 60000000 0 1 2 + real={}", "fixed_window 5 60000000 0 1 0");
    let allowed: Vec<_> =
        (0..4).map(|_| script.run(T0, &[&pair]).iter().map(|r| (r[0], r[1])).collect::<Vec<_>>()).collect();
    assert_eq!(allowed, [[(1, 1), (1, 4)], [(1, 0), (1, 3)], [(0, 0), (1, 2)], [(0, 0), (1, 1)]]);
}

#[tokio::test]
async fn errors_come_before_writes() {
    let mut script = Script::new().await;
    let good = format!("good={TOKENS}");
    for bad in [
        "token_bucket 3 1000000 3 -1 0",
        "token_bucket 3 1000000 3 1.5 0",
        "token_bucket 3 1000000 3 nan 0",
        "token_bucket 3 1000000 3 inf 0",
        "token_bucket 3 1000000 3 1000000001 0",
        "token_bucket 3 0 3 1 0",
        "token_bucket 3 99999999999999 3 1 0",
        "token_bucket 1 2592000000000 1000000000 1 0",
        "token_bucket -3 1000000 3 1 0",
        "token_bucket x 1000000 3 1 0",
        "token_bucket 3 1000000 3 1 4",
        "leaky_bucket 3 1000000 3 1 0",
        "token_bucket 3 1000000 3 1",
        "token_bucket 3 1000000 3 1 0 0",
    ] {
        let error = script.try_run(T0, &[&good, &format!("bad={bad}")]).unwrap_err();
        assert!(error.code() == Some("SLUICE"), "{bad}: {error}");
    }
    for now in [u64::MAX, 1 << 52] {
        assert_eq!(script.try_run(now, &[&good]).unwrap_err().code(), Some("SLUICE"), "{now}");
    }
    for command in [vec!["EVAL", DECIDE, "0", ""], vec!["EVAL", DECIDE, "1", "k", ""], vec!["EVAL", DECIDE, "0"]] {
        let mut cmd = redis::Cmd::new();
        cmd.arg(&command);
        assert!(cmd.query::<redis::Value>(&mut script.connection).is_err(), "{:?}", &command[2..]);
    }
    assert_eq!(script.redis.keys(), Vec::<String>::new());
}

/// What the sidecar sends is checked as what people write is.
#[tokio::test]
async fn errors_in_packed_arguments_come_before_writes() {
    let mut script = Script::new().await;
    let packed = |kind: u8, flags: u8, limit: u32, period: u64, burst: u32, cost: u32| {
        let ending = format!(":0:{limit}:{period}").into_bytes();
        let numbers = [limit.to_le_bytes(), burst.to_le_bytes(), cost.to_le_bytes()];
        [&[kind, flags], &numbers[0][..], &period.to_le_bytes(), &numbers[1], &numbers[2], &ending].concat()
    };
    let good = packed(1, 0, 3, SECOND, 3, 1);
    for bad in [
        packed(0, 0, 3, SECOND, 3, 1),
        packed(4, 0, 3, SECOND, 3, 1),
        packed(1, 8, 3, SECOND, 3, 1),
        // Its request goes on, and it is the last one.
        packed(1, 4, 3, SECOND, 3, 1),
        packed(2, 0, 1_000_000_001, SECOND, 0, 1),
        packed(1, 0, 3, SECOND, 1_000_000_001, 1),
        packed(1, 0, 3, SECOND, 3, 1_000_000_001),
        packed(1, 0, 3, 0, 3, 1),
        packed(1, 0, 3, (1 << 45) + 1, 3, 1),
        packed(1, 0, 3, u64::MAX, 3, 1),
        packed(1, 0, 1, 2_592_000_000_000, 1_000_000_000, 1),
        good[..21].to_vec(),
    ] {
        for arguments in [vec![&bad], vec![&good, &bad]] {
            let keys = ["a", "b"].into_iter().take(arguments.len());
            let mut command = redis::cmd("EVAL");
            command.arg(DECIDE).arg(arguments.len()).arg(keys.collect::<Vec<_>>()).arg(arguments);
            let error = command.query::<redis::Value>(&mut script.connection).unwrap_err();
            assert!(error.code() == Some("SLUICE"), "{}: {error}", bad.escape_ascii());
        }
    }
    let mut too_few_keys = redis::cmd("EVAL");
    too_few_keys.arg(DECIDE).arg(1).arg("a").arg(&good).arg(&good);
    assert_eq!(too_few_keys.query::<redis::Value>(&mut script.connection).unwrap_err().code(), Some("SLUICE"));
    assert_eq!(script.redis.keys(), Vec::<String>::new());
}

#[tokio::test]
async fn every_key_lives_as_long_as_it_means_something() {
    let mut script = Script::new().await;
    for (check, longest_ms) in [
        ("a=fixed_window 5 7000000 0 1 0", 7_000),
        ("b=fixed_window 5 7000000 0 1 1", 7_000),
        ("c=sliding_window 5 7000000 0 1 0", 14_000),
        ("d=token_bucket 5 7000000 5 1 0", 1_400),
        ("e=token_bucket 5 7000000 5 5 0", 7_000),
        ("f=fixed_window 1 2592000000000 0 1 0", 2_592_000_000),
        ("g=token_bucket 1 1000 1 1 0", 1),
    ] {
        let reset_us = script.one(T0, check)[3];
        let ttl_ms: i64 = script.redis.command(&["PTTL", &check[..1]]);
        assert!(ttl_ms > 0 && ttl_ms <= longest_ms + 1_000, "{check}: {ttl_ms}");
        assert!(ttl_ms * 1_000 > reset_us, "{check}: {ttl_ms} ms is less than {reset_us} µs");
    }
}

#[tokio::test]
async fn unusual_rates_hold() {
    let mut script = Script::new().await;
    // Ten times as many tries as the rate allows, for a while: the rate, and at most the burst on top. (With a burst of
    // 1 a token that comes back between two tries would hold up the next.)
    for (name, limit, period, seconds) in [
        ("slow", 1, 10 * SECOND, 100),
        ("fraction", 3, 2 * SECOND, 40),
        ("fast", 8_000, SECOND, 1),
        ("odd", 7, SECOND, 20),
    ] {
        let expected = limit * seconds * SECOND / period;
        let (tries, every) = (expected * 10, seconds * SECOND / (expected * 10));
        let expected = limit * tries * every / period;
        let allowed = script.allowed(&format!("{name}=token_bucket {limit} {period} 2 1 0"), tries, every);
        let expected = i64::try_from(expected).unwrap();
        assert!((0..=2 + expected / 1000).contains(&(allowed - expected)), "{name}: {allowed} instead of {expected}");
    }
    // One a microsecond, and not one more.
    assert_eq!(script.allowed("million=token_bucket 1000000 1000000 1 1 0", 5_000, 1), 5_000);
    assert_eq!(script.allowed("seven=token_bucket 700000 1000000 1 1 0", 5_000, 1), 2_500);
    assert_eq!(script.allowed("tens=token_bucket 700000 1000000 2 1 0", 7_000, 1), 4_901);
}

#[tokio::test]
async fn large_numbers_do_not_round() {
    let mut script = Script::new().await;
    // previous * left is far beyond 2^53 here: 9,999,991 of 30 days, a third of which is left.
    let (period, limit) = (30 * DAY, 9_999_991_u64);
    let start = T0 - T0 % period;
    let check = |cost: u64| format!("s=sliding_window {limit} {period} 0 {cost} 0");
    assert_eq!(script.one(start, &check(limit))[0], 1);
    let left = period / 3 + 1;
    let weighted = (u128::from(limit) * u128::from(left)).div_ceil(u128::from(period));
    let remaining = i64::try_from(u128::from(limit) - weighted).unwrap();
    assert_eq!(script.one(start + 2 * period - left, &check(0))[1], remaining);
    let [allowed, _, wait, _] = script.one(start + 2 * period - left, &check(remaining.unsigned_abs() + 1));
    assert_eq!(allowed, 0);
    // Waiting as told is enough, a microsecond less is not.
    let then = start + 2 * period - left + wait.unsigned_abs();
    assert_eq!(script.one(then - 1, &check(remaining.unsigned_abs() + 1))[0], 0);
    assert_eq!(script.one(then, &check(remaining.unsigned_abs() + 1))[0], 1);

    let (limit, burst) = (999_983_u64, 100_000_000_u64);
    let check = |cost: u64| format!("b=token_bucket {limit} {period} {burst} {cost} 0");
    assert_eq!(script.one(T0, &check(burst))[..2], [1, 0]);
    for taken in [1_u64, 77_777_777, burst] {
        // A token takes period / limit to come back.
        let wait = u64::try_from((u128::from(taken) * u128::from(period)).div_ceil(u128::from(limit))).unwrap();
        assert_eq!(script.one(T0 + wait - 1, &check(0))[1], i64::try_from(taken - 1).unwrap());
        assert_eq!(script.one(T0 + wait, &check(0))[1], i64::try_from(taken).unwrap());
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_locks_nobody_out_and_refills_nothing() {
    let mut script = Script::new().await;
    for (key, check) in [
        ("f", "fixed_window 5 10000000 0 5 0"),
        ("s", "sliding_window 5 10000000 0 5 0"),
        ("t", "token_bucket 5 10000000 5 5 0"),
    ] {
        let check = format!("{key}={check}");
        assert_eq!(script.one(T0, &check)[0], 1);
        let earlier = T0 - 3_600 * SECOND;
        let [allowed, remaining, wait, _] = script.one(earlier, &check);
        assert_eq!((allowed, remaining), (0, 0), "{check}");
        assert!(wait > 0 && wait.unsigned_abs() <= 20 * SECOND, "{check}: {wait}");
        assert_eq!(script.one(earlier + wait.unsigned_abs(), &check)[0], 1, "{check}");
    }
}

#[tokio::test]
async fn a_changed_limit_applies_at_once() {
    let mut script = Script::new().await;
    let mut one = |now: u64, check: &str| script.one(now, check);
    assert_eq!(one(T0, "f=fixed_window 10 1000000 0 10 0")[0], 1);
    assert_eq!(one(T0, "f=fixed_window 12 1000000 0 1 0")[..2], [1, 1]);
    assert_eq!(one(T0, "f=fixed_window 5 1000000 0 1 0")[..2], [0, 0]);
    // A longer period: the window that is running becomes longer, also past the time it would have ended.
    assert_eq!(one(T0 + SECOND / 2, "f=fixed_window 5 60000000 0 1 0"), [0, 0, 59_500_000, 59_500_000]);
    assert_eq!(one(T0 + 2 * SECOND, "f=fixed_window 5 60000000 0 1 0")[0], 0);
    assert_eq!(one(T0 + 2 * SECOND, "f=fixed_window 5 1000000 0 1 0")[..2], [1, 4]);

    assert_eq!(one(T0, "t=token_bucket 1 1000000 100 100 0")[0], 1);
    // A smaller bucket is empty, not in debt; a faster one refills faster at once.
    assert_eq!(one(T0, "t=token_bucket 1 1000000 10 1 0"), [0, 0, 1_000_000, 10_000_000]);
    assert_eq!(one(T0, "t=token_bucket 10 1000000 10 1 0"), [0, 0, 100_000, 1_000_000]);
    assert_eq!(one(T0 + 100_000, "t=token_bucket 10 1000000 10 1 0")[0], 1);

    assert_eq!(one(T0, "s=sliding_window 10 1000000 0 10 0")[0], 1);
    assert_eq!(one(T0, "s=sliding_window 10 60000000 0 1 0")[0], 0);
    assert_eq!(one(T0 + 1, "s=sliding_window 12 60000000 0 1 0")[..2], [1, 1]);

    // Another rate: as many tokens are missing as before.
    assert_eq!(one(T0, "r=token_bucket 100 1000000 100 100 0")[0], 1);
    assert_eq!(one(T0, "r=token_bucket 10 1000000 100 1 0")[..3], [0, 0, 100_000]);
    assert_eq!(one(T0 + SECOND, "r=token_bucket 10 1000000 100 1 0")[..2], [1, 9]);
    assert_eq!(one(T0 + SECOND, "r=token_bucket 100 1000000 100 1 0")[..2], [1, 8]);
    assert_eq!(one(T0 + SECOND + 100_000, "r=token_bucket 100 1000000 100 1 0")[..2], [1, 17]);

    // Another algorithm under the same name: what is used stays used, until it would have run out.
    for (first, then) in [
        ("fixed_window 10 1000000 0", "sliding_window 10 1000000 0"),
        ("fixed_window 10 1000000 0", "token_bucket 10 1000000 10"),
        ("sliding_window 10 1000000 0", "fixed_window 10 1000000 0"),
        ("sliding_window 10 1000000 0", "token_bucket 10 1000000 10"),
        ("token_bucket 10 1000000 10", "fixed_window 10 1000000 0"),
        ("token_bucket 10 1000000 10", "sliding_window 10 1000000 0"),
    ] {
        let key = format!("{first} {then}").replace(' ', "");
        assert_eq!(one(T0, &format!("{key}={first} 7 0"))[..2], [1, 3], "{first}");
        assert_eq!(one(T0, &format!("{key}={then} 4 0"))[..2], [0, 3], "{first}, {then}");
        assert_eq!(one(T0, &format!("{key}={then} 1 0"))[..2], [1, 2], "{first}, {then}");
        assert_eq!(one(T0 + 3 * SECOND, &format!("{key}={then} 10 0"))[..2], [1, 0], "{first}, {then}");
    }

    let ttl_ms: i64 = script.redis.command(&["PTTL", "f"]);
    assert!(ttl_ms > 0);
}

#[tokio::test]
async fn foreign_values_under_a_key_count_as_none() {
    let mut script = Script::new().await;
    for value in ["", "x", "nan", "inf", "-5", "5", "f:1", "t", "t:1:2:3", "t:x:0:1:1", "f:x:y:z", "s:1:2:3", "1e999"] {
        for check in ["token_bucket 3 1000000 3 1 0", "fixed_window 3 1000000 0 1 0", "sliding_window 3 1000000 0 1 0"]
        {
            let _: () = script.redis.command(&["SET", "k", value]);
            assert_eq!(script.one(T0, &format!("k={check}"))[..2], [1, 2], "{value} {check}");
        }
    }
    let _: () = script.redis.command(&["DEL", "k"]);
    let _: () = script.redis.command(&["RPUSH", "k", "1"]);
    assert_eq!(script.one(T0, &format!("k={TOKENS}"))[..2], [1, 2]);
}

/// The command that lua/README.md shows, pasted into a shell, prints what it shows.
#[tokio::test]
async fn the_readmes_command_can_be_pasted() {
    let readme = std::fs::read_to_string(repository().join("lua/README.md")).unwrap();
    let blocks: Vec<&str> = readme.split("```").skip(1).step_by(2).collect();
    let command = blocks[0].strip_prefix("sh\n").unwrap();
    let printed = blocks[1].strip_prefix("text\n").unwrap();
    let redis = Redis::start().await;
    let directory = tempfile::TempDir::new().unwrap();
    // A shell that has both commands, the second one for this test's Redis.
    let shell = format!(
        "sluice() {{ '{}' \"$@\"; }}; redis-cli() {{ '{}' --no-raw -p {} \"$@\"; }}\n{command}",
        env!("CARGO_BIN_EXE_sluice"),
        tool("redis-cli").display(),
        redis.port(),
    );
    let run = |shell: &str| {
        let output = Command::new("bash").arg("-euc").arg(shell).current_dir(&directory).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    // The charge is a time.
    let without_charge = |text: &str| text.rsplit_once("5) (integer) ").unwrap().0.to_owned();
    assert_eq!(without_charge(&run(&shell)), without_charge(printed));
    // The block after it runs too.
    let second = shell.replace(command, blocks[2].strip_prefix("sh\n").unwrap());
    assert_eq!(run(&second).lines().count(), 10);
}
