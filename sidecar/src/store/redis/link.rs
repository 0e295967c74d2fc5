//! A link to one server: a connection that mends itself, a bound on what is on its way, and a breaker.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use super::super::stats::Stats;
use super::super::{StoreError, StoreState};
use super::breaker::Breaker;
use super::dial::Dialer;
use super::keeper;
use super::origin::Origin;
use super::scripts::Kept;
use super::sent::Sent;
use crate::traces::span;

/// How many questions may be on their way to one server. At a round trip of one millisecond that is 64,000
/// batches a second, and all that a server which stops for a while finds when it goes on.
pub(super) const ON_THE_WAY: usize = 64;

/// How often a question may find the script gone. Each time it has just been loaded again, so that more than
/// one is somebody flushing scripts in a loop.
const MAX_LOADS: usize = 3;

/// A link. Clones are the same link; it ends with the last of them.
#[derive(Debug, Clone)]
pub struct Link(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub origin: Origin,
    pub dialer: Dialer,
    pub timeout: Duration,
    pub line: watch::Sender<Line>,
    pub breaker: Breaker,
    /// Something is wrong: the keeper looks now, and not at its next turn.
    pub alarm: Notify,
    /// Tells whoever has several links that this one's state has changed.
    pub changed: Arc<Notify>,
    pub warnings: Mutex<Vec<String>>,
    pub stats: Arc<Stats>,
    permits: Arc<Semaphore>,
    /// What was said last: up, or down.
    was_up: Mutex<Option<bool>>,
    /// The key that a look charges, to see whether the server takes charges.
    pub probe_key: Mutex<Option<String>>,
    pub must_redial: AtomicBool,
}

/// The connection of a link.
#[derive(Debug, Clone)]
pub(super) enum Line {
    /// There is none yet, or it has just been lost. It is waited for.
    Dialing,
    /// Here it is.
    Open(MultiplexedConnection),
    /// The last attempt failed. Others are made all the time; until one succeeds there is nothing to wait for.
    Down(Arc<str>),
}

/// How a question is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As it is.
    Plain,
    /// To a node of a cluster that is about to get the keys.
    Asking,
}

impl Link {
    /// A link to a server. It connects in the background.
    ///
    /// `probe_key` is a key that the server has to take charges for.
    pub fn new(
        origin: Origin,
        dialer: Dialer,
        timeout: Duration,
        probe_key: Option<String>,
        stats: Arc<Stats>,
        changed: Arc<Notify>,
    ) -> Self {
        let inner = Arc::new(Inner {
            origin,
            dialer,
            timeout,
            line: watch::Sender::new(Line::Dialing),
            breaker: Breaker::default(),
            alarm: Notify::new(),
            changed,
            warnings: Mutex::default(),
            stats,
            permits: Arc::new(Semaphore::new(ON_THE_WAY)),
            was_up: Mutex::default(),
            probe_key: Mutex::new(probe_key),
            must_redial: AtomicBool::new(false),
        });
        tokio::spawn(keeper::keep(Arc::downgrade(&inner)));
        Self(inner)
    }

    /// Whether the server can be used.
    pub fn state(&self) -> StoreState {
        self.0.state()
    }

    /// Whether the server is not asked.
    pub fn is_breaker_open(&self) -> bool {
        self.0.breaker.why_open().is_some()
    }

    /// What somebody should know of the server.
    pub fn warnings(&self) -> Vec<String> {
        self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the key that a look charges.
    pub fn set_probe_key(&self, key: Option<String>) {
        *self.0.probe_key.lock().unwrap_or_else(PoisonError::into_inner) = key;
    }

    /// Runs a script. NOSCRIPT is the one error after which a question is put again: the server has not begun
    /// with it, so that nothing can be charged twice.
    pub async fn run(
        &self,
        script: &Kept,
        command: &Arc<Cmd>,
        mode: Mode,
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        let span = span::script(script.name, || self.0.origin.place());
        let answer = self.run_loaded(script, command, mode, deadline).instrument(span.clone()).await;
        span::ran(&span, &answer);
        answer
    }

    async fn run_loaded(
        &self,
        script: &Kept,
        command: &Arc<Cmd>,
        mode: Mode,
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        let mut loads = 0;
        loop {
            match self.ask(command, mode, deadline).await {
                Err(StoreError::Refused(error)) if is_kind(&error, ServerErrorKind::NoScript) && loads < MAX_LOADS => {
                    self.ask(&Arc::new(script.load()), Mode::Plain, deadline).await?;
                    self.0.stats.script_loads.count();
                    loads += 1;
                }
                result => return result,
            }
        }
    }

    /// Puts a question, once.
    pub async fn ask(&self, command: &Arc<Cmd>, mode: Mode, deadline: Instant) -> Result<Value, StoreError> {
        let command = Arc::clone(command);
        self.put(deadline, move |mut connection| async move {
            match mode {
                Mode::Plain => connection.req_packed_command(&command).await?.extract_error(),
                Mode::Asking => {
                    let mut pipeline = redis::pipe();
                    pipeline.cmd("ASKING").add_command((*command).clone());
                    let mut answers = connection.req_packed_commands(&pipeline, 0, 2).await?;
                    answers.pop().unwrap_or(Value::Nil).extract_error()
                }
            }
        })
        .await
    }

    /// Puts several questions as one transaction, once.
    pub async fn transact(&self, questions: Pipeline, deadline: Instant) -> Result<Value, StoreError> {
        self.put(deadline, |mut connection| async move { questions.query_async(&mut connection).await }).await
    }

    async fn put<F>(
        &self,
        deadline: Instant,
        question: impl FnOnce(MultiplexedConnection) -> F,
    ) -> Result<Value, StoreError>
    where
        F: Future<Output = Result<Value, RedisError>> + Send + 'static,
    {
        let inner = &self.0;
        let answer = async {
            if let Some(why) = inner.breaker.why_open() {
                return Err(StoreError::Down(why));
            }
            let late = |_| StoreError::Timeout(inner.timeout);
            let connection = inner.connection(deadline).await?;
            // Whoever gives up here has not been heard of by the server.
            let permit = timeout_at(deadline, Arc::clone(&inner.permits).acquire_owned()).await.map_err(late)?;
            let permit = permit.map_err(|_| StoreError::Down("the link is closed".into()))?;
            let sent = Sent::new(permit, question(connection));
            timeout_at(deadline, sent).await.map_err(late)?.map_err(store_error)
        }
        .await;
        inner.note(&answer);
        answer
    }
}

impl Inner {
    /// Counts what became of a question, and sees to what that says of the server.
    fn note(&self, answer: &Result<Value, StoreError>) {
        match answer {
            Err(StoreError::Down(_)) => self.stats.not_asked.count(),
            Err(StoreError::Timeout(_)) => {
                self.stats.timeouts.count();
                let why = || format!("it does not answer within {} ms", self.timeout.as_millis());
                if self.breaker.failed(why) {
                    self.report();
                }
                self.alarm.notify_one();
            }
            Err(StoreError::Unreachable(_)) => {
                self.stats.unreachable.count();
                self.alarm.notify_one();
            }
            Err(StoreError::Refused(error)) => {
                self.breaker.succeeded();
                self.refused(error);
            }
            Ok(_) | Err(_) => self.breaker.succeeded(),
        }
    }

    async fn connection(&self, deadline: Instant) -> Result<MultiplexedConnection, StoreError> {
        let of = |line: &Line| match line {
            Line::Dialing => None,
            Line::Open(connection) => Some(Ok(connection.clone())),
            Line::Down(why) => Some(Err(StoreError::Down(Arc::clone(why)))),
        };
        if let Some(known) = of(&self.line.borrow()) {
            return known;
        }
        let mut line = self.line.subscribe();
        match timeout_at(deadline, line.wait_for(|line| !matches!(line, Line::Dialing))).await {
            Ok(Ok(line)) => of(&line).unwrap_or(Err(StoreError::Timeout(self.timeout))),
            Ok(Err(_)) | Err(_) => Err(StoreError::Timeout(self.timeout)),
        }
    }

    /// What a refusal says of the server. That of a script says nothing, and those of a cluster are known to
    /// whoever follows its redirects.
    fn refused(&self, error: &RedisError) {
        match error.kind() {
            ErrorKind::Server(
                ServerErrorKind::NoScript
                | ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::TryAgain
                | ServerErrorKind::CrossSlot,
            ) => {}
            ErrorKind::Server(ServerErrorKind::ReadOnly) => {
                self.stats.refused.count();
                // Somebody has made it a replica: the primary is elsewhere.
                self.must_redial.store(true, Ordering::Relaxed);
                self.alarm.notify_one();
            }
            _ => {
                self.stats.refused.count();
                self.alarm.notify_one();
            }
        }
    }

    pub fn state(&self) -> StoreState {
        if let Line::Down(why) = &*self.line.borrow() {
            return StoreState::Down(why.to_string());
        }
        match self.breaker.why_open() {
            Some(why) => StoreState::Down(why.to_string()),
            None if matches!(&*self.line.borrow(), Line::Open(_)) => StoreState::Up,
            None => StoreState::Unknown,
        }
    }

    /// Says once that the server is down, or up again.
    pub fn report(&self) {
        let state = self.state();
        let is_up = match state {
            StoreState::Unknown => return,
            StoreState::Up => true,
            StoreState::Down(_) => false,
        };
        let mut was_up = self.was_up.lock().unwrap_or_else(PoisonError::into_inner);
        if *was_up == Some(is_up) {
            return;
        }
        *was_up = Some(is_up);
        drop(was_up);
        let server = self.origin.to_string();
        if let StoreState::Down(why) = state {
            tracing::warn!(server, why, "the store is down");
        } else {
            tracing::info!(server, "the store is up");
        }
        self.changed.notify_one();
    }
}

pub(super) fn is_kind(error: &RedisError, kind: ServerErrorKind) -> bool {
    error.kind() == ErrorKind::Server(kind)
}

fn store_error(error: RedisError) -> StoreError {
    if error.code().is_some() { StoreError::Refused(error) } else { StoreError::Unreachable(error) }
}
