//! Redis as the store: one multiplexed connection that mends itself, a deadline on every question, and the
//! script wherever the server has lost it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, ConnectionInfo, ErrorKind, RedisError, Script, ServerErrorKind, Value};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout, timeout_at};

use super::{Kept, Outcome, Refund, Refunded, StoreCheck, StoreError, StoreState, script, slots};

/// How often the server is looked at when there may be no traffic to show its state.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// How long one attempt to connect may take. Longer than a decision waits: the attempt goes on behind it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Pauses between attempts to connect grow from the first to the second: short enough that a server that is
/// back is used at once, long enough not to storm one that is starting.
const RECONNECT_DELAY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// How often a question may find the script gone. Each time it has just been loaded again, so that more than
/// one is somebody flushing scripts in a loop.
const MAX_LOADS: usize = 3;

/// A Redis server. Clones share its connection.
#[derive(Debug, Clone)]
pub struct RedisStore(Arc<Inner>);

struct Inner {
    connection: ConnectionManager,
    timeout: Duration,
    decide: Loaded,
    refund: Loaded,
    state: RwLock<StoreState>,
    /// Learned from the server's first refusal.
    is_cluster: AtomicBool,
}

/// A script, and the digest that Redis keeps it under.
struct Loaded {
    text: &'static str,
    sha1: String,
}

impl Loaded {
    fn new(text: &'static str) -> Self {
        Self { text, sha1: Script::new(text).get_hash().to_owned() }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore").field("timeout", &self.timeout).field("state", &self.state).finish_non_exhaustive()
    }
}

impl RedisStore {
    pub(super) fn connect(info: &ConnectionInfo, timeout: Duration) -> Result<Self, StoreError> {
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            // Deadlines are set around whole questions, waiting for a connection included.
            .set_response_timeout(None)
            .set_min_delay(RECONNECT_DELAY.0)
            .set_max_delay(RECONNECT_DELAY.1);
        let client = Client::open(info.clone()).map_err(StoreError::Unreachable)?;
        let connection = ConnectionManager::new_lazy_with_config(client, config).map_err(StoreError::Unreachable)?;
        let inner = Arc::new(Inner {
            connection,
            timeout,
            decide: Loaded::new(script::DECIDE),
            refund: Loaded::new(script::REFUND),
            state: RwLock::new(StoreState::Unknown),
            is_cluster: AtomicBool::new(false),
        });
        tokio::spawn(watch(Arc::downgrade(&inner)));
        Ok(Self(inner))
    }

    pub(super) fn state(&self) -> StoreState {
        self.0.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) async fn decide(&self, requests: &[Vec<StoreCheck>]) -> Result<Vec<Vec<Outcome>>, StoreError> {
        if !self.0.is_cluster.load(Ordering::Relaxed) {
            match self.decide_at_once(requests).await {
                Err(error) if self.is_cluster_by(&error) => {}
                result => return result,
            }
        }
        // A task of its own: what was charged is given back even if nobody waits for the answer any more.
        let task = tokio::spawn(self.clone().decide_by_slot(requests.to_vec()));
        task.await.unwrap_or(Err(StoreError::Malformed("a decision was broken off")))
    }

    /// Runs the script once per slot, and gives back what was charged for requests that are denied elsewhere.
    async fn decide_by_slot(self, requests: Vec<Vec<StoreCheck>>) -> Result<Vec<Vec<Outcome>>, StoreError> {
        let deadline = Instant::now() + self.0.timeout;
        let parts = slots::split(&requests);
        let answers = join_all(parts.iter().map(|part| self.decide_at_once(&part.requests))).await;

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
                tokio::spawn(async move { store.refund_at_once(&refunds).await })
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

    async fn decide_at_once(&self, requests: &[Vec<StoreCheck>]) -> Result<Vec<Vec<Outcome>>, StoreError> {
        let script = &self.0.decide;
        let answer = self.0.run_in_time(script, &script::decide(&script.sha1, requests)).await?;
        script::outcomes(&answer, requests)
    }

    pub(super) async fn kept(&self, key: &str) -> Result<Kept, StoreError> {
        let mut pipeline = redis::pipe();
        // One transaction, so that time, state and TTL belong together.
        pipeline.atomic().cmd("TIME").cmd("GET").arg(key).cmd("PTTL").arg(key);
        let mut connection = self.0.connection.clone();
        // As long as connecting may take: nobody waits behind this, and it is the first on its connection.
        let patience = self.0.timeout.max(CONNECT_TIMEOUT);
        let look: Result<Look, RedisError> = timeout(patience, pipeline.query_async(&mut connection))
            .await
            .map_err(|_| StoreError::Timeout(patience))?;
        let ((seconds, micros), state, ttl_ms) = look.map_err(store_error)?;
        Ok(Kept { state, ttl_ms: u64::try_from(ttl_ms).ok(), now_us: seconds * 1_000_000 + micros })
    }

    pub(super) async fn refund(&self, refunds: &[Refund]) -> Result<Vec<Refunded>, StoreError> {
        if !self.0.is_cluster.load(Ordering::Relaxed) {
            match self.refund_at_once(refunds).await {
                Err(error) if self.is_cluster_by(&error) => {}
                result => return result,
            }
        }
        // One by one: refunds are rare, and each has a slot of its own.
        let each = refunds.iter().map(|refund| self.refund_at_once(std::slice::from_ref(refund)));
        Ok(try_join_all(each).await?.into_iter().flatten().collect())
    }

    /// Whether this is a cluster's refusal of keys in several slots; it comes before anything is run. From
    /// then on batches are split.
    fn is_cluster_by(&self, error: &StoreError) -> bool {
        let is_cross_slot = matches!(error, StoreError::Refused(error) if is_kind(error, ServerErrorKind::CrossSlot));
        if is_cross_slot && !self.0.is_cluster.swap(true, Ordering::Relaxed) {
            tracing::info!("this Redis is a cluster: batches are split by slot");
        }
        is_cross_slot
    }

    async fn refund_at_once(&self, refunds: &[Refund]) -> Result<Vec<Refunded>, StoreError> {
        let script = &self.0.refund;
        let answer = self.0.run_in_time(script, &script::refund(&script.sha1, refunds)).await?;
        script::refunded(&answer, refunds.len())
    }
}

/// What a look at a key takes: the time, the state, and how long it is kept.
type Look = ((u64, u64), Option<String>, i64);

impl Inner {
    async fn run_in_time(&self, script: &Loaded, command: &Cmd) -> Result<Value, StoreError> {
        match timeout(self.timeout, self.run(script, command)).await {
            Ok(answer) => answer.map_err(store_error),
            Err(_) => Err(StoreError::Timeout(self.timeout)),
        }
    }

    /// Runs a script. NOSCRIPT is the one error after which a question is put again: the server has not
    /// begun with it, so that nothing can be charged twice.
    async fn run(&self, script: &Loaded, command: &Cmd) -> Result<Value, RedisError> {
        let mut loads = 0;
        loop {
            match self.send(command).await {
                Err(error) if is_kind(&error, ServerErrorKind::NoScript) && loads < MAX_LOADS => {
                    self.load(script).await?;
                    loads += 1;
                }
                result => return result,
            }
        }
    }

    async fn load(&self, script: &Loaded) -> Result<(), RedisError> {
        self.send(redis::cmd("SCRIPT").arg("LOAD").arg(script.text)).await.map(drop)
    }

    async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        // Cloning a connection manager clones an Arc.
        self.connection.clone().req_packed_command(command).await.and_then(Value::extract_error)
    }

    /// Asks the server for the scripts, and loads them where they are missing: at the start, and after a
    /// restart.
    async fn probe(&self) -> Result<(), RedisError> {
        let scripts = [&self.decide, &self.refund];
        let sha1s = scripts.map(|script| script.sha1.as_str());
        match self.send(redis::cmd("SCRIPT").arg("EXISTS").arg(&sha1s)).await? {
            Value::Array(found) if found == [Value::Int(1), Value::Int(1)] => {}
            _ => {
                for script in scripts {
                    self.load(script).await?;
                }
            }
        }
        Ok(())
    }

    fn set_state(&self, new: StoreState) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        match (&*state, &new) {
            (StoreState::Up, StoreState::Up) | (StoreState::Down(_), StoreState::Down(_)) => {}
            (_, StoreState::Down(why)) => tracing::warn!(why, "the store is down: requests are answered with 503"),
            _ => tracing::info!("the store is up"),
        }
        *state = new;
    }
}

/// Keeps an eye on the server until the store is dropped. It also keeps the connection coming: a lazy one
/// only makes progress while somebody waits for it, and without traffic nobody would.
async fn watch(store: Weak<Inner>) {
    let mut ticks = interval(PROBE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(store) = store.upgrade() else { return };
        // Longer than a decision waits: a server that is slower than that is still there.
        let deadline = store.timeout.max(CONNECT_TIMEOUT);
        store.set_state(match timeout(deadline, store.probe()).await {
            Ok(Ok(())) => StoreState::Up,
            Ok(Err(error)) => StoreState::Down(error.to_string()),
            Err(_) => StoreState::Down(format!("no answer within {} ms", deadline.as_millis())),
        });
    }
}

fn is_kind(error: &RedisError, kind: ServerErrorKind) -> bool {
    error.kind() == ErrorKind::Server(kind)
}

fn store_error(error: RedisError) -> StoreError {
    if error.code().is_some() { StoreError::Refused(error) } else { StoreError::Unreachable(error) }
}
