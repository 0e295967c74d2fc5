//! The sidecar of one test.

use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Client, Metrics, Port, Process};

/// A running `sluice serve`.
#[derive(Debug)]
pub struct Sidecar {
    pub process: Process,
    port: Port,
    admin: Port,
    directory: TempDir,
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
        Self::launch_with(redis, policies, &timeout)
    }

    /// As [`launch`](Self::launch), with more fields in the configuration.
    pub fn launch_with(redis: u16, policies: &Value, more: &Value) -> Self {
        let (port, admin, directory) = (Port::free(), Port::free(), TempDir::new().unwrap());
        let mut config = json!({
            "listen": format!("127.0.0.1:{}", port.number()),
            "admin": {"listen": format!("127.0.0.1:{}", admin.number())},
            "store": format!("redis://127.0.0.1:{redis}"),
            "policies": policies,
        });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        // JSON is YAML.
        std::fs::write(directory.path().join("sluice.yaml"), config.to_string()).unwrap();
        Self { process: run(&directory), port, admin, directory, client: Client::new() }
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

    pub fn kill(&mut self) {
        self.process.kill();
    }

    pub fn pause(&self) {
        self.process.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.process.signal(Signal::CONT);
    }

    /// Comes back where it was, with the same configuration.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.process = run(&self.directory);
        self.until_ready().await;
    }

    /// What a policy has left for a key, without taking anything.
    pub async fn remaining(&self, policy: &str, key: &str) -> u64 {
        let answer = self.client.get(self.port(), &format!("/v1/check/{policy}/{key}"), &[]).await;
        answer.rate_limit().1
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

fn run(directory: &TempDir) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(["serve", "--config", "sluice.yaml"]).current_dir(directory);
    Process::start("sluice", &mut command, directory.path().join("sluice.log"))
}
