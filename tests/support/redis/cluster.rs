//! A Redis cluster of three primaries with a replica each.

use std::ops::Range;

use redis::FromRedisValue;

use super::super::eventually;
use super::{Redis, RedisOptions};

const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;

/// Six nodes. Which of them are primaries changes with failovers; at the start it is the first three, and node 3 is
/// the replica of node 0, 4 of 1, and 5 of 2.
#[derive(Debug)]
pub struct RedisCluster {
    pub nodes: Vec<Redis>,
    ids: Vec<String>,
}

impl RedisCluster {
    pub async fn start() -> Self {
        Self::start_with(&RedisOptions::default()).await
    }

    /// All nodes with these options.
    pub async fn start_with(options: &RedisOptions) -> Self {
        let options = RedisOptions { cluster: true, ..options.clone() };
        let mut nodes = Vec::new();
        for _ in 0..2 * PRIMARIES {
            nodes.push(Redis::start_with(&options).await);
        }
        let ids = nodes.iter().map(|node| node.command(&["CLUSTER", "MYID"])).collect();
        let cluster = Self { nodes, ids };
        cluster.join().await;
        cluster
    }

    async fn join(&self) {
        for (index, node) in self.nodes.iter().enumerate() {
            // Different from the start: equal ones are first fought over.
            let _: () = node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
            if index < PRIMARIES {
                let Range { start, end } = Self::first_slots(index);
                let _: () = node.command(&["CLUSTER", "ADDSLOTSRANGE", &start.to_string(), &(end - 1).to_string()]);
            }
            let (port, bus) = (self.nodes[0].port(), self.nodes[0].bus.as_ref().unwrap().number());
            if index > 0 {
                let _: () = node.command(&["CLUSTER", "MEET", "127.0.0.1", &port.to_string(), &bus.to_string()]);
            }
        }
        eventually("all nodes know each other", async || {
            let mut all = self.nodes.iter().map(|node| node.command::<String>(&["CLUSTER", "NODES"]));
            all.all(|nodes| self.ids.iter().all(|id| nodes.contains(id)) && !nodes.contains("handshake")).then_some(())
        })
        .await;
        for index in PRIMARIES..2 * PRIMARIES {
            let _: () = self.nodes[index].command(&["CLUSTER", "REPLICATE", &self.ids[index - PRIMARIES]]);
        }
        self.until_whole().await;
    }

    /// The slots that one of the first three nodes has at the start.
    pub fn first_slots(primary: usize) -> Range<usize> {
        SLOTS * primary / PRIMARIES..SLOTS * (primary + 1) / PRIMARIES
    }

    /// Waits until every node that runs finds the cluster well, and every replica that runs has what its primary has.
    pub async fn until_whole(&self) {
        eventually("the cluster is whole", async || {
            let mut running = self.running().map(|(_, node)| node);
            let is_whole = |node: &Redis| {
                let info: String = node.try_command(&["CLUSTER", "INFO"]).unwrap_or_default();
                let replication: String = node.try_command(&["INFO", "replication"]).unwrap_or_default();
                info.contains("cluster_state:ok")
                    && (is_primary(&replication) || replication.contains("master_link_status:up"))
            };
            running.all(is_whole).then_some(())
        })
        .await;
    }

    /// The ports of all nodes, for the sidecar's configuration.
    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(Redis::port).collect()
    }

    /// The nodes that run and call themselves primaries, as indices.
    pub fn primaries(&self) -> Vec<usize> {
        let is = |node: &Redis| is_primary(&node.try_command::<String>(&["INFO", "replication"]).unwrap_or_default());
        self.running().filter(|(_, node)| is(node)).map(|(index, _)| index).collect()
    }

    /// Waits until another node has the slots of a primary that is gone, and returns its index. All nodes that run
    /// agree.
    pub async fn until_promoted(&self, replica: usize) -> usize {
        eventually("the replica is promoted", async || self.primaries().contains(&replica).then_some(())).await;
        eventually("all nodes know it", async || {
            let mut views = self.running().map(|(_, node)| node.try_command::<String>(&["CLUSTER", "NODES"]));
            let knows = |view: String| {
                let line = view.lines().find(|line| line.starts_with(&self.ids[replica])).map(str::to_owned);
                line.is_some_and(|line| line.contains("master"))
            };
            views.all(|view| view.is_ok_and(knows)).then_some(())
        })
        .await;
        self.until_whole().await;
        replica
    }

    /// The keys of all primaries; a key is at one of them.
    pub fn keys(&self) -> Vec<String> {
        self.primaries().into_iter().flat_map(|index| self.nodes[index].keys()).collect()
    }

    /// The primaries that run: what the invariants are asserted of.
    pub fn servers(&self) -> Vec<&Redis> {
        self.primaries().into_iter().map(|index| &self.nodes[index]).collect()
    }

    /// The slot of a key.
    pub fn slot(&self, key: &str) -> usize {
        self.any(&["CLUSTER", "KEYSLOT", key])
    }

    /// Begins to move a slot. From here on keys may be at either node, and clients are sent to the other with `ASK`.
    pub fn migrate(&self, slot: usize, from: usize, to: usize) -> Migration<'_> {
        let number = slot.to_string();
        let _: () = self.nodes[to].command(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &self.ids[from]]);
        let _: () = self.nodes[from].command(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &self.ids[to]]);
        Migration { cluster: self, slot: number, from, to }
    }

    fn any<T: FromRedisValue>(&self, words: &[&str]) -> T {
        self.running().next().unwrap().1.command(words)
    }

    fn running(&self) -> impl Iterator<Item = (usize, &Redis)> {
        // Who doesn't run has no socket that answers.
        self.nodes.iter().enumerate().filter(|(_, node)| node.connect().is_ok())
    }
}

/// A slot on its way.
#[derive(Debug)]
pub struct Migration<'a> {
    cluster: &'a RedisCluster,
    slot: String,
    from: usize,
    to: usize,
}

impl Migration<'_> {
    /// Moves the keys that are there by now, and returns how many that were.
    pub fn move_keys(&self) -> usize {
        let (from, to) = (&self.cluster.nodes[self.from], &self.cluster.nodes[self.to]);
        let port = to.port().to_string();
        let mut moved = 0;
        loop {
            let keys: Vec<String> = from.command(&["CLUSTER", "GETKEYSINSLOT", &self.slot, "100"]);
            if keys.is_empty() {
                return moved;
            }
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000"];
            if let Some(password) = &to.options.password {
                words.extend(["AUTH", password]);
            }
            words.push("KEYS");
            words.extend(keys.iter().map(String::as_str));
            // NOKEY if all of them ran out since.
            let _: String = from.command(&words);
            moved += keys.len();
        }
    }

    /// Moves what is left, and gives the slot to its new node.
    pub fn finish(self) {
        self.move_keys();
        let id = &self.cluster.ids[self.to];
        // The new one first: between the two, nobody would have it.
        let mut order = vec![self.to, self.from];
        order.extend(self.cluster.primaries().into_iter().filter(|node| *node != self.to && *node != self.from));
        for node in order {
            let _: () = self.cluster.nodes[node].command(&["CLUSTER", "SETSLOT", &self.slot, "NODE", id]);
        }
    }
}

fn is_primary(replication: &str) -> bool {
    replication.contains("role:master")
}
