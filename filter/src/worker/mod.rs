//! The worker: what one root context of one VM does with its requests.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::answer;
use crate::batch::{Asked, Batch, Member, Sent, Slot, SlotRef, State};
use crate::config::{Config, CorsPreflight, OnError};
use crate::denials::{Denials, told::Told};
use crate::denied::Denied;
use crate::headers::{self, Field};
use crate::host::{Call, Host, HostError};
use crate::keys::{self, Facts, KeyMissing};
use crate::leases::Leases;
use crate::metrics::{Metric, Tally};
use crate::rules;
use crate::throttle::{Failure, Throttle};
use crate::trace::TraceContext;
use crate::wire::{CheckAnswer, Decision, Entry, Request, Verdict};

mod local;
mod outcome;
#[cfg(test)]
mod tests;

use outcome::{Outcome, mark, remove_spoofed};

/// How often deadlines are looked at while a request waits, and how late the host is told of what was decided here.
pub const TICK: Duration = Duration::from_millis(10);

/// What becomes of a request at once.
#[derive(Debug)]
pub enum Start {
    /// It goes on.
    Pass,
    /// It was allowed. Its response gets these header fields.
    Go(Vec<Field>),
    /// It was answered.
    Stop,
    /// It waits. Whoever holds the slot keeps the request in the batch.
    Wait(SlotRef),
}

/// The answer to a callout, as far as one came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallAnswer {
    /// The HTTP status; 504 if Envoy's timeout struck.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// One root context's requests.
#[derive(Debug)]
pub struct Worker {
    config: Config,
    batch: Batch,
    leases: Leases,
    denials: Denials,
    told: Told,
    ticking: bool,
    tally: Tally,
    throttle: Throttle,
}

impl Worker {
    /// A worker with nothing to do.
    pub fn new(config: Config) -> Self {
        Self {
            leases: Leases::new(config.leases),
            denials: Denials::new(config.denial_cache),
            told: Told::default(),
            config,
            batch: Batch::default(),
            ticking: false,
            tally: Tally::default(),
            throttle: Throttle::default(),
        }
    }

    /// Takes the host's current request, whose number is `context`.
    pub fn request(&mut self, host: &dyn Host, context: u32) -> Start {
        let facts = Facts::read(host, &self.config);
        remove_spoofed(host, &facts);
        if self.config.cors_preflight == CorsPreflight::Exempt && facts.is_preflight() {
            return Start::Pass;
        }
        let grpc = facts.is_grpc();
        let mut asked = match self.asked(&facts) {
            Ok(asked) if asked.checks.is_empty() => return Start::Pass,
            Ok(asked) => asked,
            Err((missing, denied)) => {
                mark(host, Outcome::Denied, Some(&missing.policy));
                host.reply(&answer::key_missing(denied.as_deref(), &missing, grpc));
                self.tally.add(Metric::Denied, 1);
                self.keep_ticking(host);
                return Start::Stop;
            }
        };
        let headers = facts.into_headers();
        if let Some(start) = self.decided_locally(host, &asked, grpc) {
            return start;
        }
        self.ask_ahead(host, &mut asked.checks);
        let traceparent = if self.config.trace_context { TraceContext::of_request(&headers) } else { None };
        let request = Request { checks: asked.checks, refundable: false, traceparent };
        let slot = Slot { context, grpc, asked: Asked::default(), state: State::Waiting };
        let slot = Rc::new(RefCell::new(slot));

        if self.batch.is_sent()
            && let Err(error) = host.wake()
        {
            self.throttle.warn(host, Failure::Wake, || format!("can't wake the worker: {error}"));
            return self.fail_at_once(host, &slot);
        }
        let timeout = self.config.sidecar.timeout;
        if let Err(error) = self.batch.join(&slot, &request, || host.now() + timeout) {
            self.throttle.warn(host, Failure::Wake, || format!("can't write a request: {error}"));
            return self.fail_at_once(host, &slot);
        }
        slot.borrow_mut().asked = Asked { checks: request.checks, denied: asked.denied };
        self.tally.add(Metric::Pending, 1);
        self.keep_ticking(host);
        Start::Wait(slot)
    }

    /// Has the tick run: somebody waits, or there is something to be handed to the host. The tick itself ends it.
    fn keep_ticking(&mut self, host: &dyn Host) {
        if !self.ticking {
            host.tick_every(TICK);
            self.ticking = true;
        }
    }

    /// The checks of a request.
    fn asked(&self, facts: &Facts<'_>) -> Result<Asked, (KeyMissing, Option<Arc<Denied>>)> {
        let mut asked = Asked::default();
        for spec in rules::checks(&self.config.rules, facts) {
            let denied = spec.denied.as_ref().or(self.config.denied.as_ref());
            if let Some(check) = keys::build(spec, facts).map_err(|missing| (missing, denied.cloned()))? {
                asked.checks.push(check);
                asked.denied.push(denied.cloned());
            }
        }
        Ok(asked)
    }

    /// Sends everything that waits to be sent.
    pub fn wake_up(&mut self, host: &dyn Host) {
        host.drain_wake_ups();
        self.send(host, None);
        self.tally.flush(host);
    }

    /// Handles the answer to a callout; `None` if there was none, such as a broken connection. The answer to
    /// a callout that nobody waits for is ignored.
    pub fn answered(&mut self, host: &dyn Host, token: u32, answer: Option<CallAnswer>) {
        let Some(Sent { members, deadline }) = self.batch.take_sent(token) else { return };
        if let Some(entries) = self.decisions(host, &members, answer) {
            let now = host.now();
            let sent = deadline.saturating_sub(self.config.sidecar.timeout);
            for (member, entry) in members.iter().zip(entries) {
                self.settle(host, member, entry, sent, now);
            }
        } else {
            self.tally.add(Metric::CalloutsFailed, 1);
            self.fail(host, &members);
        }
        self.tally.flush(host);
    }

    /// Looks at deadlines, and sends what a lost wake-up left behind.
    pub fn tick(&mut self, host: &dyn Host) {
        let now = host.now();
        let expired = self.batch.expire(now);
        if !expired.members.is_empty() || expired.callouts > 0 {
            self.tally.add(Metric::CalloutsFailed, i64::try_from(expired.callouts).unwrap_or(0));
            let timeout = self.config.sidecar.timeout;
            self.throttle.warn(host, Failure::Deadline, || format!("no decision within {} ms", timeout.as_millis()));
            self.fail(host, &expired.members);
        }
        // What ends now is given back with the next batch; if there is none until then, with the next tick.
        self.send(host, Some(now));
        self.leases.expire(now, &mut self.tally);
        if self.batch.is_empty() && self.leases.is_idle() {
            host.tick_every(Duration::ZERO);
            self.ticking = false;
        }
        self.tally.flush(host);
    }

    /// Notes that a request is gone. The gauge follows at once: the last requests of a worker that is shut
    /// down are not followed by a tick.
    pub fn gone(&mut self, host: &dyn Host, slot: &SlotRef) {
        if matches!(slot.borrow().state, State::Waiting) {
            slot.borrow_mut().state = State::Answered;
            self.tally.add(Metric::Pending, -1);
            self.tally.flush(host);
        }
    }

    /// Ends the worker's part in what goes on: there are no more callouts, ticks or requests.
    pub fn stop(&mut self, host: &dyn Host) {
        self.leases.end(&mut self.tally);
        self.tally.flush(host);
    }

    fn send(&mut self, host: &dyn Host, on_tick: Option<Duration>) {
        let mut parcels = self.batch.take_waiting();
        let mut given_back = self.give_back(&mut parcels, on_tick);
        for parcel in parcels {
            let sidecar = &self.config.sidecar;
            let call = Call {
                cluster: &sidecar.cluster,
                authority: &sidecar.authority,
                token: sidecar.token.as_ref(),
                trace: parcel.trace(),
                body: &parcel.body,
                timeout: sidecar.timeout,
            };
            self.tally.add(Metric::Callouts, 1);
            match host.call(call) {
                Ok(token) => {
                    self.tally.add(Metric::Checks, i64::try_from(parcel.checks()).unwrap_or(0));
                    self.tally.add(Metric::LeaseRefunded, i64::try_from(given_back).unwrap_or(i64::MAX));
                    self.batch.sent(token, Sent { members: parcel.members, deadline: parcel.deadline });
                }
                Err(error) => {
                    self.tally.add(Metric::CalloutsFailed, 1);
                    let cluster = &sidecar.cluster;
                    self.throttle.warn(host, Failure::Call, || match error {
                        HostError::Unknown => format!("there is no cluster \"{cluster}\""),
                        HostError::Failed => {
                            format!("a call to cluster \"{cluster}\" failed at once: no endpoint takes it")
                        }
                    });
                    self.fail(host, &parcel.members);
                }
            }
            given_back = 0; // it was in the first
        }
    }

    /// The entries of an answer, if it is one for these requests.
    fn decisions(&mut self, host: &dyn Host, members: &[Member], answer: Option<CallAnswer>) -> Option<Vec<Entry>> {
        let Some(answer) = answer else {
            self.throttle.warn(host, Failure::Status, || "the sidecar did not answer".to_owned());
            return None;
        };
        if answer.status == 401 {
            self.throttle.warn(host, Failure::Status, || {
                "the sidecar answered with status 401: the token that sidecar.token_env names must be in the sidecar's \
                 auth.token_file"
                    .to_owned()
            });
            return None;
        }
        if answer.status != 200 {
            self.throttle.warn(host, Failure::Status, || {
                format!("the sidecar, or Envoy in its place, answered with status {}", answer.status)
            });
            return None;
        }
        let entries = match serde_json::from_slice::<CheckAnswer>(&answer.body) {
            Ok(answer) => answer.decisions,
            Err(error) => {
                // Only where it is, not what: an answer names no keys, but it might be anybody's.
                self.throttle.warn(host, Failure::Malformed, || {
                    format!("the sidecar's answer is malformed at line {}, column {}", error.line(), error.column())
                });
                return None;
            }
        };
        let fits = entries.len() == members.len()
            && members.iter().zip(&entries).all(|(member, entry)| match entry {
                Entry::Decided(decision) => decision.checks.len() == member.checks,
                Entry::Refused { .. } => true,
            });
        if !fits {
            self.throttle.warn(host, Failure::Malformed, || {
                "the sidecar's answer has the wrong number of decisions or checks".to_owned()
            });
        }
        fits.then_some(entries)
    }

    fn settle(&mut self, host: &dyn Host, member: &Member, mut entry: Entry, sent: Duration, now: Duration) {
        let slot = member.waiting();
        if let Entry::Decided(decision) = &mut entry {
            if let Some(checks) = &member.asks {
                self.learn(checks, decision, sent, now);
            } else if let Some(slot) = &slot {
                self.learn(&slot.borrow().asked.checks, decision, sent, now);
            }
        }
        let Some(slot) = slot else { return };
        if matches!(entry, Entry::Decided(Decision { degraded: true, .. })) {
            self.tally.add(Metric::Degraded, 1);
        }
        match entry {
            Entry::Decided(Decision { allowed: true, checks, .. }) => {
                self.resume(host, &slot, Outcome::Allowed, headers::shown(&checks, true));
            }
            Entry::Decided(Decision { allowed: false, degraded, checks }) => {
                // The store may be back at any time, and know better.
                if !degraded {
                    self.denials.remember(&slot.borrow().asked.checks, &checks, now);
                }
                if self.leave(host, &slot, State::Answered) {
                    let slot = slot.borrow();
                    host.reply(&self.denial(host, &slot.asked, &checks, slot.grpc));
                    self.tally.add(Metric::Denied, 1);
                }
            }
            Entry::Refused { error } => {
                self.throttle.warn(host, Failure::Refused, || {
                    format!("the sidecar refused a request: {}: {}", error.title, error.detail)
                });
                self.fail_one(host, &slot);
            }
        }
    }

    fn fail(&mut self, host: &dyn Host, members: &[Member]) {
        for slot in members.iter().filter_map(Member::waiting) {
            self.fail_one(host, &slot);
        }
    }

    fn fail_one(&mut self, host: &dyn Host, slot: &SlotRef) {
        match self.config.on_error {
            OnError::Allow => self.resume(host, slot, Outcome::FailedOpen, None),
            OnError::Deny => {
                if self.leave(host, slot, State::Answered) {
                    mark(host, Outcome::FailedClosed, None);
                    host.reply(&answer::undecided(slot.borrow().grpc));
                    self.tally.add(Metric::FailedClosed, 1);
                }
            }
        }
    }

    /// Fails a request that the host is still asking about: it never waited.
    fn fail_at_once(&mut self, host: &dyn Host, slot: &SlotRef) -> Start {
        match self.config.on_error {
            OnError::Allow => {
                host.count(Metric::FailedOpen, 1);
                mark(host, Outcome::FailedOpen, None);
                Start::Pass
            }
            OnError::Deny => {
                host.count(Metric::FailedClosed, 1);
                mark(host, Outcome::FailedClosed, None);
                host.reply(&answer::undecided(slot.borrow().grpc));
                Start::Stop
            }
        }
    }

    fn resume(&mut self, host: &dyn Host, slot: &SlotRef, outcome: Outcome, shown: Option<&Verdict>) {
        if self.leave(host, slot, State::Resumed(Vec::new())) {
            slot.borrow_mut().state = State::Resumed(self.let_through(host, outcome, shown));
            host.resume();
            self.tally.add(outcome.metric(), 1);
        }
    }

    /// Moves a slot from waiting to its last state, and enters its request. False if that is gone.
    fn leave(&mut self, host: &dyn Host, slot: &SlotRef, state: State) -> bool {
        let mut slot = slot.borrow_mut();
        slot.state = state;
        self.tally.add(Metric::Pending, -1);
        host.enter(slot.context).is_ok()
    }
}
