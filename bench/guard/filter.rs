//! The filter's side of a request, everything but the host's own work: rules, keys, the batch, the answer, headers.

use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::time::Duration;

use serde_json::{Value, json};
use sluice_filter::Config;
use sluice_filter::answer::Reply;
use sluice_filter::batch::State;
use sluice_filter::headers::Placed;
use sluice_filter::host::{Call, HeaderList, Host, HostError};
use sluice_filter::metrics::Metric;
use sluice_filter::worker::{CallAnswer, Start, Worker};

/// A host that does as little as possible, and notes what the cases ask for.
#[derive(Default)]
struct Quiet {
    headers: HeaderList,
    tokens: Cell<u32>,
    resumed: Cell<u32>,
    replied: Cell<u32>,
    body: RefCell<String>,
}

impl Host for Quiet {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn warn(&self, message: &str) {
        panic!("{message}");
    }
    fn request_headers(&self) -> HeaderList {
        self.headers.clone() // Envoy's are copied too
    }
    fn source_address(&self) -> Option<Vec<u8>> {
        None
    }
    fn attribute(&self, _path: &[&str]) -> Option<Vec<u8>> {
        None
    }
    fn wake(&self) -> Result<(), HostError> {
        Ok(())
    }
    fn drain_wake_ups(&self) {}
    fn tick_every(&self, _period: Duration) {}
    fn call(&self, call: Call<'_>) -> Result<u32, HostError> {
        call.body.clone_into(&mut self.body.borrow_mut());
        self.tokens.set(self.tokens.get() + 1);
        Ok(self.tokens.get())
    }
    fn remove_request_header(&self, _name: &str) {}
    fn put_request_header(&self, _name: &str, _value: &str) {}
    fn property(&self, _name: &str) -> Option<Vec<u8>> {
        None
    }
    fn set_property(&self, _name: &str, _value: &str) {}
    fn enter(&self, _context: u32) -> Result<(), HostError> {
        Ok(())
    }
    fn resume(&self) {
        self.resumed.set(self.resumed.get() + 1);
    }
    fn reply(&self, reply: &Reply) {
        black_box(reply);
        self.replied.set(self.replied.get() + 1);
    }
    fn put_response_header(&self, _name: &str, _value: &str, _placed: Placed) {}
    fn count(&self, _metric: Metric, _by: i64) {}
}

/// A request as curl and a proxy make it.
fn host() -> Quiet {
    let headers = [
        (":authority", "api.example.com"),
        (":path", "/api/v1/reports?page=2"),
        (":method", "GET"),
        (":scheme", "https"),
        ("user-agent", "curl/8.5.0"),
        ("accept", "*/*"),
        ("x-key", "key-0000042"),
        ("x-forwarded-for", "203.0.113.7"),
        ("x-forwarded-proto", "https"),
        ("x-request-id", "6b1f0ab4-7a57-4b0d-9c53-0b7f0c6a9c5e"),
    ];
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.as_bytes().to_vec());
    Quiet { headers: headers.into_iter().map(owned).collect(), ..Quiet::default() }
}

fn worker(prefix: &str, checks: usize) -> Worker {
    let check = |policy| json!({"policy": policy, "key": [{"header": "x-key"}]});
    let checks: Vec<Value> = ["per-tenant", "per-day"].into_iter().take(checks).map(check).collect();
    let config = json!({"sidecar": {"cluster": "sluice"}, "rules": [
        {"match": {"path": {"exact": "/healthz"}}, "exempt": true},
        {"match": {"path": {"prefix": prefix}}, "checks": checks},
    ]});
    Worker::new(Config::parse(config.to_string().as_bytes()).unwrap())
}

/// The sidecar's answer to a batch.
fn answer(requests: usize, checks: usize, allowed: bool) -> CallAnswer {
    let verdict = |policy| {
        json!({"policy": policy, "allowed": allowed, "limit": 100, "period_ms": 60_000, "remaining": 42,
            "reset_ms": 34_800, "retry_after_ms": if allowed { 0 } else { 600 }})
    };
    let checks: Vec<Value> = ["per-tenant", "per-day"].into_iter().take(checks).map(verdict).collect();
    let decisions = vec![json!({"allowed": allowed, "checks": checks}); requests];
    CallAnswer { status: 200, body: json!({"decisions": decisions}).to_string().into_bytes() }
}

pub fn no_rule(count: u32) {
    let (host, mut worker) = (host(), worker("/elsewhere/", 1));
    for context in 0..count {
        assert!(matches!(worker.request(&host, context), Start::Pass));
    }
}

/// Batches of `requests` requests, from their headers to the fields of their responses.
pub fn allowed(count: u32, requests: u32, checks: usize) {
    let (host, mut worker) = (host(), worker("/api/", checks));
    let answer = answer(requests as usize, checks, true);
    for _ in 0..count {
        let wait = |context| match worker.request(&host, context) {
            Start::Wait(slot) => slot,
            other => panic!("{other:?}"),
        };
        let slots: Vec<_> = (0..requests).map(wait).collect();
        worker.wake_up(&host);
        worker.answered(&host, host.tokens.get(), Some(answer.clone()));
        for slot in slots {
            assert!(matches!(&slot.borrow().state, State::Resumed(fields) if fields.len() == 2));
        }
    }
    assert_eq!(host.resumed.get(), count * requests);
}

pub fn denied_locally(count: u32) {
    let (host, mut worker) = (host(), worker("/api/", 1));
    let first = worker.request(&host, 0);
    worker.wake_up(&host);
    worker.answered(&host, host.tokens.get(), Some(answer(1, 1, false)));
    drop(first);
    for context in 0..count {
        assert!(matches!(worker.request(&host, context), Start::Stop));
    }
    assert_eq!(host.replied.get(), 1 + count);
}

/// Requests that what is leased pays for: the first few make the key a busy one.
pub fn leased(count: u32) {
    let (host, mut worker) = (host(), worker("/api/", 1));
    let granted = json!({"policy": "per-tenant", "allowed": true, "limit": 100, "period_ms": 60_000, "remaining": 42,
        "reset_ms": 34_800, "retry_after_ms": 0, "lease": {"granted": 1_000_000_000, "ttl_ms": 60_000, "charge": 7}});
    let body = json!({"decisions": [{"allowed": true, "checks": [granted]}]}).to_string().into_bytes();
    for context in 0..10 {
        let start = worker.request(&host, context);
        if matches!(start, Start::Wait(_)) {
            worker.wake_up(&host);
            worker.answered(&host, host.tokens.get(), Some(CallAnswer { status: 200, body: body.clone() }));
        }
    }
    for context in 0..count {
        assert!(matches!(worker.request(&host, context), Start::Go(fields) if fields.len() == 2));
    }
}
