//! Redis servers of one test.

mod certificates;
mod cluster;
mod options;
mod sentinels;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use redis::{Connection, ConnectionAddr, FromRedisValue, IntoConnectionInfo, RedisConnectionInfo, RedisResult};
use rustix::process::Signal;
use tempfile::TempDir;

use super::{Port, Process, eventually, tool};

pub use certificates::Certificates;
pub use cluster::RedisCluster;
pub use options::{RedisOptions, RedisTls};
pub use sentinels::{Sentinels, SentinelsOptions};

/// What a server writes when it is told to, and reads when it starts.
const SNAPSHOT: &str = "dump.rdb";

/// A Redis that keeps nothing on disk. Tests talk to it over a Unix socket, whatever they gave it for others: a port
/// with TLS, a full house of clients, a proxy in front.
#[derive(Debug)]
pub struct Redis {
    pub process: Process,
    port: Port,
    /// The port of a cluster's bus.
    bus: Option<Port>,
    directory: TempDir,
    options: RedisOptions,
}

impl Redis {
    pub async fn start() -> Self {
        Self::start_with(&RedisOptions::default()).await
    }

    pub async fn start_on(port: Port) -> Self {
        Self::start_with_on(&RedisOptions::default(), port).await
    }

    pub async fn start_with(options: &RedisOptions) -> Self {
        Self::start_with_on(options, Port::free()).await
    }

    pub async fn start_with_on(options: &RedisOptions, port: Port) -> Self {
        let directory = TempDir::new().unwrap();
        let bus = options.cluster.then(Port::free);
        let socket = socket(&directory).display().to_string();
        let config = options.config(port.number(), bus.as_ref().map(Port::number), &socket);
        std::fs::write(directory.path().join("redis.conf"), config).unwrap();
        let process = run(&directory, options.sentinel);
        let mut redis = Self { process, port, bus, directory, options: options.clone() };
        redis.until_ready().await;
        redis
    }

    /// A cluster of one node, which has all slots: it refuses scripts whose keys are in several.
    pub async fn start_cluster() -> Self {
        let redis = Self::start_with(&RedisOptions { cluster: true, ..RedisOptions::default() }).await;
        // A range at once came with Redis 7; this is for all versions.
        let slots: Vec<String> = (0..16_384).map(|slot| slot.to_string()).collect();
        let command: Vec<&str> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
        let _: () = redis.command(&command);
        redis.until_cluster_is_up().await;
        redis
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Its Unix socket.
    pub fn socket(&self) -> PathBuf {
        socket(&self.directory)
    }

    /// A new connection. No command on it takes longer than a few seconds: a paused Redis fails a test instead of
    /// hanging it.
    pub fn connect(&self) -> RedisResult<Connection> {
        let connection = self.client().get_connection_with_timeout(Duration::from_secs(5))?;
        connection.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok(connection)
    }

    /// One command, such as `["SCRIPT", "FLUSH"]`.
    pub fn command<T: FromRedisValue>(&self, words: &[&str]) -> T {
        self.try_command(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// One command that may be refused.
    pub fn try_command<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        command.query(&mut self.connect()?)
    }

    /// All keys but for those, of no policy, by which a sidecar looks whether it can charge.
    pub fn keys(&self) -> Vec<String> {
        let mut connection = self.connect().unwrap();
        let keys = redis::Commands::scan::<Vec<u8>>(&mut connection).unwrap();
        let keys = keys.map(|key| String::from_utf8_lossy(&key.unwrap()).into_owned());
        keys.filter(|key| !key.ends_with("}:")).collect()
    }

    /// How long each of these keys is kept, as `PTTL` tells it.
    pub fn ttls_ms(&self, keys: &[String]) -> Vec<i64> {
        if keys.is_empty() {
            return Vec::new(); // an empty pipeline is refused
        }
        let mut pipeline = redis::pipe();
        for key in keys {
            pipeline.cmd("PTTL").arg(key);
        }
        pipeline.query(&mut self.connect().unwrap()).unwrap()
    }

    /// Stops answering without closing anything.
    pub fn pause(&self) {
        self.process.pause();
    }

    pub fn resume(&self) {
        self.process.signal(Signal::CONT);
    }

    /// Dies; what it held is lost.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Dies, and leaves its port to another.
    pub fn give_up_port(self) -> Port {
        // The process ends with the rest of it.
        self.port
    }

    /// Comes back, empty, where it was.
    pub async fn restart(&mut self) {
        self.process.kill();
        // One is there if it was told to write it, or was somebody's replica.
        let _ = std::fs::remove_file(self.directory.path().join(SNAPSHOT));
        self.process = run(&self.directory, self.options.sentinel);
        self.until_ready().await;
    }

    /// Comes back with what it held, which takes it `duration` at least to read: until then it listens, and answers
    /// `LOADING`. Returns as soon as it listens.
    pub async fn restart_loading(&mut self, duration: Duration) {
        const KEYS: u128 = 2_000;
        let fill = "for i = 1, ARGV[1] do redis.call('SET', 'filler:' .. i, '', 'EX', 600) end";
        let _: () = self.command(&["EVAL", fill, "0", &KEYS.to_string()]);
        let _: () = self.command(&["SAVE"]);
        self.process.kill();
        let conf = self.directory.path().join("redis.conf");
        let before = std::fs::read_to_string(&conf).unwrap();
        // Between two keys it waits, and after some bytes it looks at its clients.
        let delay_us = duration.as_micros() / KEYS;
        let slow = format!("{before}key-load-delay {delay_us}\nloading-process-events-interval-bytes 1024\n");
        std::fs::write(&conf, slow).unwrap();
        self.process = run(&self.directory, self.options.sentinel);
        let client = self.client();
        self.process
            .until_ready(async || match client.get_connection_with_timeout(Duration::from_secs(1)) {
                Ok(mut connection) => {
                    let answer = redis::cmd("PING").exec(&mut connection);
                    answer.is_err_and(|error| error.code() == Some("LOADING"))
                }
                Err(error) => error.code() == Some("LOADING"),
            })
            .await;
        std::fs::write(&conf, before).unwrap();
    }

    /// Waits until it answers.
    pub async fn until_ready(&mut self) {
        let client = self.client();
        self.process
            .until_ready(async || {
                let connection = client.get_connection_with_timeout(Duration::from_secs(1));
                connection.is_ok_and(|mut connection| redis::cmd("PING").exec(&mut connection).is_ok())
            })
            .await;
    }

    /// Waits until the cluster it belongs to is whole, as this node sees it.
    pub async fn until_cluster_is_up(&self) {
        eventually("the cluster is up", async || {
            let info: String = self.command(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok").then_some(())
        })
        .await;
    }

    fn client(&self) -> redis::Client {
        let mut settings = RedisConnectionInfo::default();
        if let Some(password) = &self.options.password {
            settings = settings.set_password(password);
        }
        let address = ConnectionAddr::Unix(self.socket());
        redis::Client::open(address.into_connection_info().unwrap().set_redis_settings(settings)).unwrap()
    }
}

fn socket(directory: &TempDir) -> PathBuf {
    directory.path().join("redis.sock")
}

fn run(directory: &TempDir, is_sentinel: bool) -> Process {
    let directory: &Path = directory.path();
    let mut command = Command::new(tool("redis-server"));
    command.current_dir(directory).arg(directory.join("redis.conf"));
    if is_sentinel {
        command.arg("--sentinel");
    }
    Process::start("redis-server", &mut command, directory.join("redis.log"))
}
