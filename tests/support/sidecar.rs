//! The sidecar of one test.

use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Client, Port, Process, sluice};

/// A running `sluice serve`.
#[derive(Debug)]
pub struct Sidecar {
    pub process: Process,
    port: Port,
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
        let (port, directory) = (Port::free(), TempDir::new().unwrap());
        let mut config = json!({
            "listen": format!("127.0.0.1:{}", port.number()),
            "store": format!("redis://127.0.0.1:{redis}"),
            "policies": policies,
        });
        if let Some(timeout) = store_timeout {
            config["store_timeout"] = timeout.into();
        }
        // JSON is YAML.
        std::fs::write(directory.path().join("sluice.yaml"), config.to_string()).unwrap();
        Self { process: run(&directory), port, directory, client: Client::new() }
    }

    pub fn port(&self) -> u16 {
        self.port.number()
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

    /// Waits until it is ready and its store can be reached.
    pub async fn until_ready(&mut self) {
        let (client, port) = (self.client.clone(), self.port.number());
        self.process
            .until_ready(async || {
                client.is_ready(port, "/readyz").await
                    && client.get(port, "/readyz", &[]).await.json()["store"]["state"] == "up"
            })
            .await;
    }

    /// Waits until it listens, whatever its store does.
    pub async fn until_alive(&mut self) {
        let (client, port) = (self.client.clone(), self.port.number());
        self.process.until_ready(async || client.is_ready(port, "/livez").await).await;
    }
}

fn run(directory: &TempDir) -> Process {
    let mut command = Command::new(sluice());
    command.args(["serve", "--config", "sluice.yaml"]).current_dir(directory);
    Process::start("sluice", &mut command, directory.path().join("sluice.log"))
}
