//! How a server of a test is set up, and the configuration file that says so.

use std::fmt::Write;
use std::sync::Arc;

use super::Certificates;

/// What differs from test to test. The default is a server without password or TLS that keeps nothing on disk.
#[derive(Debug, Clone, Default)]
pub struct RedisOptions {
    /// The password of the user `default`, whom the tests themselves use.
    pub password: Option<String>,
    /// Further users, as `ACL SETUSER` takes them: `sluice on >secret ~sluice:* +@all`.
    pub users: Vec<String>,
    /// `maxmemory` in bytes, and `maxmemory-policy`.
    pub max_memory: Option<(u64, &'static str)>,
    /// TLS, and nothing else, on the port.
    pub tls: Option<RedisTls>,
    /// Whether it is a node of a cluster, of which [`super::RedisCluster`] makes one.
    pub cluster: bool,
    /// The port of the server whose replica this is. That one has the same password and certificates.
    pub replica_of: Option<u16>,
    /// Whether it is a sentinel and no store.
    pub sentinel: bool,
    /// The address it listens on, if not 127.0.0.1.
    pub bind: Option<&'static str>,
    /// Further lines of `redis.conf`.
    pub more: Vec<String>,
}

/// The TLS of a server.
#[derive(Debug, Clone)]
pub struct RedisTls {
    pub certificates: Arc<Certificates>,
    /// Whether clients must show a certificate.
    pub client_certificates: bool,
}

impl RedisTls {
    pub fn new(certificates: &Arc<Certificates>) -> Self {
        Self { certificates: Arc::clone(certificates), client_certificates: false }
    }
}

impl RedisOptions {
    /// `redis.conf`.
    pub(super) fn config(&self, port: u16, bus: Option<u16>, socket: &str) -> String {
        let mut config = format!("bind {}\nunixsocket {socket}\n", self.bind.unwrap_or("127.0.0.1"));
        let mut line = |text: &str| writeln!(config, "{text}").unwrap();
        if let Some(tls) = &self.tls {
            let file = |name| tls.certificates.path(name).display().to_string();
            line(&format!("port 0\ntls-port {port}\ntls-ca-cert-file {}", file("ca.pem")));
            line(&format!("tls-cert-file {}\ntls-key-file {}", file("server.pem"), file("server.key")));
            line(&format!("tls-auth-clients {}", if tls.client_certificates { "yes" } else { "no" }));
            // Replicas, sentinels and other nodes come over TLS too: there is no other port.
            line("tls-replication yes");
            if self.cluster {
                line("tls-cluster yes");
            }
        } else {
            line(&format!("port {port}"));
        }
        if let Some(password) = &self.password {
            line(&format!("requirepass {password}"));
            if !self.sentinel {
                line(&format!("masterauth {password}"));
            }
        }
        for user in &self.users {
            line(&format!("user {user}"));
        }
        if let Some((bytes, policy)) = self.max_memory {
            line(&format!("maxmemory {bytes}\nmaxmemory-policy {policy}"));
        }
        if let Some(bus) = bus {
            // Quick failovers: a test waits for them.
            line(&format!("cluster-enabled yes\ncluster-port {bus}\ncluster-node-timeout 1000"));
        }
        if let Some(primary) = self.replica_of {
            line(&format!("replicaof 127.0.0.1 {primary}"));
        }
        if !self.sentinel {
            line("save \"\"\nappendonly no");
            // Replicas are of use as soon as they are there, and not five seconds later.
            line("repl-diskless-sync-delay 0\nrepl-ping-replica-period 1");
        }
        for more in &self.more {
            line(more);
        }
        config
    }
}
