//! The load: runs wrk with `load.lua`, and reads what it says.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// What wrk saw.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Load {
    /// Answers.
    pub requests: u64,
    pub duration_us: u64,
    pub p50_us: u64,
    pub p99_us: u64,
    /// Answers with a status above 399.
    pub not_2xx: u64,
    /// Connections that could not be made or broke, and timeouts.
    pub broken: u64,
}

impl Load {
    pub fn per_second(&self) -> f64 {
        self.requests as f64 * 1e6 / self.duration_us as f64
    }
}

/// What wrk is to do.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    pub port: u16,
    pub path: &'a str,
    /// How many values the key has.
    pub keys: u32,
    /// With `Some`, batches of this many checks are posted to the sidecar itself.
    pub checks: Option<u32>,
    pub connections: u32,
    pub seconds: u32,
}

/// Runs it to its end.
pub fn run(wrk: &Path, script: &Path, plan: Plan<'_>) -> Result<Load, String> {
    let mut command = Command::new(wrk);
    command.args(["--threads", "1", "--timeout", "5s"]);
    command.args(["--connections", &plan.connections.to_string(), "--duration", &format!("{}s", plan.seconds)]);
    command.arg("--script").arg(script).arg(format!("http://127.0.0.1:{}", plan.port));
    command.args(["--", plan.path, &plan.keys.to_string()]);
    command.args(plan.checks.map(|checks| checks.to_string()));
    let output = command.output().map_err(|error| format!("wrk can't be started: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("wrk ended with {}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    parse(&text)
}

/// The line of JSON in wrk's output.
pub fn parse(output: &str) -> Result<Load, String> {
    let line =
        output.lines().find(|line| line.starts_with('{')).ok_or_else(|| format!("wrk said no figures: {output}"))?;
    serde_json::from_str(line)
        .map_err(|error| format!("wrk's figures are not as load.lua writes them: {error}: {line}"))
}
