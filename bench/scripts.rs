//! What a check costs in Redis: `decide.lua` against the scripts of textbooks and libraries, by the size of a batch and
//! the number of keys. Redis itself counts how long it spends in a script.

use std::time::{SystemTime, UNIX_EPOCH};

use redis::{Cmd, Connection, Value};
use serde::Serialize;
use sluice::keys::state_key;
use sluice::policy::{Algorithm, Limit, Rate};
use sluice::store::{Ahead, StoreCheck, script};

use super::counters::{Commands, cpu_time};
use super::figures::median;
use super::support::Redis;

/// Checks in a batch: how many requests of one check each.
const BATCHES: [usize; 5] = [1, 4, 16, 64, 256];
/// Checks in one measurement, about.
const CHECKS: usize = 20_000;
/// Script runs that are sent without waiting in between.
const PIPELINE: usize = 32;
/// A charge must not be forgotten while a million others are made.
const DAY_US: u64 = 86_400_000_000;

/// How many keys are written by the script itself before they are copied.
const ORIGINALS: u32 = 100;

/// Copies originals to the keys of further numbers, to be kept for an hour if they are not kept for good. KEYS are those
/// of number 0.
const FILL: &str = "
    for _, name in ipairs(KEYS) do
      local function of(number) return (name:gsub('0000000', string.format('%07d', number))) end
      for number = tonumber(ARGV[1]), tonumber(ARGV[2]) do
        local original = of(number % 100)
        if redis.call('PTTL', original) < 0 then
          redis.call('SET', of(number), redis.call('GET', original))
        else
          redis.call('SET', of(number), redis.call('GET', original), 'PX', 3600000)
        end
      end
    end";

/// A script of ours, or rather an algorithm of the one that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ours {
    TokenBucket,
    FixedWindow,
    SlidingWindow,
}

/// A script that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Does nothing: what the others are compared with, as machines differ.
    Empty,
    /// The commands of the one below, and nothing else.
    Commands,
    Decide(Ours),
    TextbookTokenBucket,
    TextbookFixedWindow,
    Gcra,
}

pub const SUBJECTS: [Subject; 8] = [
    Subject::Empty,
    Subject::Commands,
    Subject::Decide(Ours::TokenBucket),
    Subject::Decide(Ours::FixedWindow),
    Subject::Decide(Ours::SlidingWindow),
    Subject::TextbookTokenBucket,
    Subject::TextbookFixedWindow,
    Subject::Gcra,
];

/// One line of the result.
#[derive(Debug, Clone, Serialize)]
pub struct ScriptCost {
    pub script: &'static str,
    pub keys: u32,
    pub batch: usize,
    /// Microseconds in the script, per check.
    pub script_us: f64,
    /// CPU microseconds of the Redis process per check, reading the question and writing the answer included.
    pub cpu_us: f64,
    /// Bytes of Redis's memory per key; 0 if it keeps none.
    pub bytes_per_key: f64,
}

impl Ours {
    fn limit(self) -> Limit {
        // Numbers whose products stay below 2^53, as those of real policies do.
        let (algorithm, count) = match self {
            Self::TokenBucket => (Algorithm::TokenBucket { burst: 10_000 }, 1_000),
            Self::FixedWindow => (Algorithm::FixedWindow { align: false }, 10_000_000),
            Self::SlidingWindow => (Algorithm::SlidingWindow, 10_000),
        };
        Limit { algorithm, rate: Rate { count, period_us: DAY_US }, shadow: false }
    }
}

/// Takes one from each key, each by a request of its own.
pub fn decide(sha1: &str, limit: Limit, keys: impl IntoIterator<Item = String>) -> Cmd {
    let check = |key| vec![StoreCheck { key: state_key("policy", &[key]), limit, cost: 1, ahead: Ahead::default() }];
    script::decide(sha1, &keys.into_iter().map(check).collect::<Vec<_>>())
}

impl Subject {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty script",
            Self::Commands => "TIME, MGET, SET PX alone",
            Self::Decide(Ours::TokenBucket) => "decide.lua, token bucket",
            Self::Decide(Ours::FixedWindow) => "decide.lua, fixed window",
            Self::Decide(Ours::SlidingWindow) => "decide.lua, sliding window",
            Self::TextbookTokenBucket => "textbook token bucket",
            Self::TextbookFixedWindow => "textbook fixed window",
            Self::Gcra => "GCRA of a library",
        }
    }

    pub const fn text(self) -> &'static str {
        match self {
            Self::Empty => "return 1",
            Self::Commands => include_str!("lua/commands.lua"),
            Self::Decide(_) => script::DECIDE,
            Self::TextbookTokenBucket => include_str!("lua/token_bucket.lua"),
            Self::TextbookFixedWindow => include_str!("lua/fixed_window.lua"),
            Self::Gcra => include_str!("lua/gcra.lua"),
        }
    }

    /// The sizes of batches it knows.
    pub const fn batches(self) -> &'static [usize] {
        match self {
            Self::Decide(Ours::TokenBucket) => &BATCHES,
            Self::Commands | Self::Decide(_) => &[1, 64],
            _ => &[1],
        }
    }

    pub fn command(self, sha1: &str, keys: Vec<String>) -> Cmd {
        let numbers = match self {
            Self::Empty | Self::Commands => Vec::new(),
            Self::Decide(ours) => return decide(sha1, ours.limit(), keys),
            Self::TextbookTokenBucket => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                vec!["1000000".to_owned(), "0.001".to_owned(), now.as_millis().to_string()]
            }
            Self::TextbookFixedWindow => vec!["1000000000".to_owned(), "86400".to_owned()],
            Self::Gcra => ["10000", "1000", "86400", "1"].map(str::to_owned).to_vec(),
        };
        let mut command = redis::cmd("EVALSHA");
        command.arg(sha1).arg(keys.len()).arg(keys).arg(numbers);
        command
    }

    /// Whether an answer allows all of its checks.
    pub fn allows(self, answer: &Value, checks: usize) -> bool {
        let one = Value::Int(1);
        match (self, answer) {
            // Five packed integers per check, of which the first says it.
            (Self::Decide(_), Value::BulkString(bytes)) => {
                bytes.len() == 40 * checks && bytes.iter().step_by(40).all(|allowed| *allowed == 1)
            }
            (Self::Gcra, Value::Array(numbers)) => numbers.first() == Some(&one),
            (_, answer) => *answer == one,
        }
    }
}

/// Gives Redis a script, and returns its digest.
pub fn load_script(redis: &Redis, text: &str) -> String {
    redis.command(&["SCRIPT", "LOAD", text])
}

/// Measures everything, `repeats` times; figures are medians.
pub fn measure(redis: &Redis, key_counts: &[u32], repeats: u32) -> Result<Vec<ScriptCost>, String> {
    let mut costs = Vec::new();
    for &keys in key_counts {
        for subject in SUBJECTS {
            eprintln!("scripts: {}, {keys} keys", subject.name());
            let run = Run::start(redis, subject, keys)?;
            let mut cells = vec![Vec::new(); subject.batches().len()];
            for _ in 0..repeats {
                for (cell, &batch) in cells.iter_mut().zip(subject.batches()) {
                    cell.push(run.measure(batch)?);
                }
            }
            costs.extend(subject.batches().iter().zip(cells).map(|(&batch, cell)| ScriptCost {
                script: subject.name(),
                keys,
                batch,
                script_us: median(cell.iter().map(|(script_us, _)| *script_us)),
                cpu_us: median(cell.iter().map(|(_, cpu_us)| *cpu_us)),
                bytes_per_key: run.bytes_per_key,
            }));
        }
    }
    Ok(costs)
}

/// One script over one set of keys, all of which are there.
struct Run<'a> {
    redis: &'a Redis,
    subject: Subject,
    sha1: String,
    keys: u32,
    bytes_per_key: f64,
}

impl<'a> Run<'a> {
    fn start(redis: &'a Redis, subject: Subject, keys: u32) -> Result<Self, String> {
        let _: () = redis.command(&["FLUSHALL"]);
        let mut run = Self { redis, subject, sha1: load_script(redis, subject.text()), keys, bytes_per_key: 0.0 };
        let before = run.used_memory()?;
        run.ask(&[0], 1)?;
        let names = run.redis.keys();
        run.ask(&(1..ORIGINALS).collect::<Vec<_>>(), 1)?;
        run.fill(&names);
        if !names.is_empty() {
            run.bytes_per_key = (run.used_memory()? - before) / f64::from(keys);
        }
        Ok(run)
    }

    /// Copies what the script has written for the first keys to all others: asking for each would take minutes.
    fn fill(&self, names: &[String]) {
        const STEP: u32 = 10_000; // Redis serves nobody else meanwhile
        let count = names.len().to_string();
        for first in (ORIGINALS..self.keys).step_by(STEP as usize) {
            let numbers = [first, (self.keys - 1).min(first + STEP - 1)].map(|number| number.to_string());
            let mut command = vec!["EVAL", FILL, &count];
            command.extend(names.iter().chain(&numbers).map(String::as_str));
            let _: () = self.redis.command(&command);
        }
    }

    /// Microseconds of the script, and of Redis's CPU, per check.
    fn measure(&self, batch: usize) -> Result<(f64, f64), String> {
        let count = CHECKS.next_multiple_of(batch);
        // Anywhere in the set, but never a key twice in a batch: a stride that has no divisor in common with the count.
        let stride = 7_919;
        let keys: Vec<u32> =
            (0..u32::try_from(count).unwrap_or(0)).map(|i| i.wrapping_mul(stride) % self.keys).collect();
        let pid = self.redis.process.pid().as_raw_nonzero().get();
        let (cpu, commands) = (cpu_time(pid)?, self.commands());
        self.ask(&keys, batch)?;
        let (commands_after, cpu_after) = (self.commands(), cpu_time(pid)?);
        let script_us = commands_after.microseconds("evalsha") - commands.microseconds("evalsha");
        let cpu_us = cpu_after.saturating_sub(cpu).as_secs_f64() * 1e6;
        Ok((script_us / count as f64, cpu_us / count as f64))
    }

    /// Takes one from each key, in batches.
    fn ask(&self, keys: &[u32], batch: usize) -> Result<(), String> {
        let mut connection = self.redis.connect().map_err(|error| error.to_string())?;
        let batches: Vec<&[u32]> = keys.chunks(batch).collect();
        let at_once = (PIPELINE * 8 / batch).clamp(1, PIPELINE);
        for batches in batches.chunks(at_once) {
            self.ask_at_once(&mut connection, batches)?;
        }
        Ok(())
    }

    fn ask_at_once(&self, connection: &mut Connection, batches: &[&[u32]]) -> Result<(), String> {
        let mut pipeline = redis::pipe();
        for keys in batches {
            let keys = keys.iter().map(|number| format!("key-{number:07}")).collect();
            pipeline.add_command(self.subject.command(&self.sha1, keys));
        }
        let failed = |what: String| format!("{}: {what}", self.subject.name());
        let answers: Vec<Value> = pipeline.query(connection).map_err(|error| failed(error.to_string()))?;
        for (answer, keys) in answers.iter().zip(batches) {
            if !self.subject.allows(answer, keys.len()) {
                return Err(failed(format!("not everything was allowed: {answer:?}")));
            }
        }
        Ok(())
    }

    fn commands(&self) -> Commands {
        Commands::parse(&self.redis.command::<String>(&["INFO", "commandstats"]))
    }

    fn used_memory(&self) -> Result<f64, String> {
        let info: String = self.redis.command(&["INFO", "memory"]);
        let bytes = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        bytes.and_then(|bytes| bytes.trim().parse().ok()).ok_or_else(|| "Redis does not tell its memory".to_owned())
    }
}
