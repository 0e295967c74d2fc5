//! The sidecar of one test.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Answer, Client, Metrics, Port, Process, sluice};

/// A running `sluice serve`.
#[derive(Debug)]
pub struct Sidecar {
    pub process: Process,
    port: Port,
    admin: Port,
    directory: TempDir,
    hosts: Option<PathBuf>,
    environment: Vec<(&'static str, String)>,
    client: Client,
}

impl Sidecar {
    /// With `policies` as in its configuration, deciding in the Redis at `redis`. The store's deadline is generous:
    /// a busy machine must not look like a broken Redis.
    pub async fn start(redis: u16, policies: &Value) -> Self {
        let mut sidecar = Self::launch(redis, policies, Some("2s"));
        sidecar.until_ready().await;
        sidecar
    }

    /// As [`start`](Self::start), without waiting for it.
    pub fn launch(redis: u16, policies: &Value, store_timeout: Option<&str>) -> Self {
        let timeout = store_timeout.map_or(json!({}), |timeout| json!({"store_timeout": timeout}));
        Self::launch_for(redis, policies, &timeout)
    }

    /// As [`launch`](Self::launch), with more fields in the configuration.
    pub fn launch_for(redis: u16, policies: &Value, more: &Value) -> Self {
        let mut config = json!({"store": format!("redis://127.0.0.1:{redis}"), "policies": policies});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Self::launch_with(&config)
    }

    /// With a whole configuration, to which only the listeners are added.
    pub async fn start_with(config: &Value) -> Self {
        let mut sidecar = Self::launch_with(config);
        sidecar.until_ready().await;
        sidecar
    }

    /// As [`start_with`](Self::start_with), without waiting for it.
    pub fn launch_with(config: &Value) -> Self {
        Self::launch_among(config, None)
    }

    /// As [`launch_with`](Self::launch_with), in a world whose `/etc/hosts` is another file. What is written to that
    /// file later, the sidecar sees at its next look. Needs root, or the right to be root in a namespace of one's own.
    pub fn launch_among(config: &Value, hosts: Option<PathBuf>) -> Self {
        Self::launch_where(config, hosts, Vec::new())
    }

    /// As [`launch_with`](Self::launch_with), with variables in its environment.
    pub fn launch_in(environment: &[(&'static str, String)], config: &Value) -> Self {
        Self::launch_where(config, None, environment.to_vec())
    }

    fn launch_where(config: &Value, hosts: Option<PathBuf>, environment: Vec<(&'static str, String)>) -> Self {
        let (port, admin, directory) = (Port::free(), Port::free(), TempDir::new().unwrap());
        let mut config = config.clone();
        let fields = config.as_object_mut().unwrap();
        let at = |port: &Port| json!(format!("127.0.0.1:{}", port.number()));
        fields.entry("listen").or_insert_with(|| at(&port));
        // `off` is none.
        if let Some(fields) = fields.entry("admin").or_insert_with(|| json!({})).as_object_mut() {
            fields.entry("listen").or_insert_with(|| at(&admin));
        }
        // JSON is YAML.
        std::fs::write(directory.path().join("sluice.yaml"), config.to_string()).unwrap();
        let process = run(&directory, hosts.as_deref(), &environment);
        Self { process, port, admin, directory, hosts, environment, client: Client::new() }
    }

    /// Starts one that must not start, with this configuration, and returns its log.
    pub async fn refuses(config: &Value) -> String {
        let mut sidecar = Self::launch_with(config);
        let status = sidecar.process.ended().await;
        assert!(!status.success());
        sidecar.process.log()
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    pub fn admin_port(&self) -> u16 {
        self.admin.number()
    }

    /// What `/metrics` says, by series.
    pub async fn metrics(&self) -> Metrics {
        Metrics::read(&self.client.get(self.admin_port(), "/metrics", &[]).await)
    }

    /// Its configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.directory.path().join("sluice.yaml")
    }

    /// What is in it.
    pub fn config(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.config_file()).unwrap()).unwrap()
    }

    pub fn kill(&mut self) {
        self.process.kill();
    }

    pub fn pause(&self) {
        self.process.pause();
    }

    pub fn resume(&self) {
        self.process.signal(Signal::CONT);
    }

    /// Is told to stop, as an orchestrator does it, and when it has, comes back where it was.
    pub async fn roll(&mut self) {
        self.process.signal(Signal::TERM);
        let status = self.process.ended().await;
        assert!(status.success(), "{status}; its log:\n{}", self.process.log());
        self.process = run(&self.directory, self.hosts.as_deref(), &self.environment);
        self.until_ready().await;
    }

    /// Comes back where it was, with the same configuration.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.process = run(&self.directory, self.hosts.as_deref(), &self.environment);
        self.until_ready().await;
    }

    /// Takes one from a policy's limit for a key.
    pub async fn take(&self, policy: &str, key: &str) -> Answer {
        self.client.post(self.port(), &format!("/v1/check/{policy}/{key}"), "").await
    }

    /// Looks at a policy's limit for a key, without taking anything.
    pub async fn peek(&self, policy: &str, key: &str) -> Answer {
        self.client.get(self.port(), &format!("/v1/check/{policy}/{key}"), &[]).await
    }

    /// What a policy has left for a key, without taking anything.
    pub async fn remaining(&self, policy: &str, key: &str) -> u64 {
        self.peek(policy, key).await.rate_limit().1
    }

    /// What `/readyz` says of the store: its `state`, and a `detail` if that is not `up`.
    pub async fn store(&self) -> Value {
        self.client.get(self.port(), "/readyz", &[]).await.json()["store"].clone()
    }

    /// How much memory it holds now, in KiB, as Linux counts it.
    pub fn memory_kib(&self) -> u64 {
        let file = format!("/proc/{}/status", self.process.pid().as_raw_nonzero());
        let status = std::fs::read_to_string(file).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Waits until it is ready and its store can be reached. The admin listener is asked: it wants neither a token nor
    /// TLS.
    pub async fn until_ready(&mut self) {
        let (client, port) = (self.client.clone(), self.admin.number());
        self.process
            .until_ready(async || {
                client.is_ready(port, "/readyz").await
                    && client.get(port, "/readyz", &[]).await.json()["store"]["state"] == "up"
            })
            .await;
    }

    /// Waits until it listens, whatever its store does.
    pub async fn until_alive(&mut self) {
        let (client, port) = (self.client.clone(), self.admin.number());
        self.process.until_ready(async || client.is_ready(port, "/livez").await).await;
    }
}

fn run(directory: &TempDir, hosts: Option<&Path>, environment: &[(&str, String)]) -> Process {
    let program = sluice();
    let mut command = if let Some(hosts) = hosts {
        // The file is mounted where only this process sees it. Each program becomes the next, so that the process id
        // is the sidecar's in the end.
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        command.args(["--mount", "--", "sh", "-c", r#"mount --bind "$0" /etc/hosts && exec "$@""#]);
        command.arg(hosts).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.args(["serve", "--config", "sluice.yaml"]).current_dir(directory);
    command.envs(environment.iter().cloned());
    Process::start("sluice", &mut command, directory.path().join("sluice.log"))
}
