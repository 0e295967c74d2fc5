//! The worker: what one root context of one VM does with its requests.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::answer::{self, Reply};
use crate::batch::{Batch, Member, Slot, SlotRef, State};
use crate::config::{Config, OnError};
use crate::headers::{self, Field};
use crate::host::{Call, Host, HostError};
use crate::keys::{self, Facts};
use crate::metrics::{Metric, Tally};
use crate::rules;
use crate::throttle::{Failure, Throttle};
use crate::wire::{CheckAnswer, Decision, Entry, Request};

#[cfg(test)]
mod tests;

/// How often deadlines are looked at while a request waits.
pub const TICK: Duration = Duration::from_millis(10);

/// What becomes of a request at once.
#[derive(Debug)]
pub enum Start {
    /// It goes on.
    Pass,
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
    ticking: bool,
    tally: Tally,
    throttle: Throttle,
}

impl Worker {
    /// A worker with nothing to do.
    pub fn new(config: Config) -> Self {
        Self { config, batch: Batch::default(), ticking: false, tally: Tally::default(), throttle: Throttle::default() }
    }

    /// Takes the host's current request, whose number is `context`.
    pub fn request(&mut self, host: &dyn Host, context: u32) -> Start {
        let facts = Facts::read(host, &self.config);
        let specs = rules::checks(&self.config.rules, &facts);
        let checks = match keys::build(&specs, &facts) {
            Ok(checks) if checks.is_empty() => return Start::Pass,
            Ok(checks) => checks,
            Err(missing) => {
                host.count(Metric::Denied, 1);
                host.reply(&answer::key_missing(&missing.policy, missing.status, facts.is_grpc()));
                return Start::Stop;
            }
        };
        let slot = Slot { context, grpc: facts.is_grpc(), state: State::Waiting };
        let slot = Rc::new(RefCell::new(slot));

        if self.batch.is_sent()
            && let Err(error) = host.wake()
        {
            self.throttle.warn(host, Failure::Wake, || format!("can't wake the worker: {error}"));
            return self.fail_at_once(host, &slot);
        }
        let timeout = self.config.sidecar.timeout;
        if let Err(error) = self.batch.join(&slot, &Request { checks, refundable: false }, || host.now() + timeout) {
            self.throttle.warn(host, Failure::Wake, || format!("can't write a request: {error}"));
            return self.fail_at_once(host, &slot);
        }
        self.tally.add(Metric::Pending, 1);
        if !self.ticking {
            host.tick_every(TICK);
            self.ticking = true;
        }
        Start::Wait(slot)
    }

    /// Sends everything that waits to be sent.
    pub fn wake_up(&mut self, host: &dyn Host) {
        host.drain_wake_ups();
        self.send(host);
        self.tally.flush(host);
    }

    /// Handles the answer to a callout; `None` if there was none, such as a broken connection. The answer to
    /// a callout that nobody waits for is ignored.
    pub fn answered(&mut self, host: &dyn Host, token: u32, answer: Option<CallAnswer>) {
        let Some(members) = self.batch.take_sent(token) else { return };
        if let Some(entries) = self.decisions(host, &members, answer) {
            for (member, entry) in members.iter().zip(entries) {
                self.settle(host, member, entry);
            }
        } else {
            self.tally.add(Metric::CalloutsFailed, 1);
            self.fail(host, &members);
        }
        self.tally.flush(host);
    }

    /// Looks at deadlines, and sends what a lost wake-up left behind.
    pub fn tick(&mut self, host: &dyn Host) {
        let expired = self.batch.expire(host.now());
        if !expired.members.is_empty() {
            self.tally.add(Metric::CalloutsFailed, i64::try_from(expired.callouts).unwrap_or(0));
            let timeout = self.config.sidecar.timeout;
            self.throttle.warn(host, Failure::Deadline, || format!("no decision within {} ms", timeout.as_millis()));
            self.fail(host, &expired.members);
        }
        self.send(host);
        if self.batch.is_empty() {
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

    fn send(&mut self, host: &dyn Host) {
        for parcel in self.batch.take_waiting() {
            let sidecar = &self.config.sidecar;
            let call = Call {
                cluster: &sidecar.cluster,
                authority: &sidecar.authority,
                body: &parcel.body,
                timeout: sidecar.timeout,
            };
            self.tally.add(Metric::Callouts, 1);
            match host.call(call) {
                Ok(token) => {
                    self.tally.add(Metric::Checks, i64::try_from(parcel.checks()).unwrap_or(0));
                    self.batch.sent(token, parcel.members);
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
        }
    }

    /// The entries of an answer, if it is one for these requests.
    fn decisions(&mut self, host: &dyn Host, members: &[Member], answer: Option<CallAnswer>) -> Option<Vec<Entry>> {
        let Some(answer) = answer else {
            self.throttle.warn(host, Failure::Status, || "the sidecar did not answer".to_owned());
            return None;
        };
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

    fn settle(&mut self, host: &dyn Host, member: &Member, entry: Entry) {
        let Some(slot) = member.waiting() else { return };
        match entry {
            Entry::Decided(Decision { allowed: true, checks }) => {
                let shown = headers::shown(&checks, true);
                let fields = shown.map(|verdict| headers::fields(verdict, &self.config.headers));
                self.resume(host, &slot, fields.unwrap_or_default(), Metric::Allowed);
            }
            Entry::Decided(Decision { allowed: false, checks }) => {
                let reply = answer::denied(&checks, &self.config.headers, slot.borrow().grpc);
                self.reply(host, &slot, &reply, Metric::Denied);
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
            OnError::Allow => self.resume(host, slot, Vec::new(), Metric::FailedOpen),
            OnError::Deny => {
                let reply = answer::undecided(slot.borrow().grpc);
                self.reply(host, slot, &reply, Metric::FailedClosed);
            }
        }
    }

    /// Fails a request that the host is still asking about: it never waited.
    fn fail_at_once(&mut self, host: &dyn Host, slot: &SlotRef) -> Start {
        match self.config.on_error {
            OnError::Allow => {
                host.count(Metric::FailedOpen, 1);
                Start::Pass
            }
            OnError::Deny => {
                host.count(Metric::FailedClosed, 1);
                host.reply(&answer::undecided(slot.borrow().grpc));
                Start::Stop
            }
        }
    }

    fn resume(&mut self, host: &dyn Host, slot: &SlotRef, fields: Vec<Field>, metric: Metric) {
        if self.leave(host, slot, State::Resumed(fields)) {
            host.resume();
            self.tally.add(metric, 1);
        }
    }

    fn reply(&mut self, host: &dyn Host, slot: &SlotRef, reply: &Reply, metric: Metric) {
        if self.leave(host, slot, State::Answered) {
            host.reply(reply);
            self.tally.add(metric, 1);
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
