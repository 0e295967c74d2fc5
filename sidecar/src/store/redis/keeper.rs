//! Keeps a link connected: dials, looks at the server now and then, and dials again when it is lost, silent,
//! or no longer the primary. One task per link, so that there is never more than one attempt at a time.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, RedisError, ServerErrorKind, Value};
use tokio::time::{Instant, sleep, timeout};

use super::super::address::Endpoint;
use super::super::{Ahead, StoreCheck, StoreState, script};
use super::dial::{Connection, DialError};
use super::greet::{ServerProblem, greet};
use super::link::{Inner, Line, ON_THE_WAY, is_kind};
use super::origin::OriginError;
use super::scripts::{DECIDE, REFUND};
use crate::policy::{Algorithm, Limit, Rate};

/// How long an attempt to connect may take, and how long a server may be silent before another connection is
/// tried. Longer than a decision waits: it goes on behind it.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often a server is looked at that was well the last time, and one that was not.
const LOOKS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(100));

/// The least pause between two looks, however loud the alarm.
const LEAST_PAUSE: Duration = Duration::from_millis(20);

/// Pauses between attempts to connect grow from the first to the second: short enough that a server that is
/// back is used at once, long enough not to storm one that is starting.
const REDIAL_PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// How often it is asked where the server is, if it can move.
const WHEREABOUTS: Duration = Duration::from_secs(1);

/// Why there is no connection to a usable server.
#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error(transparent)]
    Origin(#[from] OriginError),
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("{0}: {1}")]
    Server(Endpoint, #[source] ServerProblem),
    #[error("{server} does not answer within {} ms", PATIENCE.as_millis())]
    Silent { server: Endpoint },
}

/// What a look at a server shows.
enum Look {
    /// It takes charges.
    Well,
    /// It does, but too late for a decision.
    Slow,
    /// It answers, but can't be used for now.
    Refuses(ServerProblem),
    /// Another connection is needed, maybe to another server.
    Gone,
}

/// Keeps a link connected until it is dropped.
pub(super) async fn keep(link: Weak<Inner>) {
    let mut pause = REDIAL_PAUSES.0;
    loop {
        let Some(inner) = link.upgrade() else { return };
        match inner.open().await {
            Ok((connection, endpoint)) => {
                pause = REDIAL_PAUSES.0;
                inner.must_redial.store(false, Ordering::Relaxed);
                inner.line.send_replace(Line::Open(connection.handle.clone()));
                inner.breaker.close();
                inner.report();
                let timeout = inner.timeout;
                drop(inner);
                let connection = tend(&link, connection, &endpoint).await;
                // What is on its way there may still be answered until its deadline.
                tokio::spawn(async move {
                    sleep(timeout).await;
                    drop(connection);
                });
                let Some(inner) = link.upgrade() else { return };
                // Questions that wait for a new connection wait a moment, unless it has been bad for long.
                inner.line.send_if_modified(|line| {
                    let is_open = matches!(line, Line::Open(_));
                    if is_open {
                        *line = Line::Dialing;
                    }
                    is_open
                });
            }
            Err(error) => {
                let why: Arc<str> = error.to_string().into();
                inner.line.send_replace(Line::Down(why));
                inner.report();
                drop(inner);
                sleep(pause).await;
                pause = (pause * 2).min(REDIAL_PAUSES.1);
            }
        }
    }
}

/// Looks after a connection until another one is needed, and returns it.
async fn tend(link: &Weak<Inner>, mut connection: Connection, endpoint: &Endpoint) -> Connection {
    let mut asked = Instant::now();
    loop {
        let Some(inner) = link.upgrade() else { return connection };
        let pause = if matches!(inner.state(), StoreState::Up) { LOOKS.0 } else { LOOKS.1 };
        let alarmed = tokio::select! {
            () = connection.lost() => return connection,
            () = inner.alarm.notified() => true,
            () = sleep(pause) => false,
        };
        // A look without an alarm at a server that was well needs no charge.
        let thorough = alarmed || !matches!(inner.state(), StoreState::Up);
        let look = inner.look(&mut connection.handle, thorough).await;
        let is_gone = match look {
            Look::Well => {
                inner.breaker.close();
                inner.must_redial.load(Ordering::Relaxed)
            }
            Look::Slow => {
                let timeout = inner.timeout;
                inner.breaker.failed(|| format!("its answers take longer than {} ms", timeout.as_millis()));
                inner.must_redial.load(Ordering::Relaxed)
            }
            Look::Refuses(problem) => {
                inner.breaker.open(|| format!("{endpoint}: {problem}"));
                matches!(problem, ServerProblem::Replica)
            }
            Look::Gone => true,
        };
        inner.report();
        if is_gone {
            return connection;
        }
        if inner.origin.can_move() && asked.elapsed() >= WHEREABOUTS {
            asked = Instant::now();
            match inner.origin.find().await {
                Ok(now) if now != *endpoint => return connection,
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "it is not known whether the server has moved"),
            }
        }
        drop(inner);
        sleep(LEAST_PAUSE).await;
    }
}

impl Inner {
    /// A connection to a server that can be used.
    async fn open(&self) -> Result<(Connection, Endpoint), OpenError> {
        let endpoint = self.origin.find().await?;
        match timeout(PATIENCE, self.open_at(&endpoint)).await {
            Ok(connection) => connection.map(|connection| (connection, endpoint)),
            Err(_) => Err(OpenError::Silent { server: endpoint }),
        }
    }

    async fn open_at(&self, endpoint: &Endpoint) -> Result<Connection, OpenError> {
        let mut connection = self.dialer.dial(endpoint, ON_THE_WAY).await?;
        self.stats.connections.count();
        let server = |problem| OpenError::Server(endpoint.clone(), problem);
        let greeting = greet(&mut connection.handle).await.map_err(server)?;
        for script in [&*DECIDE, &*REFUND] {
            let loaded = send(&mut connection.handle, &script.load()).await;
            loaded.map_err(|error| server(ServerProblem::from(error)))?;
        }
        self.probe(&mut connection.handle, 1).await.map_err(server)?;
        self.warn(endpoint, greeting.warnings);
        Ok(connection)
    }

    fn warn(&self, endpoint: &Endpoint, warnings: Vec<String>) {
        let mut known = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        for warning in warnings.iter().filter(|warning| !known.contains(warning)) {
            tracing::warn!("{endpoint}: {warning}");
        }
        *known = warnings;
    }

    async fn look(&self, connection: &mut MultiplexedConnection, thorough: bool) -> Look {
        let start = Instant::now();
        let look = self.probe(connection, u64::from(thorough));
        match timeout(self.timeout.max(PATIENCE), look).await {
            Err(_) | Ok(Err(ServerProblem::Lost(_))) => Look::Gone,
            Ok(Err(problem)) => Look::Refuses(problem),
            Ok(Ok(())) if start.elapsed() > self.timeout => Look::Slow,
            Ok(Ok(())) => Look::Well,
        }
    }

    /// Has the script decide a check of our own. A charge shows everything that a decision needs, the right to
    /// write and the memory for it included; a peek (cost 0) writes nothing.
    async fn probe(&self, connection: &mut MultiplexedConnection, cost: u64) -> Result<(), ServerProblem> {
        let key = self.probe_key.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(key) = key else {
            // A node of a cluster that has no slots yet.
            return send(connection, &redis::cmd("PING")).await.map(drop).map_err(ServerProblem::from);
        };
        let rate = Rate { count: 1_000_000, period_us: 1_000 };
        let limit = Limit { algorithm: Algorithm::FixedWindow { align: false }, rate, shadow: false };
        let command = script::decide(&DECIDE.sha1, &[vec![StoreCheck { key, limit, cost, ahead: Ahead::default() }]]);
        let mut answer = send(connection, &command).await;
        if answer.as_ref().is_err_and(|error| is_kind(error, ServerErrorKind::NoScript)) {
            for script in [&*DECIDE, &*REFUND] {
                send(connection, &script.load()).await.map_err(ServerProblem::from)?;
            }
            answer = send(connection, &command).await;
        }
        match answer {
            Ok(_) => Ok(()),
            Err(error) if says_nothing(&error) => Ok(()),
            Err(error) => Err(ServerProblem::from(error)),
        }
    }
}

/// Whether an error says nothing of the server: somebody flushes scripts in a loop, or the slot of the key has
/// gone to another node of the cluster.
fn says_nothing(error: &RedisError) -> bool {
    [ServerErrorKind::NoScript, ServerErrorKind::Moved, ServerErrorKind::Ask].iter().any(|kind| is_kind(error, *kind))
}

async fn send(connection: &mut MultiplexedConnection, command: &Cmd) -> Result<Value, RedisError> {
    connection.req_packed_command(command).await.and_then(Value::extract_error)
}
