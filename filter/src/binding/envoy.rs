//! [`Host`] by Envoy. Only the SDK's plain functions are used: its trait methods unwrap.
//!
//! Even these functions panic at a status they don't expect. None of the calls here can get one: each is
//! made only where Envoy has the map, the buffer or the stream it is about.

use std::rc::Rc;
use std::time::{Duration, Instant};

use proxy_wasm::hostcalls;
use proxy_wasm::types::{BufferType, GrpcStatusCode, LogLevel, MapType, Status as HostStatus};

use super::vm::{self, Queue};
use crate::answer::{Reply, Status};
use crate::headers::Placed;
use crate::host::{Call, HeaderList, Host, HostError};
use crate::metrics::Metric;
use crate::trace::TRACEPARENT;
use crate::worker::CallAnswer;

/// Envoy, as one root context sees it.
pub struct Envoy {
    root: u32,
    queue: Queue,
    metrics: Rc<[u32]>,
    start: Instant,
}

impl Envoy {
    /// Defines the metrics, if the VM has not done so yet, for a root context.
    pub fn new(root: u32) -> Result<Self, HostError> {
        Ok(Self { root, queue: Queue::new(), metrics: vm::metrics()?, start: Instant::now() })
    }
}

/// The answer that a root context's callout has just got.
pub fn call_answer(headers: usize, body: usize) -> Option<CallAnswer> {
    if headers == 0 {
        return None;
    }
    let status = hostcalls::get_map_value_bytes(MapType::HttpCallResponseHeaders, ":status").ok().flatten()?;
    let status = std::str::from_utf8(&status).ok()?.parse().ok()?;
    let body = match body {
        0 => None,
        _ => hostcalls::get_buffer(BufferType::HttpCallResponseBody, 0, body).ok().flatten(),
    };
    Some(CallAnswer { status, body: body.unwrap_or_default() })
}

pub(super) fn error(status: HostStatus) -> HostError {
    match status {
        HostStatus::BadArgument | HostStatus::NotFound => HostError::Unknown,
        _ => HostError::Failed,
    }
}

impl Host for Envoy {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn warn(&self, message: &str) {
        let _ = hostcalls::log(LogLevel::Warn, message); // nobody else to tell
    }

    fn request_headers(&self) -> HeaderList {
        hostcalls::get_map_bytes(MapType::HttpRequestHeaders).unwrap_or_default()
    }

    fn source_address(&self) -> Option<Vec<u8>> {
        self.attribute(&["source", "address"])
    }

    fn attribute(&self, path: &[&str]) -> Option<Vec<u8>> {
        // What can't be serialized is as good as missing.
        hostcalls::get_property(path.to_vec()).ok().flatten()
    }

    fn wake(&self) -> Result<(), HostError> {
        hostcalls::enqueue_shared_queue(self.queue.token()?, Some(b"w")).map_err(error)
    }

    fn drain_wake_ups(&self) {
        // A wake-up is a byte, because the SDK makes no difference between an empty entry and none.
        let Ok(token) = self.queue.token() else { return };
        while let Ok(Some(_)) = hostcalls::dequeue_shared_queue(token) {}
    }

    fn tick_every(&self, period: Duration) {
        let _ = hostcalls::set_tick_period(period); // it is Ok or panics
    }

    fn call(&self, call: Call<'_>) -> Result<u32, HostError> {
        // A callout belongs to the context that is entered, and one that belongs to a request dies with it.
        hostcalls::set_effective_context(self.root).map_err(error)?;
        let mut headers = vec![
            (":method", "POST"),
            (":path", "/v1/check"),
            (":authority", call.authority),
            ("content-type", "application/json"),
        ];
        headers.extend(call.token.map(|token| ("authorization", token.authorization())));
        let trace = call.trace.map(|trace| trace.to_string());
        headers.extend(trace.as_deref().map(|trace| (TRACEPARENT, trace)));
        hostcalls::dispatch_http_call(call.cluster, headers, Some(call.body.as_bytes()), vec![], call.timeout)
            .map_err(error)
    }

    fn remove_request_header(&self, name: &str) {
        let _ = hostcalls::remove_map_value(MapType::HttpRequestHeaders, name); // it is Ok or panics
    }

    fn put_request_header(&self, name: &str, value: &str) {
        let _ = hostcalls::set_map_value(MapType::HttpRequestHeaders, name, Some(value)); // it is Ok or panics
    }

    fn property(&self, name: &str) -> Option<Vec<u8>> {
        hostcalls::get_property(vec![name]).ok().flatten()
    }

    fn set_property(&self, name: &str, value: &str) {
        // One name, not a path: Envoy makes of it the key of a filter state, and the parts of a path would be
        // separated by a byte that no access-log format can hold. It is Ok or panics.
        let _ = hostcalls::set_property(vec![name], Some(value.as_bytes()));
    }

    fn enter(&self, context: u32) -> Result<(), HostError> {
        hostcalls::set_effective_context(context).map_err(error)
    }

    fn resume(&self) {
        let _ = hostcalls::resume_http_request(); // it is Ok or panics
    }

    fn reply(&self, reply: &Reply) {
        let grpc = match reply.status {
            Status::Http(status) => {
                let own = reply.custom.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                let headers = reply.headers.iter().map(|(name, value)| (*name, value.as_str())).chain(own).collect();
                let _ = hostcalls::send_http_response(status.into(), headers, Some(reply.body.as_bytes()));
                return; // it is Ok or panics
            }
            Status::GrpcResourceExhausted => GrpcStatusCode::ResourceExhausted,
            Status::GrpcUnavailable => GrpcStatusCode::Unavailable,
        };
        let metadata = reply.headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let _ = hostcalls::send_grpc_response(grpc, Some(&reply.body), metadata); // it is Ok or panics
    }

    fn put_response_header(&self, name: &str, value: &str, placed: Placed) {
        // It is Ok or panics.
        let _ = match placed {
            Placed::Beside => hostcalls::add_map_value(MapType::HttpResponseHeaders, name, value),
            Placed::InPlace => hostcalls::set_map_value(MapType::HttpResponseHeaders, name, Some(value)),
        };
    }

    fn count(&self, metric: Metric, by: i64) {
        if let Some(&id) = self.metrics.get(metric as usize) {
            let _ = hostcalls::increment_metric(id, by); // a metric that can't be counted stops nobody
        }
    }
}
