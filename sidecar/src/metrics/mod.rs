//! The sidecar's metrics. Their names and labels come from the configuration and from the lists here, never from
//! traffic: what clients send can't make a series.
//!
//! Whatever is counted per check or per request has its counter in hand already. Looking one up by its labels takes a
//! lock and a hash.

mod config;
mod counters;
mod histogram;
mod policies;
mod store;

use std::time::Instant;

use prometheus_client::encoding::prometheus_text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

pub use config::ConfigMetrics;
pub use counters::{CheckOutcome, Counters, RefundOutcome, ReloadOutcome, RequestOutcome, Status};
pub use histogram::Histogram;
pub use policies::{PolicyCounters, PolicySeries};

use self::counters::Series;
use self::store::StoreCollector;
use crate::store::{Store, StoreError};
use crate::traces::export::{DROPPED, EXPORTED};

/// Checks of one batch.
static BATCH_CHECKS: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

/// Seconds: from a Redis on the same machine to the longest `store_timeout`.
static STORE_SECONDS: [f64; 14] =
    [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 10.0];

/// Everything that is counted.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    policies: PolicySeries,
    config: ConfigMetrics,
    requests: Counters<RequestOutcome>,
    refunds: Counters<RefundOutcome>,
    responses: Counters<Status>,
    batch_checks: Histogram,
    store_seconds: Histogram,
    in_flight: Gauge,
    handshakes_failed: Counter,
}

impl Metrics {
    /// Nothing counted yet.
    pub fn new(store: &Store) -> Self {
        let mut registry = Registry::with_prefix("sluice");
        registry.register("build", "The version that runs", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        let policies = PolicySeries::new(&mut registry);
        let config = ConfigMetrics::new(&mut registry);
        let requests = Series::default();
        registry.register("requests", "Requests, each with all its checks, by what came of them", requests.clone());
        let refunds = Series::default();
        registry.register("refunds", "Charges to be given back, by what came of them", refunds.clone());
        let responses = Series::default();
        registry.register("http_responses", "Answers of the check listener, by HTTP status", responses.clone());
        let batch_checks = Histogram::new(&BATCH_CHECKS);
        registry.register("batch_checks", "Checks that the store was asked about at once", batch_checks.clone());
        let store_seconds = Histogram::new(&STORE_SECONDS);
        let help = "How long the store took for a batch, or until it was given up";
        registry.register_with_unit("store_latency", help, Unit::Seconds, store_seconds.clone());
        let in_flight = Gauge::default();
        registry.register("store_in_flight", "Batches that the store is asked about now", in_flight.clone());
        let handshakes_failed = Counter::default();
        registry.register(
            "tls_handshakes_failed",
            "TLS handshakes that failed or took too long",
            handshakes_failed.clone(),
        );
        registry.register("spans_exported", "Spans that a collector took", EXPORTED.clone());
        registry.register("spans_dropped", "Spans that found no room, or that no collector took", DROPPED.clone());
        registry.register_collector(Box::new(StoreCollector::new(store.clone())));
        Self {
            registry,
            policies,
            config,
            requests: Counters::new(&requests, &[], "outcome"),
            refunds: Counters::new(&refunds, &[], "outcome"),
            responses: Counters::new(&responses, &[], "status"),
            batch_checks,
            store_seconds,
            in_flight,
            handshakes_failed,
        }
    }

    /// What is counted of policies.
    pub fn policies(&self) -> &PolicySeries {
        &self.policies
    }

    /// What is told of the configuration.
    pub fn config(&self) -> &ConfigMetrics {
        &self.config
    }

    /// What came of requests.
    pub fn requests(&self) -> &Counters<RequestOutcome> {
        &self.requests
    }

    /// How long the store took for batches, in seconds.
    pub fn store_seconds(&self) -> &Histogram {
        &self.store_seconds
    }

    /// Where TLS handshakes that fail are counted.
    pub fn handshakes_failed(&self) -> Counter {
        self.handshakes_failed.clone()
    }

    /// Notes what came of so many requests.
    pub fn count_requests(&self, outcome: RequestOutcome, requests: usize) {
        self.requests.add(outcome, requests);
    }

    /// Notes what came of so many refunds.
    pub fn count_refunds(&self, outcome: RefundOutcome, refunds: usize) {
        self.refunds.add(outcome, refunds);
    }

    /// Notes an answer of the check listener.
    pub fn count_response(&self, status: u16) {
        self.responses.add(Status::of(status), 1);
    }

    /// Waits for the store's answer about a batch of so many requests and checks. What nobody waits for any more is
    /// counted as abandoned.
    ///
    /// # Errors
    ///
    /// Those of the answer.
    pub async fn ask<T>(
        &self,
        requests: usize,
        checks: usize,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        #[allow(clippy::cast_precision_loss)] // there are not so many
        self.batch_checks.observe(checks as f64);
        self.in_flight.inc();
        let mut asking = Asking { metrics: self, start: Instant::now(), abandoned: requests };
        let answer = answer.await;
        asking.abandoned = 0;
        answer
    }

    /// All of it, in the text format of Prometheus.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        if prometheus_text::encode(&mut text, &self.registry).is_err() {
            // A String takes everything, and no collector here fails.
            tracing::error!("metrics could not be written");
        }
        text
    }
}

/// A question that is with the store. It ends with its answer, or when nobody waits for that any more.
struct Asking<'a> {
    metrics: &'a Metrics,
    start: Instant,
    abandoned: usize,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.metrics.in_flight.dec();
        self.metrics.store_seconds.observe(self.start.elapsed().as_secs_f64());
        self.metrics.count_requests(RequestOutcome::Abandoned, self.abandoned);
    }
}
