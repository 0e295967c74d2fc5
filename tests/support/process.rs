//! A process with its log, ended when dropped.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Long enough for a machine that is busy with something else; nothing waits this long when all is well.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until `condition` gives a value.
pub async fn eventually<T>(what: &str, condition: impl AsyncFnMut() -> Option<T>) -> T {
    within(PATIENCE, condition).await.unwrap_or_else(|| panic!("not within {PATIENCE:?}: {what}"))
}

async fn within<T>(patience: Duration, mut condition: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(value) = condition().await {
            return Some(value);
        }
        if start.elapsed() > patience {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A running program whose output goes to a file.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`. Its log goes on where a former process left it.
    pub fn start(name: &'static str, command: &mut Command, log: PathBuf) -> Self {
        let file = File::options().create(true).append(true).open(&log).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} can't be started: {error}"));
        Self { name, child, log }
    }

    /// Waits until `ready` says so; a process that ends before that, or takes too long, shows its log.
    pub async fn until_ready(&mut self, mut ready: impl AsyncFnMut() -> bool) {
        let child = &mut self.child;
        let end = within(PATIENCE, async || match child.try_wait().unwrap() {
            Some(status) => Some(Err(format!("ended with {status}"))),
            None => ready().await.then_some(Ok(())),
        })
        .await
        .unwrap_or_else(|| Err(format!("was not ready within {PATIENCE:?}")));
        if let Err(end) = end {
            panic!("{} {end}; its log:\n{}", self.name, self.log());
        }
    }

    /// Waits for the end.
    pub async fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        let end = within(PATIENCE, async || child.try_wait().unwrap()).await;
        end.unwrap_or_else(|| panic!("{} goes on; its log:\n{}", self.name, self.log()))
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Holds it still, and waits until each of its threads has heard of it: on a busy machine one may go on for a while.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.pid().as_raw_nonzero());
        let start = Instant::now();
        let stands = |task: std::io::Result<std::fs::DirEntry>| {
            // One that is gone by now stands still as well.
            let status = std::fs::read_to_string(task.unwrap().path().join("status"));
            status.map_or(true, |status| status.lines().any(|line| line.starts_with("State:\tT")))
        };
        while !std::fs::read_dir(&tasks).unwrap().all(stands) {
            assert!(start.elapsed() < PATIENCE, "{} goes on", self.name);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The memory that it has in RAM, in bytes.
    pub fn resident_bytes(&self) -> i64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid().as_raw_nonzero())).unwrap();
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB"));
        1024 * kib.expect("a process has memory").trim().parse::<i64>().unwrap()
    }

    /// Ends it without warning, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// What it wrote so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
