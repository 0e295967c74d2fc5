//! What the filter needs of its host, as a trait: the binding implements it with Envoy's functions, the
//! tests with a fake.

use std::time::Duration;

use crate::answer::Reply;
use crate::headers::Placed;
use crate::metrics::Metric;
use crate::token::Token;
use crate::trace::TraceContext;

#[cfg(any(test, feature = "fuzzing"))]
#[cfg_attr(not(test), allow(dead_code))] // fuzzing asks less of it than tests do
pub(crate) mod fake;

/// Header names and values as the host gives them: names in lower case, values as bytes, repeated
/// headers as repeated entries.
pub type HeaderList = Vec<(String, Vec<u8>)>;

/// Why the host refused a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The host knows nothing of that name: a cluster, a queue, a context.
    #[error("unknown to the host")]
    Unknown,
    /// The host knows it and failed at once, such as a call to a cluster without an endpoint.
    #[error("failed at once")]
    Failed,
}

/// One callout to the sidecar.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The Envoy cluster of the sidecar.
    pub cluster: &'a str,
    /// The `:authority` to send.
    pub authority: &'a str,
    /// What the sidecar wants to see of us.
    pub token: Option<&'a Token>,
    /// The trace of the first of its requests that has one, for whoever is between here and the sidecar.
    pub trace: Option<TraceContext>,
    /// The body of `POST /v1/check`.
    pub body: &'a str,
    /// After this long the host gives up.
    pub timeout: Duration,
}

/// The host's functions. None of them may call back into the filter before returning.
pub trait Host {
    /// A monotonic clock, since some fixed moment.
    fn now(&self) -> Duration;

    /// Writes one line to the host's log: something failed, and the filter went on as configured.
    fn warn(&self, message: &str);

    /// All headers of the current request.
    fn request_headers(&self) -> HeaderList;

    /// Where the current request comes from, as `address:port`: the host's own idea of the client, after
    /// whatever it is configured to believe of `x-forwarded-for`.
    fn source_address(&self) -> Option<Vec<u8>>;

    /// One of the host's attributes of the current request, as bytes: texts as they are, numbers in 8 bytes, little
    /// end first, truth values in one. `None` if there is none.
    fn attribute(&self, path: &[&str]) -> Option<Vec<u8>>;

    /// Asks the host to run the worker's `wake_up` later in this turn of the event loop.
    ///
    /// # Errors
    /// When the host has no queue of ours: nothing will be run.
    fn wake(&self) -> Result<(), HostError>;

    /// Takes back every wake-up asked for so far.
    fn drain_wake_ups(&self);

    /// Runs the worker's `tick` every `period`; zero stops it.
    fn tick_every(&self, period: Duration);

    /// Sends a callout, and returns the token its answer will carry.
    ///
    /// # Errors
    /// When there is no such cluster or the callout failed at once: no answer will come.
    fn call(&self, call: Call<'_>) -> Result<u32, HostError>;

    /// Removes every copy of a header from the current request.
    fn remove_request_header(&self, name: &str);

    /// Puts one header on the entered request, in place of any of that name. Only before it is resumed.
    fn put_request_header(&self, name: &str, value: &str);

    /// A property that this filter, or another instance of it, set on the current request.
    fn property(&self, name: &str) -> Option<Vec<u8>>;

    /// Sets a property of the entered, or the current, request, for access logs to read.
    fn set_property(&self, name: &str, value: &str);

    /// Makes `context`, a request, the one that [`resume`](Self::resume) and [`reply`](Self::reply)
    /// work on.
    ///
    /// # Errors
    /// When the request is gone.
    fn enter(&self, context: u32) -> Result<(), HostError>;

    /// Lets the entered request go on.
    fn resume(&self);

    /// Answers the entered, or the current, request.
    fn reply(&self, reply: &Reply);

    /// Puts one header on the current response.
    fn put_response_header(&self, name: &str, value: &str, placed: Placed);

    /// Adds to a counter or a gauge.
    fn count(&self, metric: Metric, by: i64);
}
