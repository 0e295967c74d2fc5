//! A Redis of one test.

use std::process::Command;
use std::time::Duration;

use redis::{Connection, FromRedisValue};
use rustix::process::Signal;
use tempfile::TempDir;

use super::{Port, Process, tool};

/// A Redis that keeps nothing on disk.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    port: Port,
    directory: TempDir,
}

impl Redis {
    pub async fn start() -> Self {
        Self::start_on(Port::free()).await
    }

    pub async fn start_on(port: Port) -> Self {
        let directory = TempDir::new().unwrap();
        let mut redis = Self { process: run(&port, &directory), port, directory };
        redis.until_ready().await;
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
        self.process = run(&self.port, &self.directory);
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

fn run(port: &Port, directory: &TempDir) -> Process {
    let mut command = Command::new(tool("redis-server"));
    command.current_dir(directory).args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.args(["--port", &port.number().to_string()]);
    Process::start("redis-server", &mut command, directory.path().join("redis.log"))
}
