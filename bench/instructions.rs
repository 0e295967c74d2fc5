//! How many instructions Redis takes for a check, by valgrind's callgrind: where they go, and a figure that a busy machine
//! doesn't change.

use std::fs;
use std::path::Path;
use std::process::Command;

use redis::{Client, Cmd, Connection, RedisError, Value};
use rustix::process::Pid;
use serde::Serialize;
use tempfile::TempDir;

use super::scripts::{Ours, SUBJECTS, Subject};
use super::support::{Port, Process, eventually, tool};

/// Checks in one count, about.
const CHECKS: usize = 640;
/// Keys that are asked for; each run of a script names others.
const KEYS: usize = 1_000;

/// What the pieces are taken with: an empty script with two arguments, a check as the sidecar packs one, and a number.
const NO_PIECE: &str = "return 1";

/// Pieces that a script is made of.
const PIECES: [(&str, &str); 15] = [
    ("TIME", "redis.call('TIME') return 1"),
    ("MGET of one key", "redis.call('MGET', KEYS[1]) return 1"),
    ("GET", "redis.call('GET', KEYS[1]) return 1"),
    ("SET PX", "redis.call('SET', KEYS[1], 't:1796041503674602:0:1000:86400000000', 'PX', '86400000') return 1"),
    ("SET", "redis.call('SET', KEYS[1], 't:1796041503674602:0:1000:86400000000') return 1"),
    ("five integers as a table", "return { 1, 9999, 0, 86400000, 1796041503674602 }"),
    ("five integers packed", "return struct.pack('<i8i8i8i8i8', 1, 9999, 0, 86400000, 1796041503674602)"),
    ("unpacking a check", "local kind, flags, limit = struct.unpack('<BBI4I8I4I4', ARGV[1]) return 1"),
    ("tonumber", "local number = tonumber(ARGV[2]) return 1"),
    ("string.format of one number", "local text = string.format('%d', 86400000) return 1"),
    (
        "string.format of four",
        "local text = string.format('t:%d:%d:%d:%d', 1796041503674602, 0, 1000, 86400000000) return 1",
    ),
    (
        "a pattern of four numbers",
        "local a, b, c, d = string.match('t:1796041503674602:0:1000:86400000000', '^t:(%d+):(%d+):(%d+):(%d+)$') return 1",
    ),
    ("string.sub", "local ending = string.sub('t:1796041503674602:0:1000:86400000000', 19) return 1"),
    ("a function that captures nothing", "local function f() return 1 end return 1"),
    (
        "a function that captures four locals",
        "local a, b, c, d = 1, 2, 3, 4 local function f() return a + b + c + d end return 1",
    ),
];

/// What was counted.
#[derive(Debug, Serialize)]
pub struct Instructions {
    pub scripts: Vec<ScriptInstructions>,
    /// Of each piece, how many more it takes than the script without it.
    pub pieces: Vec<(&'static str, f64)>,
}

/// A script at one size of batches.
#[derive(Debug, Serialize)]
pub struct ScriptInstructions {
    pub script: &'static str,
    pub batch: usize,
    pub per_check: f64,
    /// To the empty script.
    pub ratio: f64,
}

/// Counts all scripts, and the pieces. Nothing where valgrind is not installed.
pub async fn count() -> Result<Option<Instructions>, String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("instructions: left out, as valgrind is not installed");
        return Ok(None);
    }
    let mut redis = Counted::start().await?;
    let mut scripts: Vec<ScriptInstructions> = Vec::new();
    for subject in SUBJECTS {
        for &batch in subject.batches() {
            let command = |sha1: &str, keys: Vec<String>| subject.command(sha1, keys);
            let per_check = redis.count(subject.text(), batch, command, |answer| subject.allows(answer, batch))?;
            // The first one is the empty script.
            let ratio = per_check / scripts.first().map_or(per_check, |empty| empty.per_check);
            scripts.push(ScriptInstructions { script: subject.name(), batch, per_check, ratio });
        }
    }
    let question = Subject::Decide(Ours::TokenBucket).command("", vec![String::new()]);
    let Some(redis::Arg::Simple(check)) = question.args_iter().last() else {
        return Err("a check has no argument".to_owned());
    };
    let mut count = |text: &str| {
        let command = |sha1: &str, keys: Vec<String>| {
            let mut command = redis::cmd("EVALSHA");
            command.arg(sha1).arg(keys.len()).arg(keys).arg(check).arg("86400000000");
            command
        };
        redis.count(text, 1, command, |_| true)
    };
    let without = count(NO_PIECE)?;
    let pieces = PIECES.iter().map(|(name, text)| Ok((*name, count(text)? - without)));
    Ok(Some(Instructions { scripts, pieces: pieces.collect::<Result<_, String>>()? }))
}

/// A Redis under callgrind.
struct Counted {
    process: Process,
    connection: Connection,
    directory: TempDir,
    dumps: u32,
}

impl Counted {
    async fn start() -> Result<Self, String> {
        let directory = TempDir::new().map_err(|error| error.to_string())?;
        let port = Port::free();
        let mut command = Command::new("valgrind");
        command
            .args(["--tool=callgrind", "--callgrind-out-file=counts"])
            .arg(tool("redis-server"))
            // What it does by the clock is not the scripts'.
            .args(["--port", &port.number().to_string(), "--bind", "127.0.0.1", "--save", "", "--hz", "1"])
            .current_dir(directory.path());
        let process = Process::start("redis-server", &mut command, directory.path().join("redis.log"));
        let client = Client::open(("127.0.0.1", port.number())).map_err(text)?;
        let connection = eventually("Redis answers under valgrind", async || client.get_connection().ok()).await;
        Ok(Self { process, connection, directory, dumps: 0 })
    }

    /// The instructions of one check, by a script that is loaded alone: what others leave to the collector of garbage
    /// would count too.
    fn count(
        &mut self,
        text_of_script: &str,
        batch: usize,
        command: impl Fn(&str, Vec<String>) -> Cmd,
        is_good: impl Fn(&Value) -> bool,
    ) -> Result<f64, String> {
        redis::cmd("FLUSHALL").exec(&mut self.connection).map_err(text)?;
        redis::cmd("SCRIPT").arg("FLUSH").exec(&mut self.connection).map_err(text)?;
        let load = redis::cmd("SCRIPT").arg("LOAD").arg(text_of_script).query(&mut self.connection);
        let sha1: String = load.map_err(text)?;
        let runs = CHECKS.div_ceil(batch);
        let mut pipeline = redis::pipe();
        for run in 0..runs {
            let key = |i: usize| format!("key-{:07}", ((run * batch + i) * 7_919) % KEYS);
            pipeline.add_command(command(&sha1, (0..batch).map(key).collect()));
        }
        // The first time, keys are made and caches are filled.
        for is_counted in [false, true] {
            if is_counted {
                self.control("--zero")?;
            }
            let answers: Vec<Value> = pipeline.query(&mut self.connection).map_err(text)?;
            if !answers.iter().all(&is_good) {
                return Err(format!("instructions: not everything was allowed by {text_of_script}"));
            }
        }
        self.control("--dump")?;
        self.dumps += 1;
        let counts = total(&self.directory.path().join(format!("counts.{}", self.dumps)))?;
        Ok(counts / (runs * batch) as f64)
    }

    fn control(&self, what: &str) -> Result<(), String> {
        let pid: Pid = self.process.pid();
        let mut command = Command::new("callgrind_control");
        let output =
            command.arg(what).arg(pid.as_raw_nonzero().to_string()).output().map_err(|error| error.to_string())?;
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "as map_err hands it over")]
fn text(error: RedisError) -> String {
    error.to_string()
}

/// All instructions of a dump, for which callgrind's file has a line of its own.
fn total(path: &Path) -> Result<f64, String> {
    let dump = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let line = |name| dump.lines().find_map(|line: &str| line.strip_prefix(name)?.trim().parse().ok());
    line("summary:").or_else(|| line("totals:")).ok_or_else(|| format!("{} has no total", path.display()))
}
