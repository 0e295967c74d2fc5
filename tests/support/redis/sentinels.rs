//! A primary and a replica, watched by three sentinels.

use super::super::eventually;
use super::{Redis, RedisOptions, RedisTls};

/// The name that sentinels know the primary by.
pub const NAME: &str = "mymaster";

const SENTINELS: usize = 3;

/// What differs from test to test.
#[derive(Debug, Clone, Default)]
pub struct SentinelsOptions {
    /// Primary and replica.
    pub redis: RedisOptions,
    /// The sentinels' own password, of their user `default`.
    pub password: Option<String>,
    /// TLS in front of the sentinels. They speak TLS to the servers too then, and to each other.
    pub tls: Option<RedisTls>,
}

/// Everything, running.
#[derive(Debug)]
pub struct Sentinels {
    /// The first is the primary at the start.
    pub servers: Vec<Redis>,
    pub sentinels: Vec<Redis>,
}

impl Sentinels {
    pub async fn start() -> Self {
        Self::start_with(&SentinelsOptions::default()).await
    }

    pub async fn start_with(options: &SentinelsOptions) -> Self {
        let primary = Redis::start_with(&options.redis).await;
        let replica_of = Some(primary.port());
        let replica = Redis::start_with(&RedisOptions { replica_of, ..options.redis.clone() }).await;
        let mut watch = vec![
            // A quorum of two, and failovers as quick as they get.
            format!("sentinel monitor {NAME} 127.0.0.1 {} 2", primary.port()),
            format!("sentinel down-after-milliseconds {NAME} 500"),
            format!("sentinel failover-timeout {NAME} 2000"),
        ];
        if let Some(password) = &options.redis.password {
            watch.push(format!("sentinel auth-pass {NAME} {password}"));
        }
        if let Some(password) = &options.password {
            watch.push(format!("sentinel sentinel-pass {password}"));
        }
        let (password, tls) = (options.password.clone(), options.tls.clone());
        let sentinel = RedisOptions { sentinel: true, password, tls, more: watch, ..RedisOptions::default() };
        let mut sentinels = Vec::new();
        for _ in 0..SENTINELS {
            sentinels.push(Redis::start_with(&sentinel).await);
        }
        let all = Self { servers: vec![primary, replica], sentinels };
        all.until_watching().await;
        all
    }

    /// Waits until every sentinel knows the others and the replica, which has what its primary has: only then would
    /// they promote it.
    pub async fn until_watching(&self) {
        eventually("the sentinels know everybody", async || {
            let others = (SENTINELS - 1).to_string();
            self.sentinels
                .iter()
                .all(|sentinel| {
                    let state: Vec<String> = sentinel.command(&["SENTINEL", "MASTER", NAME]);
                    let has = |name: &str, value: &str| state.chunks(2).any(|pair| pair == [name, value]);
                    has("flags", "master") && has("num-slaves", "1") && has("num-other-sentinels", &others)
                })
                .then_some(())
        })
        .await;
        eventually("the replica is in step, and the sentinels know", async || {
            let is_in_step = |sentinel: &Redis| {
                let replicas: Vec<Vec<String>> = sentinel.command(&["SENTINEL", "REPLICAS", NAME]);
                replicas.concat().chunks(2).any(|pair| pair == ["master-link-status", "ok"])
            };
            self.sentinels.iter().all(is_in_step).then_some(())
        })
        .await;
    }

    /// The ports of the sentinels, for the sidecar's configuration.
    pub fn ports(&self) -> Vec<u16> {
        self.sentinels.iter().map(Redis::port).collect()
    }

    /// The primary as the sentinels see it, as an index; `None` while they don't agree.
    pub fn primary(&self) -> Option<usize> {
        let ports = self.sentinels.iter().map(|sentinel| {
            let address: Vec<String> = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]);
            address[1].parse::<u16>().unwrap()
        });
        let mut servers = ports.map(|port| self.servers.iter().position(|server| server.port() == port));
        let first = servers.next()??;
        servers.all(|server| server == Some(first)).then_some(first)
    }

    /// Has the sentinels swap primary and replica, as for maintenance, and waits until that is done.
    pub async fn failover(&self) {
        let primary = self.primary().unwrap();
        let _: () = self.sentinels[0].command(&["SENTINEL", "FAILOVER", NAME]);
        self.until_promoted(1 - primary).await;
    }

    /// Waits until this server is the primary, and everybody knows.
    pub async fn until_promoted(&self, server: usize) {
        eventually("the sentinels promote the replica", async || (self.primary() == Some(server)).then_some(())).await;
        eventually("it finds itself promoted", async || {
            let role: String = self.servers[server].command(&["INFO", "replication"]);
            role.contains("role:master").then_some(())
        })
        .await;
    }
}
