//! Counts what becomes of spans: OpenTelemetry's library drops what doesn't fit into its queue, and tells nobody.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor};
use prometheus_client::metrics::counter::Counter;

/// Spans that a collector took.
pub static EXPORTED: LazyLock<Counter> = LazyLock::new(Counter::default);

/// Spans that did not fit into the queue, or that the collector did not take.
pub static DROPPED: LazyLock<Counter> = LazyLock::new(Counter::default);

/// A queue of spans with a bound, emptied by a thread of its own.
#[derive(Debug)]
pub(super) struct Queue {
    batches: BatchSpanProcessor,
    waiting: Arc<AtomicUsize>,
    size: usize,
}

impl Queue {
    /// A queue of so many spans.
    pub(super) fn new<E: SpanExporter + 'static>(exporter: E, size: usize) -> Self {
        let waiting = Arc::new(AtomicUsize::new(0));
        let exporter = Counted { exporter, waiting: Arc::clone(&waiting) };
        Self { batches: BatchSpanProcessor::builder(exporter).build(), waiting, size }
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        let more = |waiting| (waiting < self.size).then_some(waiting + 1);
        if self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok() {
            self.batches.on_end(span);
        } else {
            DROPPED.inc();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}

/// An exporter whose spans are counted.
#[derive(Debug)]
struct Counted<E> {
    exporter: E,
    waiting: Arc<AtomicUsize>,
}

impl<E: SpanExporter> SpanExporter for Counted<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        self.waiting.fetch_sub(count, Ordering::Relaxed);
        let result = self.exporter.export(batch).await;
        let counter = if result.is_ok() { &EXPORTED } else { &DROPPED };
        counter.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
