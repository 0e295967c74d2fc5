//! The nodes of a cluster, a link to each, and the redirects between them.
//!
//! The client library has a cluster client, which puts a question again when a connection breaks: that could
//! charge twice. It also has one queue for all nodes, so that one that stands still holds up the others.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::super::address::Endpoint;
use super::super::stats::Stats;
use super::super::{StoreError, StoreState};
use super::dial::Dialer;
use super::link::{Link, Mode};
use super::origin::Origin;
use super::scripts::Kept;
use super::slot_map::{SlotMap, redirect};
use super::slots::slot;
use crate::keys;

/// How often the map of slots is asked for while all is well, and while it isn't.
const REFRESHES: (Duration, Duration) = (Duration::from_secs(10), Duration::from_millis(500));

/// The least pause between two of them, however many redirects there are.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// How long one node may take to tell the map.
const MAP_TIMEOUT: Duration = Duration::from_secs(1);

/// How many redirects one question follows. A slot that moves needs two.
const MAX_REDIRECTS: usize = 5;

/// The pause before a question is put again to a node that can't answer it for the moment.
const TRY_AGAIN: Duration = Duration::from_millis(5);

/// A cluster. Clones share its links.
#[derive(Debug, Clone)]
pub struct Cluster(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    seeds: Vec<Endpoint>,
    dialer: Dialer,
    timeout: Duration,
    stats: Arc<Stats>,
    nodes: watch::Sender<Nodes>,
    /// The map is out of date, or a link's state has changed.
    stale: Arc<Notify>,
    /// Tells whoever has the store that its state may have changed.
    changed: Arc<Notify>,
}

/// What is known of the cluster.
#[derive(Debug, Clone, Default)]
struct Nodes {
    map: Option<SlotMap>,
    links: BTreeMap<Endpoint, Link>,
    /// Why the map couldn't be had the last time.
    why: Option<Arc<str>>,
}

impl Cluster {
    /// A cluster of which these nodes are known.
    pub fn new(
        seeds: Vec<Endpoint>,
        dialer: Dialer,
        timeout: Duration,
        stats: Arc<Stats>,
        changed: Arc<Notify>,
    ) -> Self {
        let (nodes, stale) = (watch::Sender::new(Nodes::default()), Arc::new(Notify::new()));
        let inner = Arc::new(Inner { seeds, dialer, timeout, stats, nodes, stale, changed });
        tokio::spawn(keep(Arc::downgrade(&inner)));
        Self(inner)
    }

    /// Runs a script on the node that has this slot.
    ///
    /// A redirected question has not been begun with, so that it can be put again elsewhere.
    pub async fn run(
        &self,
        slot: u16,
        script: &Kept,
        command: &Arc<Cmd>,
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        let (mut node, mut link) = self.owner(slot, deadline).await?;
        let mut mode = Mode::Plain;
        let mut redirects = 0;
        loop {
            let error = match link.run(script, command, mode, deadline).await {
                Err(StoreError::Refused(error)) if redirects < MAX_REDIRECTS => error,
                Err(error) => {
                    self.0.stale.notify_one();
                    return Err(error);
                }
                answer => return answer,
            };
            redirects += 1;
            self.0.stats.redirects.count();
            match error.kind() {
                ErrorKind::Server(kind @ (ServerErrorKind::Moved | ServerErrorKind::Ask)) => {
                    let target = error.redirect_node().and_then(|(address, _)| redirect(address, &node));
                    let Some(target) = target else { return Err(StoreError::Refused(error)) };
                    let has_moved = kind == ServerErrorKind::Moved;
                    link = self.0.link_to(&target, has_moved.then_some(slot));
                    mode = if has_moved { Mode::Plain } else { Mode::Asking };
                    node = target;
                    if has_moved {
                        self.0.stale.notify_one();
                    }
                }
                // Keys of one script are on their way from one node to another, or a new primary is being found.
                ErrorKind::Server(ServerErrorKind::TryAgain | ServerErrorKind::ClusterDown) => {
                    self.pause(error, deadline).await?;
                    (node, link) = self.owner(slot, deadline).await?;
                    mode = Mode::Plain;
                }
                _ => return Err(StoreError::Refused(error)),
            }
        }
    }

    async fn pause(&self, error: RedisError, deadline: Instant) -> Result<(), StoreError> {
        self.0.stale.notify_one();
        if Instant::now() + TRY_AGAIN >= deadline {
            return Err(StoreError::Refused(error));
        }
        sleep(TRY_AGAIN).await;
        Ok(())
    }

    /// The link to the node that has this slot.
    pub async fn owner(&self, slot: u16, deadline: Instant) -> Result<(Endpoint, Link), StoreError> {
        let of = |nodes: &Nodes| match (&nodes.map, &nodes.why) {
            (Some(map), _) => Some(
                map.owner(slot)
                    .and_then(|owner| Some((owner.clone(), nodes.links.get(owner)?.clone())))
                    .ok_or_else(|| StoreError::Down(format!("no node has slot {slot}").into())),
            ),
            (None, Some(why)) => Some(Err(StoreError::Down(Arc::clone(why)))),
            (None, None) => None,
        };
        if let Some(known) = of(&self.0.nodes.borrow()) {
            return known;
        }
        let mut nodes = self.0.nodes.subscribe();
        let known = timeout_at(deadline, nodes.wait_for(|nodes| of(nodes).is_some())).await;
        match known {
            Ok(Ok(nodes)) => of(&nodes).unwrap_or(Err(StoreError::Timeout(self.0.timeout))),
            Ok(Err(_)) | Err(_) => Err(StoreError::Timeout(self.0.timeout)),
        }
    }

    /// Whether all of it can be used.
    pub fn state(&self) -> StoreState {
        let nodes = self.0.nodes.borrow();
        let Some(map) = &nodes.map else {
            return nodes.why.as_ref().map_or(StoreState::Unknown, |why| StoreState::Down(why.to_string()));
        };
        let count = nodes.links.len();
        for (endpoint, link) in &nodes.links {
            match link.state() {
                StoreState::Up => {}
                StoreState::Unknown => return StoreState::Unknown,
                StoreState::Down(why) => {
                    return StoreState::Down(format!("a node of the {count} with slots, {endpoint}: {why}"));
                }
            }
        }
        match map.uncovered() {
            0 => StoreState::Up,
            slots => StoreState::Down(format!("{slots} slots have no node")),
        }
    }

    /// How many nodes are not asked.
    pub fn breakers_open(&self) -> usize {
        self.0.nodes.borrow().links.values().filter(|link| link.is_breaker_open()).count()
    }

    /// What somebody should know of the nodes.
    pub fn warnings(&self) -> Vec<String> {
        let nodes = self.0.nodes.borrow();
        let of = |(endpoint, link): (&Endpoint, &Link)| {
            link.warnings().into_iter().map(|warning| format!("{endpoint}: {warning}")).collect::<Vec<_>>()
        };
        nodes.links.iter().flat_map(of).collect()
    }
}

/// Keeps the map up to date until the cluster is dropped.
async fn keep(cluster: Weak<Inner>) {
    loop {
        let Some(inner) = cluster.upgrade() else { return };
        match inner.ask_for_map().await {
            Ok(map) => inner.learn(map),
            Err(why) => inner.fail(why),
        }
        let handle = Cluster(Arc::clone(&inner));
        let is_up = handle.state() == StoreState::Up;
        drop(handle);
        inner.changed.notify_one();
        let next = Instant::now() + if is_up { REFRESHES.0 } else { REFRESHES.1 };
        let stale = Arc::clone(&inner.stale);
        drop(inner);
        sleep(LEAST_PAUSE).await;
        tokio::select! {
            () = stale.notified() => {}
            () = sleep_until(next) => {}
        }
    }
}

impl Inner {
    /// The link to a node, and maybe the news that it has this slot.
    fn link_to(&self, endpoint: &Endpoint, slot: Option<u16>) -> Link {
        let mut links = Vec::new();
        self.nodes.send_modify(|nodes| {
            let link = nodes.links.entry(endpoint.clone()).or_insert_with(|| self.new_link(endpoint, None));
            links.push(link.clone());
            if let (Some(slot), Some(map)) = (slot, &mut nodes.map) {
                map.set_owner(slot, endpoint);
            }
        });
        links.pop().unwrap_or_else(|| self.new_link(endpoint, None))
    }

    fn new_link(&self, endpoint: &Endpoint, probe_key: Option<String>) -> Link {
        let origin = Origin::Fixed(endpoint.clone());
        let (stats, stale) = (Arc::clone(&self.stats), Arc::clone(&self.stale));
        Link::new(origin, self.dialer.clone(), self.timeout, probe_key, stats, stale)
    }

    /// Asks the nodes for the map: those with a link first, then those of the configuration.
    async fn ask_for_map(&self) -> Result<SlotMap, String> {
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        let command = Arc::new(command);
        let mut reasons = Vec::new();
        let links: Vec<_> = self.nodes.borrow().links.iter().map(|(node, link)| (node.clone(), link.clone())).collect();
        for (node, link) in links.into_iter().filter(|(_, link)| link.state() == StoreState::Up) {
            match link.ask(&command, Mode::Plain, Instant::now() + MAP_TIMEOUT).await {
                Ok(answer) => match SlotMap::read(&answer, &node) {
                    // A node that has been taken out of the cluster knows of nobody.
                    Some(map) if map.uncovered() < usize::from(super::slots::SLOTS) => return Ok(map),
                    _ => reasons.push(format!("{node} knows of no slots")),
                },
                Err(error) => reasons.push(format!("{node}: {error}")),
            }
        }
        for seed in &self.seeds {
            match timeout(MAP_TIMEOUT, self.ask_seed(seed, &command)).await {
                Ok(Ok(map)) => return Ok(map),
                Ok(Err(reason)) => reasons.push(reason),
                Err(_) => reasons.push(format!("{seed} does not answer within {} ms", MAP_TIMEOUT.as_millis())),
            }
        }
        Err(format!("no node of the cluster tells who has which slots: {}", reasons.join("; ")))
    }

    async fn ask_seed(&self, seed: &Endpoint, command: &Cmd) -> Result<SlotMap, String> {
        let mut connection = self.dialer.dial(seed, 1).await.map_err(|error| error.to_string())?;
        let answer: Result<Value, RedisError> = command.query_async(&mut connection.handle).await;
        let answer = answer.map_err(|error| match error.to_string() {
            text if text.contains("cluster support disabled") => {
                format!("{seed} is no node of a cluster: leave +cluster out of the address")
            }
            text => format!("{seed}: {text}"),
        })?;
        SlotMap::read(&answer, seed)
            .filter(|map| map.uncovered() < usize::from(super::slots::SLOTS))
            .ok_or_else(|| format!("{seed} knows of no slots"))
    }

    fn learn(&self, map: SlotMap) {
        self.nodes.send_modify(|nodes| {
            nodes.links.retain(|endpoint, _| map.primaries().contains(endpoint));
            for endpoint in map.primaries() {
                let key = keys::probe_key(|key| map.owner(slot(key)) == Some(endpoint));
                match nodes.links.get(endpoint) {
                    Some(link) => link.set_probe_key(key),
                    None => {
                        nodes.links.insert(endpoint.clone(), self.new_link(endpoint, key));
                    }
                }
            }
            (nodes.map, nodes.why) = (Some(map), None);
        });
    }

    /// The map as it is known stays in use: most of it is likely still true.
    fn fail(&self, why: String) {
        self.nodes.send_modify(|nodes| {
            if nodes.map.is_none() && nodes.why.is_none() {
                tracing::warn!(why, "the store is down");
            }
            nodes.why = Some(why.into());
        });
    }
}
