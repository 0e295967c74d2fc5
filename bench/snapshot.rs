//! One moment, what was spent since another, and whether it is what a row promises.

use std::collections::BTreeMap;
use std::time::Duration;

use super::counters::{Commands, cpu_time};
use super::figures::{Figure, Figures};
use super::rows::{Expected, Setup};
use super::support::Process;
use super::wrk::Load;

/// What the counters said.
#[derive(Debug)]
pub struct Snapshot {
    /// Of Envoy, the sidecar and Redis; of a process that takes no part, nothing.
    cpu: [Duration; 3],
    commands: Commands,
    stats: BTreeMap<String, u64>,
}

/// What was spent from one snapshot to a later one.
#[derive(Debug, Default)]
pub struct Spent {
    pub cpu: [Duration; 3],
    pub scripts: u64,
    pub commands: u64,
    /// Writes of the scripts: one for each key that was charged.
    pub writes: u64,
    pub stats: BTreeMap<String, u64>,
}

impl Snapshot {
    pub fn take(
        processes: &[Option<&Process>; 3],
        commands: Commands,
        stats: BTreeMap<String, u64>,
    ) -> Result<Self, String> {
        let mut cpu = [Duration::ZERO; 3];
        for (time, process) in cpu.iter_mut().zip(processes) {
            if let Some(process) = process {
                *time = cpu_time(process.pid().as_raw_nonzero().get())?;
            }
        }
        Ok(Self { cpu, commands, stats })
    }

    pub fn since(&self, before: &Self) -> Spent {
        let mut cpu = self.cpu;
        for (time, before) in cpu.iter_mut().zip(before.cpu) {
            *time = time.saturating_sub(before);
        }
        let increase = |(name, count): (&String, &u64)| {
            (name.clone(), count.saturating_sub(before.stats.get(name).copied().unwrap_or(0)))
        };
        Spent {
            cpu,
            scripts: self.commands.calls("evalsha") - before.commands.calls("evalsha"),
            commands: self.commands.work() - before.commands.work(),
            writes: self.commands.calls("set") - before.commands.calls("set"),
            stats: self.stats.iter().map(increase).collect(),
        }
    }
}

impl Spent {
    fn stat(&self, name: &str) -> u64 {
        self.stats.get(name).copied().unwrap_or(0)
    }
}

/// The figures of a run, per each of `decided`.
pub fn figures(load: &Load, spent: &Spent, decided: f64) -> Figures {
    let [envoy, sidecar, redis] = spent.cpu.map(|time| time.as_secs_f64() * 1e6 / decided);
    Figures::from([
        (Figure::RequestsPerSecond, load.per_second()),
        (Figure::P50Us, load.p50_us as f64),
        (Figure::P99Us, load.p99_us as f64),
        (Figure::EnvoyCpuUs, envoy),
        (Figure::SidecarCpuUs, sidecar),
        (Figure::RedisCpuUs, redis),
        (Figure::Callouts, spent.stat("wasmcustom.sluice_callouts") as f64 / decided),
        (Figure::Scripts, spent.scripts as f64 / decided),
        (Figure::Commands, spent.commands as f64 / decided),
    ])
}

/// Whether every request got the answer that its row promises, by the word of wrk, of Envoy and of the plugin. A figure
/// of errors, or of requests that were let through undecided, is a figure of something else.
pub fn verify(setup: Setup, connections: u32, load: &Load, spent: &Spent) -> Result<(), String> {
    let plugin = |name: &str| spent.stat(&format!("wasmcustom.sluice_{name}"));
    let status = |class: char| spent.stat(&format!("http.ingress.downstream_rq_{class}xx"));
    // wrk hangs up on those that are in flight when its time is over.
    let all = load.requests..=load.requests + u64::from(connections);
    let is_plugin = !matches!(setup, Setup::NoFilter | Setup::NoRule);
    let decided = if is_plugin { all.clone() } else { 0..=0 };

    let mut expectations = vec![
        ("answers", load.requests, 1..=u64::MAX),
        ("broken connections and timeouts", load.broken, 0..=0),
        ("5xx", status('5'), 0..=0),
        ("failed open", plugin("failed_open"), 0..=0),
        ("failed closed", plugin("failed_closed"), 0..=0),
        ("callouts failed", plugin("callouts_failed"), 0..=0),
    ];
    match setup.expected() {
        Expected::Allowed => expectations.extend([
            ("answers above 399", load.not_2xx, 0..=0),
            ("2xx", status('2'), all),
            ("4xx", status('4'), 0..=0),
            ("allowed by the plugin", plugin("allowed"), decided),
            ("denied by the plugin", plugin("denied"), 0..=0),
        ]),
        Expected::Denied => expectations.extend([
            ("answers above 399", load.not_2xx, load.requests..=load.requests),
            ("2xx", status('2'), 0..=0),
            ("4xx", status('4'), all),
            ("allowed by the plugin", plugin("allowed"), 0..=0),
            ("denied by the plugin", plugin("denied"), decided),
        ]),
    }
    for (name, count) in spent.stats.iter().filter(|(name, _)| name.starts_with("wasm.sluice.vm_reload")) {
        if *count > 0 {
            return Err(format!("a VM has failed: {name} is {count}"));
        }
    }
    for (what, count, wanted) in expectations {
        if !wanted.contains(&count) {
            return Err(format!("{what}: {count}, expected {} to {}", wanted.start(), wanted.end()));
        }
    }
    Ok(())
}
