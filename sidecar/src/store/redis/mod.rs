//! Redis as the store: one server or a cluster, a deadline on every question, and never the same question
//! twice.

mod breaker;
mod cluster;
mod dial;
mod greet;
mod keeper;
mod link;
mod origin;
mod scripts;
mod sent;
mod slot_map;
mod slots;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use redis::{ErrorKind, FromRedisValue, RedisError, ServerErrorKind};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

pub use self::dial::DialError;

use self::cluster::Cluster;
use self::dial::{Dialer, Login, Password};
use self::link::{Link, Mode};
use self::origin::{Origin, Sentinels};
use self::scripts::{DECIDE, LEASE, REFUND};
use super::address::{RedisAddress, Servers};
use super::settings::StoreSettings;
use super::stats::Stats;
use super::{Kept, Outcome, Refund, Refunded, StoreCheck, StoreError, StoreState, script};
use crate::keys;

/// How long a look at a key may take at least: nobody waits behind it, and it is often the first on its
/// connection.
const LOOK_PATIENCE: Duration = Duration::from_secs(1);

/// Redis. Clones share its connections.
#[derive(Debug, Clone)]
pub struct RedisStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    way: Way,
    timeout: Duration,
    turns: Semaphore,
    in_flight: usize,
    /// Learned from a server's first refusal: some proxies look like one server, and are a cluster.
    is_split: AtomicBool,
    stats: Arc<Stats>,
    changed: Arc<Notify>,
}

/// The way to the servers.
#[derive(Debug)]
enum Way {
    One(Link),
    Cluster(Cluster),
}

impl RedisStore {
    /// A store of these servers. It connects in the background.
    ///
    /// # Errors
    ///
    /// If files that it needs can't be used.
    pub(super) fn connect(address: &RedisAddress, settings: &StoreSettings) -> Result<Self, DialError> {
        let tls = address.tls.then(|| settings.tls.clone());
        let username = settings.username.clone().or_else(|| address.username.clone());
        let password = match (&settings.password_file, &address.password) {
            (Some(path), _) => Some(Password::File(path.clone())),
            (None, Some(secret)) => Some(Password::Text(secret.clone())),
            (None, None) => None,
        };
        let sentinel = Login {
            username: settings.sentinel.username.clone(),
            password: settings.sentinel.password_file.clone().map(Password::File),
        };
        // All files are read again at every connection. Here it is only so that a mistake is told at the start.
        if let Some(files) = &tls {
            dial::client_config(files)?;
        }
        for password in [&password, &sentinel.password].into_iter().flatten() {
            password.read()?;
        }
        let dialer = Dialer { tls: tls.clone(), login: Login { username, password }, database: address.database };
        let (stats, changed) = (Arc::new(Stats::default()), Arc::new(Notify::new()));
        let one = |origin| {
            let key = keys::probe_key(|_| true);
            let (stats, changed) = (Arc::clone(&stats), Arc::clone(&changed));
            Way::One(Link::new(origin, dialer.clone(), settings.timeout, key, stats, changed))
        };
        let way = match &address.servers {
            Servers::One(endpoint) => one(Origin::Fixed(endpoint.clone())),
            Servers::Sentinel(sentinels, name) => {
                let dialer = Dialer { tls, login: sentinel, database: 0 };
                one(Origin::Sentinel(Box::new(Sentinels::new(sentinels.clone(), name.clone(), dialer))))
            }
            Servers::Cluster(seeds) => {
                let (stats, changed) = (Arc::clone(&stats), Arc::clone(&changed));
                Way::Cluster(Cluster::new(seeds.clone(), dialer, settings.timeout, stats, changed))
            }
        };
        Ok(Self(Arc::new(Inner {
            is_split: AtomicBool::new(matches!(way, Way::Cluster(_))),
            way,
            timeout: settings.timeout,
            turns: Semaphore::new(settings.in_flight.get()),
            in_flight: settings.in_flight.get(),
            stats,
            changed,
        })))
    }

    /// Whether all of it can be used.
    pub(super) fn state(&self) -> StoreState {
        match &self.0.way {
            Way::One(link) => link.state(),
            Way::Cluster(cluster) => cluster.state(),
        }
    }

    /// What somebody should know of the servers.
    pub(super) fn warnings(&self) -> Vec<String> {
        match &self.0.way {
            Way::One(link) => link.warnings(),
            Way::Cluster(cluster) => cluster.warnings(),
        }
    }

    /// How many servers are not asked.
    pub(super) fn breakers_open(&self) -> usize {
        match &self.0.way {
            Way::One(link) => usize::from(link.is_breaker_open()),
            Way::Cluster(cluster) => cluster.breakers_open(),
        }
    }

    /// What it has counted.
    pub(super) fn stats(&self) -> &Stats {
        &self.0.stats
    }

    /// How many batches are in work.
    pub(super) fn in_flight(&self) -> usize {
        self.0.in_flight.saturating_sub(self.0.turns.available_permits())
    }

    /// Returns when the state may have changed.
    pub(super) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    pub(super) async fn decide(&self, requests: &[Vec<StoreCheck>]) -> Result<Vec<Vec<Outcome>>, StoreError> {
        let _turn = self.turn()?;
        let deadline = Instant::now() + self.0.timeout;
        if !self.0.is_split.load(Ordering::Relaxed) {
            match self.decide_at_once(requests, deadline).await {
                Err(error) if self.is_split_by(&error) => {}
                result => return result,
            }
        }
        // A task of its own: what was charged is given back even if nobody waits for the answer any more.
        let decided = self.clone().decide_by_slot(requests.to_vec(), deadline);
        let task = tokio::spawn(decided.in_current_span());
        task.await.unwrap_or(Err(StoreError::Malformed("a decision was broken off")))
    }

    /// A place among those in work, or none: a queue that grows faster than it is worked off only makes
    /// everybody late.
    fn turn(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        self.0.turns.try_acquire().map_err(|_| {
            self.0.stats.shed.count();
            StoreError::Overloaded(self.0.in_flight)
        })
    }

    /// Runs the script once per slot, and gives back what was charged for requests that are denied elsewhere.
    async fn decide_by_slot(
        self,
        requests: Vec<Vec<StoreCheck>>,
        deadline: Instant,
    ) -> Result<Vec<Vec<Outcome>>, StoreError> {
        let parts = slots::split(&requests);
        let answers = join_all(parts.iter().map(|part| self.decide_at_once(&part.requests, deadline))).await;

        let mut joined = slots::Joined::new(&requests);
        let mut failed = None;
        for (part, answer) in parts.iter().zip(answers) {
            match answer {
                Ok(outcomes) => joined.add(part, &outcomes),
                Err(error) => failed = Some(error),
            }
        }
        let owed = joined.owed(&requests);
        // Further tasks: the caller is answered in time, and the charges are given back all the same.
        let refunds: Vec<_> = owed
            .iter()
            .map(|owed| {
                let (store, refunds) = (self.clone(), owed.iter().map(|owed| owed.refund.clone()).collect::<Vec<_>>());
                let refunded = async move { store.refund_at_once(&refunds, Instant::now() + store.0.timeout).await };
                tokio::spawn(refunded.in_current_span())
            })
            .collect();
        if let Some(error) = failed {
            return Err(error);
        }
        for (owed, refund) in owed.iter().zip(refunds) {
            match timeout_at(deadline, refund).await {
                Ok(Ok(Ok(refunded))) => joined.give_back(owed, &refunded),
                // Not given back, or not yet known to be: the verdicts tell of the charge.
                Ok(Ok(Err(error))) => tracing::debug!(%error, "a charge was not given back"),
                Ok(Err(_)) | Err(_) => {}
            }
        }
        joined.into_outcomes().ok_or(StoreError::Malformed("fewer outcomes than checks"))
    }

    async fn decide_at_once(
        &self,
        requests: &[Vec<StoreCheck>],
        deadline: Instant,
    ) -> Result<Vec<Vec<Outcome>>, StoreError> {
        let key = requests.iter().flatten().next().map_or("", |check| check.key.as_str());
        let script = if script::is_leasing(requests) { &LEASE } else { &DECIDE };
        let command = script::decide(&script.sha1, requests);
        let answer = self.run(script, key, command, deadline).await?;
        self.read(script::outcomes(&answer, requests))
    }

    pub(super) async fn refund(&self, refunds: &[Refund]) -> Result<Vec<Refunded>, StoreError> {
        let _turn = self.turn()?;
        let deadline = Instant::now() + self.0.timeout;
        if !self.0.is_split.load(Ordering::Relaxed) {
            match self.refund_at_once(refunds, deadline).await {
                Err(error) if self.is_split_by(&error) => {}
                result => return result,
            }
        }
        // One by one: refunds are rare, and each has a slot of its own.
        let each = refunds.iter().map(|refund| self.refund_at_once(std::slice::from_ref(refund), deadline));
        Ok(try_join_all(each).await?.into_iter().flatten().collect())
    }

    async fn refund_at_once(&self, refunds: &[Refund], deadline: Instant) -> Result<Vec<Refunded>, StoreError> {
        let key = refunds.first().map_or("", |refund| refund.check.key.as_str());
        let answer = self.run(&REFUND, key, script::refund(&REFUND.sha1, refunds), deadline).await?;
        self.read(script::refunded(&answer, refunds.len()))
    }

    pub(super) async fn kept(&self, key: &str) -> Result<Kept, StoreError> {
        let mut questions = redis::pipe();
        // One transaction, so that time, state and TTL belong together.
        questions.atomic().cmd("TIME").cmd("GET").arg(key).cmd("PTTL").arg(key);
        let deadline = Instant::now() + self.0.timeout.max(LOOK_PATIENCE);
        let link = match &self.0.way {
            Way::One(link) => link.clone(),
            Way::Cluster(cluster) => cluster.owner(slots::slot(key), deadline).await?.1,
        };
        let answer = link.transact(questions, deadline).await?;
        let look: Result<Look, _> = Look::from_redis_value(answer);
        let ((seconds, micros), state, ttl_ms) =
            self.read(look.map_err(|_| StoreError::Malformed("not a time, a state and a TTL")))?;
        Ok(Kept { state, ttl_ms: u64::try_from(ttl_ms).ok(), now_us: seconds * 1_000_000 + micros })
    }

    /// Forgets a key. A failed question is not put again: in the meantime somebody may have taken something anew.
    pub(super) async fn forget(&self, key: &str) -> Result<bool, StoreError> {
        let mut command = redis::cmd("DEL");
        command.arg(key);
        let (command, deadline) = (Arc::new(command), Instant::now() + self.0.timeout.max(LOOK_PATIENCE));
        let answer = match &self.0.way {
            Way::One(link) => link.ask(&command, Mode::Plain, deadline).await,
            Way::Cluster(cluster) => cluster.ask(slots::slot(key), None, &command, deadline).await,
        };
        let count = u64::from_redis_value(answer?).map_err(|_| StoreError::Malformed("not a number of keys"));
        self.read(count).map(|count| count > 0)
    }

    async fn run(
        &self,
        script: &scripts::Kept,
        key: &str,
        command: redis::Cmd,
        deadline: Instant,
    ) -> Result<redis::Value, StoreError> {
        let command = Arc::new(command);
        match &self.0.way {
            Way::One(link) => link.run(script, &command, Mode::Plain, deadline).await,
            Way::Cluster(cluster) => cluster.ask(slots::slot(key), Some(script), &command, deadline).await,
        }
    }

    fn read<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        answer.inspect_err(|_| self.0.stats.malformed.count())
    }

    /// Whether the server refused a script for having keys of several slots. It has not begun with it then, so
    /// that it can be asked again, slot by slot, as it will be from now on.
    fn is_split_by(&self, error: &StoreError) -> bool {
        let is_split = matches!(error, StoreError::Refused(error) if crosses_slots(error));
        if is_split && !self.0.is_split.swap(true, Ordering::Relaxed) {
            tracing::info!("the store is a cluster: checks in different slots are decided in several steps");
        }
        is_split
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Whoever waits for a change finds that there will be none.
        self.changed.notify_waiters();
    }
}

/// Time, state and TTL.
type Look = ((u64, u64), Option<String>, i64);

fn crosses_slots(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::CrossSlot)
}
