//! Where, when and with what a benchmark was run.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

use super::support::{repository, tool};

/// What a reader needs to know to judge figures.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// Seconds precision, UTC.
    pub when: String,
    pub processor: String,
    pub cores: usize,
    pub memory_gib: u64,
    pub kernel: String,
    /// The version of each program, as it tells it.
    pub versions: Vec<String>,
    pub command: String,
}

/// Looks around.
pub fn describe(wrk: &Path) -> Machine {
    let first_line = |path: &str, field: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let value = text.lines().find_map(|line| line.strip_prefix(field)?.trim_start().strip_prefix(':'));
        value.unwrap_or("unknown").trim().to_owned()
    };
    let kib: u64 = first_line("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0);
    let envoy = said(&tool("envoy"), &["--version"]);
    let version = envoy.split_once("version: ").and_then(|(_, version)| version.split('/').nth(1));
    let envoy = version.map_or(envoy.clone(), |version| format!("Envoy {version}"));
    let redis = said(&tool("redis-server"), &["--version"]);
    let wrk = said(wrk, &["-v"]);
    let commit = said(Path::new("git"), &["-C", &repository().to_string_lossy(), "describe", "--always", "--dirty"]);
    Machine {
        when: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
        processor: first_line("/proc/cpuinfo", "model name"),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        memory_gib: kib.div_ceil(1 << 20),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        versions: vec![
            format!("Sluice {} ({commit})", env!("CARGO_PKG_VERSION")),
            envoy,
            redis.split(" sha=").next().unwrap_or_default().to_owned(),
            wrk.split(" [").next().unwrap_or_default().to_owned(),
            said(Path::new("rustc"), &["--version"]),
        ],
        command: command(),
    }
}

/// The command that measures the same again: the target, and every choice that was made.
fn command() -> String {
    let mut command = std::env::var("BENCH_COMMAND").unwrap_or_else(|_| "make bench".to_owned());
    let mut choices: Vec<_> =
        std::env::vars().filter(|(name, value)| name.starts_with("BENCH_") && !value.is_empty()).collect();
    choices.retain(|(name, _)| name != "BENCH_COMMAND" && name != "BENCH_JSON");
    choices.sort();
    for (name, value) in choices {
        let quote = if value.contains(' ') { "'" } else { "" };
        let _ = write!(command, " {name}={quote}{value}{quote}"); // a String takes everything
    }
    command
}

/// The first line that a program says, wherever it says it. `wrk -v` fails, for want of an address.
fn said(program: &Path, arguments: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(arguments).output() else { return "unknown".to_owned() };
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("unknown").to_owned()
}
