//! The batch: requests that wait for a decision, from the moment they are paused to that at which their
//! answer arrives or their time is up. It knows nothing of the host.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use crate::denied::Denied;
use crate::headers::Field;
use crate::trace::TraceContext;
use crate::wire;

#[cfg(test)]
mod tests;

/// The most checks that one callout carries, unless a single request has more.
pub const MAX_CHECKS: usize = 256;
/// The most bytes that the body of one callout has, unless a single request needs more.
pub const MAX_BYTES: usize = 256 * 1024;

const HEAD: &str = "{\"requests\":[";
const TAIL: &str = "]}";

/// Where one request stands. Its HTTP context owns it; the batch only refers to it, so that a request whose
/// client is gone disappears from the batch as well.
#[derive(Debug)]
pub struct Slot {
    /// The host's number for the request.
    pub context: u32,
    /// Whether it wants a gRPC answer.
    pub grpc: bool,
    /// What was asked, in the order of the verdicts.
    pub asked: Asked,
    /// Where it stands.
    pub state: State,
}

/// The checks of a request, and what its client is told if one of them denies.
#[derive(Debug, Default)]
pub struct Asked {
    /// The checks.
    pub checks: Vec<wire::Check>,
    /// For each check the answer of its rule, if it has one.
    pub denied: Vec<Option<Arc<Denied>>>,
}

/// Where a request stands.
#[derive(Debug, PartialEq, Eq)]
pub enum State {
    /// It is paused. The only state that any other may follow.
    Waiting,
    /// It went on, and its response gets these header fields.
    Resumed(Vec<Field>),
    /// It was answered by the filter.
    Answered,
}

/// A request's slot, as its HTTP context holds it.
pub type SlotRef = Rc<RefCell<Slot>>;

/// A paused request, its checks ready to be sent.
#[derive(Debug)]
struct Waiting {
    member: Member,
    /// The request as JSON.
    json: String,
}

/// A request of a batch.
#[derive(Debug)]
pub struct Member {
    slot: Weak<RefCell<Slot>>,
    /// How many checks it has.
    pub checks: usize,
    /// The checks, if one of them asks for tokens ahead: they are leased even if the request is gone by then.
    pub asks: Option<Box<[wire::Check]>>,
    trace: Option<TraceContext>,
    deadline: Duration,
}

impl Member {
    /// The request's slot, if it is still there and still waits.
    pub fn waiting(&self) -> Option<SlotRef> {
        self.slot.upgrade().filter(|slot| matches!(slot.borrow().state, State::Waiting))
    }
}

/// What one callout is made of.
#[derive(Debug)]
pub struct Parcel {
    /// The body of `POST /v1/check`.
    pub body: String,
    /// Its requests, in the body's order.
    pub members: Vec<Member>,
    /// When its time is up.
    pub deadline: Duration,
}

impl Parcel {
    fn new(deadline: Duration) -> Self {
        Self { body: HEAD.to_owned(), members: Vec::new(), deadline }
    }

    /// One without requests, for what is to be [given back](Self::give_back).
    pub fn empty(deadline: Duration) -> Self {
        let mut parcel = Self::new(deadline);
        parcel.body.push_str(TAIL);
        parcel
    }

    /// Adds what is given back, a JSON array.
    pub fn give_back(&mut self, refunds: &str) {
        self.body.pop();
        self.body.extend([",\"refunds\":", refunds, "}"]);
    }

    /// The trace of the first of its requests that has one.
    pub fn trace(&self) -> Option<TraceContext> {
        self.members.iter().find_map(|member| member.trace)
    }

    /// How many checks it has.
    pub fn checks(&self) -> usize {
        self.members.iter().map(|member| member.checks).sum()
    }
}

/// Requests whose time is up.
#[derive(Debug, Default)]
pub struct Expired {
    /// The requests.
    pub members: Vec<Member>,
    /// How many callouts nobody waits for any more.
    pub callouts: usize,
}

/// All requests of a worker that wait for a decision.
#[derive(Debug, Default)]
pub struct Batch {
    waiting: Vec<Waiting>,
    /// The deadline of those that joined in this turn of the event loop.
    deadline: Duration,
    in_flight: BTreeMap<u32, Sent>,
}

/// A callout on its way.
#[derive(Debug)]
pub struct Sent {
    /// Its requests, in order.
    pub members: Vec<Member>,
    /// When its time is up.
    pub deadline: Duration,
}

impl Batch {
    /// Whether nothing waits at all.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty()
    }

    /// Whether nobody waits to be sent: the next to join is the first of its turn.
    pub fn is_sent(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a request. The first of a turn sets the `deadline` of all that join in the same turn, which
    /// saves reading the clock for each of them.
    ///
    /// # Errors
    /// If the checks can't be written as JSON, which no check built by [`keys`](crate::keys) can cause.
    pub fn join(
        &mut self,
        slot: &SlotRef,
        request: &wire::Request,
        deadline: impl FnOnce() -> Duration,
    ) -> Result<(), serde_json::Error> {
        let json = serde_json::to_string(request)?;
        if self.waiting.is_empty() {
            self.deadline = deadline();
        }
        let asks = request.checks.iter().any(|check| check.lease > 0).then(|| request.checks.as_slice().into());
        let member = Member {
            slot: Rc::downgrade(slot),
            checks: request.checks.len(),
            asks,
            trace: request.traceparent,
            deadline: self.deadline,
        };
        self.waiting.push(Waiting { member, json });
        Ok(())
    }

    /// Takes everything that waits to be sent, in parcels of at most [`MAX_CHECKS`] checks and
    /// [`MAX_BYTES`] bytes. Requests that are gone are left out: nobody is charged for them.
    pub fn take_waiting(&mut self) -> Vec<Parcel> {
        let mut parcels = Vec::new();
        let mut open: Option<(Parcel, usize)> = None;
        for Waiting { member, json } in self.waiting.drain(..) {
            if member.waiting().is_none() {
                continue;
            }
            let fits = |(parcel, checks): &(Parcel, usize)| {
                checks + member.checks <= MAX_CHECKS && parcel.body.len() + 1 + json.len() + TAIL.len() <= MAX_BYTES
            };
            let (mut parcel, checks) = match open.take() {
                Some(full) if !fits(&full) => {
                    parcels.push(full.0);
                    (Parcel::new(self.deadline), 0)
                }
                Some(open) => open,
                None => (Parcel::new(self.deadline), 0),
            };
            if !parcel.members.is_empty() {
                parcel.body.push(',');
            }
            parcel.body.push_str(&json);
            let checks = checks + member.checks;
            parcel.members.push(member);
            open = Some((parcel, checks));
        }
        parcels.extend(open.map(|(parcel, _)| parcel));
        for parcel in &mut parcels {
            parcel.body.push_str(TAIL);
        }
        parcels
    }

    /// Notes that a callout is on its way for these requests.
    pub fn sent(&mut self, token: u32, sent: Sent) {
        self.in_flight.insert(token, sent);
    }

    /// Takes an answered callout. `None` if nobody waits for it any more.
    pub fn take_sent(&mut self, token: u32) -> Option<Sent> {
        self.in_flight.remove(&token)
    }

    /// Takes the requests whose deadline is `now` or earlier. A callout with no other requests is forgotten.
    pub fn expire(&mut self, now: Duration) -> Expired {
        let mut expired = Expired::default();
        let is_late = |member: &Member| member.deadline <= now;
        expired
            .members
            .extend(self.waiting.extract_if(.., |waiting| is_late(&waiting.member)).map(|waiting| waiting.member));
        // A callout's requests stay together, in order: its answer has an entry for each of them. They
        // joined in the same turn, so that their deadlines are the same.
        for (_, sent) in self.in_flight.extract_if(.., |_, sent| sent.deadline <= now) {
            expired.members.extend(sent.members);
            expired.callouts += 1;
        }
        expired
    }
}
