//! A Redis of one test.

use std::process::Command;
use std::time::Duration;

use redis::{Connection, FromRedisValue};
use rustix::process::Signal;
use tempfile::TempDir;

use super::{Port, Process, eventually, tool};

/// A Redis that keeps nothing on disk.
#[derive(Debug)]
pub struct Redis {
    pub process: Process,
    port: Port,
    directory: TempDir,
    is_cluster: bool,
}

impl Redis {
    pub async fn start() -> Self {
        Self::start_on(Port::free()).await
    }

    pub async fn start_on(port: Port) -> Self {
        let directory = TempDir::new().unwrap();
        let mut redis = Self { process: run(&port, &directory, false), port, directory, is_cluster: false };
        redis.until_ready().await;
        redis
    }

    /// A cluster of one node, which has all slots: it refuses scripts whose keys are in several.
    pub async fn start_cluster() -> Self {
        let (port, directory) = (Port::free(), TempDir::new().unwrap());
        let mut redis = Self { process: run(&port, &directory, true), port, directory, is_cluster: true };
        redis.until_ready().await;
        // A range at once came with Redis 7; this is for all versions.
        let slots: Vec<String> = (0..16_384).map(|slot| slot.to_string()).collect();
        let command: Vec<&str> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
        let _: () = redis.command(&command);
        eventually("the cluster is up", async || {
            let info: String = redis.command(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok").then_some(())
        })
        .await;
        redis
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// A new connection. No command on it takes longer than a few seconds: a paused Redis fails a test instead of
    /// hanging it.
    pub fn connect(&self) -> redis::RedisResult<Connection> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port()))?;
        let connection = client.get_connection_with_timeout(Duration::from_secs(5))?;
        connection.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok(connection)
    }

    /// One command, such as `["SCRIPT", "FLUSH"]`.
    pub fn command<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        command.query(&mut self.connect().unwrap()).unwrap()
    }

    pub fn keys(&self) -> Vec<String> {
        let mut connection = self.connect().unwrap();
        let keys = redis::Commands::scan::<Vec<u8>>(&mut connection).unwrap();
        keys.map(|key| String::from_utf8_lossy(&key.unwrap()).into_owned()).collect()
    }

    /// Stops answering without closing anything.
    pub fn pause(&self) {
        self.process.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.process.signal(Signal::CONT);
    }

    /// Dies; what it held is lost.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Comes back, empty, where it was.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.process = run(&self.port, &self.directory, self.is_cluster);
        self.until_ready().await;
    }

    async fn until_ready(&mut self) {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port())).unwrap();
        self.process
            .until_ready(async || {
                let connection = client.get_connection_with_timeout(Duration::from_secs(1));
                connection.is_ok_and(|mut connection| redis::cmd("PING").exec(&mut connection).is_ok())
            })
            .await;
    }
}

fn run(port: &Port, directory: &TempDir, is_cluster: bool) -> Process {
    let mut command = Command::new(tool("redis-server"));
    command.current_dir(directory).args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.args(["--port", &port.number().to_string()]);
    if is_cluster {
        // The bus of a cluster has a port too; nobody else is there to talk to, so that any will do.
        command.args(["--cluster-enabled", "yes", "--cluster-port", &Port::free().number().to_string()]);
    }
    Process::start("redis-server", &mut command, directory.path().join("redis.log"))
}
