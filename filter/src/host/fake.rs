//! A host for tests and for fuzzing: it answers from its fields and writes down what it was asked to do.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Call, HeaderList, Host, HostError};
use crate::answer::Reply;
use crate::headers::Placed;
use crate::metrics::Metric;
use crate::trace::TraceContext;

/// Something the filter did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Did {
    Wake,
    Drain,
    Tick(Duration),
    Call { token: u32, body: String },
    Resume(u32),
    Reply(u32, Reply),
}

/// A host for tests.
#[derive(Debug, Default)]
pub struct FakeHost {
    pub now: Cell<Duration>,
    pub headers: RefCell<HeaderList>,
    pub source: RefCell<Option<Vec<u8>>>,
    /// By their paths, joined by spaces.
    pub attributes: RefCell<BTreeMap<String, Vec<u8>>>,
    /// What of the current request was asked for.
    pub asked: RefCell<Vec<String>>,
    pub no_queue: Cell<bool>,
    pub call_error: Cell<Option<HostError>>,
    /// Contexts that `enter` refuses.
    pub gone: RefCell<BTreeSet<u32>>,
    /// The context that is entered.
    pub context: Cell<u32>,
    pub tokens: Cell<u32>,
    /// The `Authorization` of the last callout.
    pub authorization: RefCell<Option<String>>,
    /// The trace of the last callout.
    pub trace: Cell<Option<TraceContext>>,
    pub did: RefCell<Vec<Did>>,
    pub warnings: RefCell<Vec<String>>,
    pub counts: RefCell<BTreeMap<Metric, i64>>,
    pub removed: RefCell<Vec<String>>,
    /// Headers put on requests, with the request's number.
    pub put: RefCell<Vec<(u32, String, String)>>,
    pub properties: RefCell<BTreeMap<(u32, String), String>>,
}

impl FakeHost {
    /// A host whose current request has these headers.
    pub fn with(headers: &[(&str, &[u8])]) -> Self {
        let host = Self::default();
        host.set_headers(headers);
        host
    }

    /// Sets the headers of the current request.
    pub fn set_headers(&self, headers: &[(&str, &[u8])]) {
        *self.headers.borrow_mut() = headers.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect();
    }

    /// Everything done since it was last asked.
    pub fn take(&self) -> Vec<Did> {
        std::mem::take(&mut self.did.borrow_mut())
    }

    /// A metric's value.
    pub fn counted(&self, metric: Metric) -> i64 {
        self.counts.borrow().get(&metric).copied().unwrap_or(0)
    }

    /// A property of one request.
    pub fn property_of(&self, context: u32, name: &str) -> Option<String> {
        self.properties.borrow().get(&(context, name.to_owned())).cloned()
    }

    fn note(&self, did: Did) {
        self.did.borrow_mut().push(did);
    }
}

impl Host for FakeHost {
    fn now(&self) -> Duration {
        self.now.get()
    }

    fn warn(&self, message: &str) {
        self.warnings.borrow_mut().push(message.to_owned());
    }

    fn request_headers(&self) -> HeaderList {
        self.asked.borrow_mut().push("headers".to_owned());
        self.headers.borrow().clone()
    }

    fn source_address(&self) -> Option<Vec<u8>> {
        self.asked.borrow_mut().push("source".to_owned());
        self.source.borrow().clone()
    }

    fn attribute(&self, path: &[&str]) -> Option<Vec<u8>> {
        let path = path.join(" ");
        self.asked.borrow_mut().push(path.clone());
        self.attributes.borrow().get(&path).cloned()
    }

    fn wake(&self) -> Result<(), HostError> {
        if self.no_queue.get() {
            return Err(HostError::Unknown);
        }
        self.note(Did::Wake);
        Ok(())
    }

    fn drain_wake_ups(&self) {
        self.note(Did::Drain);
    }

    fn tick_every(&self, period: Duration) {
        self.note(Did::Tick(period));
    }

    fn call(&self, call: Call<'_>) -> Result<u32, HostError> {
        if let Some(error) = self.call_error.get() {
            return Err(error);
        }
        self.tokens.set(self.tokens.get() + 1);
        let token = self.tokens.get();
        *self.authorization.borrow_mut() = call.token.map(|token| token.authorization().to_owned());
        self.trace.set(call.trace);
        self.note(Did::Call { token, body: call.body.to_owned() });
        Ok(token)
    }

    fn remove_request_header(&self, name: &str) {
        self.removed.borrow_mut().push(name.to_owned());
    }

    fn put_request_header(&self, name: &str, value: &str) {
        self.put.borrow_mut().push((self.context.get(), name.to_owned(), value.to_owned()));
    }

    fn property(&self, name: &str) -> Option<Vec<u8>> {
        self.asked.borrow_mut().push(name.to_owned());
        self.property_of(self.context.get(), name).map(String::into_bytes)
    }

    fn set_property(&self, name: &str, value: &str) {
        self.properties.borrow_mut().insert((self.context.get(), name.to_owned()), value.to_owned());
    }

    fn enter(&self, context: u32) -> Result<(), HostError> {
        if self.gone.borrow().contains(&context) {
            return Err(HostError::Unknown);
        }
        self.context.set(context);
        Ok(())
    }

    fn resume(&self) {
        self.note(Did::Resume(self.context.get()));
    }

    fn reply(&self, reply: &Reply) {
        self.note(Did::Reply(self.context.get(), reply.clone()));
    }

    fn put_response_header(&self, _name: &str, _value: &str, _placed: Placed) {}

    fn count(&self, metric: Metric, by: i64) {
        *self.counts.borrow_mut().entry(metric).or_default() += by;
    }
}
