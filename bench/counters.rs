//! What is read before and after: the CPU time of a process, and what Redis counted.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// The CPU time that a process has used so far, all its threads together.
pub fn cpu_time(pid: i32) -> Result<Duration, String> {
    // In nanoseconds where the kernel tells them; `stat` counts ticks of 10 ms, too coarse for a short run.
    match threads_cpu_time(pid) {
        Some(time) if !time.is_zero() => Ok(time),
        _ => {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|error| format!("/proc: {error}"))?;
            stat_ticks(&stat).map(|ticks| Duration::from_millis(10 * ticks)).ok_or(format!("/proc: {stat}"))
        }
    }
}

fn threads_cpu_time(pid: i32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let times = threads.flatten().filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Some(Duration::from_nanos(times.sum()))
}

/// User and system time of a line of `/proc/PID/stat`, in ticks: its 14th and 15th fields, counted behind the program's
/// name, which may hold anything.
pub fn stat_ticks(line: &str) -> Option<u64> {
    let mut fields = line.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// Calls and microseconds of each command of Redis, as `INFO commandstats` tells them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Commands(BTreeMap<String, (u64, f64)>);

impl Commands {
    pub fn parse(info: &str) -> Self {
        let command = |line: &str| {
            let (name, values) = line.trim().strip_prefix("cmdstat_")?.split_once(':')?;
            let value =
                |wanted: &str| values.split(',').find_map(|value| value.strip_prefix(wanted)?.strip_prefix('='));
            Some((name.to_owned(), (value("calls")?.parse().ok()?, value("usec")?.parse().ok()?)))
        };
        Self(info.lines().filter_map(command).collect())
    }

    pub fn calls(&self, name: &str) -> u64 {
        self.0.get(name).map_or(0, |(calls, _)| *calls)
    }

    /// The microseconds spent in a command; for a script those of its own commands are in it.
    pub fn microseconds(&self, name: &str) -> f64 {
        self.0.get(name).map_or(0.0, |(_, us)| *us)
    }

    /// All commands that decide something, those inside scripts included: not what only looks, of this harness and
    /// of the sidecar's probe.
    pub fn work(&self) -> u64 {
        const LOOKS: [&str; 6] = ["info", "ping", "client", "hello", "config", "select"];
        let work = self.0.iter().filter(|(name, _)| !LOOKS.contains(&name.split('|').next().unwrap_or_default()));
        work.map(|(_, (calls, _))| calls).sum()
    }
}
