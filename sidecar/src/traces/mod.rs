//! Traces: what the sidecar did for a request, told to a collector by OTLP, as part of that request's trace.
//!
//! Off unless the environment names a collector, and then nobody pays for it: what makes spans looks at one flag first.
//! A collector that is slow or away costs spans, never decisions: they wait in a queue with a bound, and a thread of its
//! own sends them.

mod client;
pub mod export;
mod settings;
pub mod span;

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry::{Key, KeyValue, Value};
use opentelemetry_otlp::{Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, ResourceDetector};
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use tracing::{Metadata, Subscriber};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

pub use self::settings::{Sampling, Settings, TracesError};

use self::client::Client;
use self::export::Queue;

/// How long the last spans may take when the process ends.
const FLUSH: Duration = Duration::from_secs(2);

/// The name that spans have among all that `tracing` carries. No module has it, so that no line of a log does.
const TARGET: &str = "sluice-spans";

static MODE: AtomicU8 = AtomicU8::new(OFF);
const OFF: u8 = 0;
/// Only questions that belong to a sampled trace may be recorded.
const FOLLOWING: u8 = 1;
/// Others too.
const WITH_ROOTS: u8 = 2;

fn mode() -> u8 {
    MODE.load(Ordering::Relaxed)
}

/// Whether this belongs into the log: spans don't.
pub fn is_log(metadata: &Metadata<'_>) -> bool {
    metadata.target() != TARGET
}

/// An exporter of spans.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    settings: Settings,
}

impl Traces {
    /// Starts exporting spans, if the environment wants that. [`layer`](Self::layer) is to be part of the subscriber
    /// then. Not to be called inside of a runtime.
    ///
    /// # Errors
    ///
    /// If the environment says something that can't be done.
    pub fn start() -> Result<Option<Self>, TracesError> {
        // A value that is no text can't be meant.
        let Some(settings) = Settings::read(|name| std::env::var(name).ok())? else { return Ok(None) };
        // Headers are read by the library. No feature of it that would log: the client tells what there is to tell.
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(Client::new(&settings)?)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(settings.endpoint.to_string())
            .with_timeout(settings.timeout)
            .build()
            .map_err(|error| TracesError::Exporter(error.to_string()))?;
        let provider = SdkTracerProvider::builder()
            .with_span_processor(Queue::new(exporter, settings.queue))
            .with_sampler(sampler(settings.sampler))
            .with_resource(resource(settings.service.clone()))
            .build();
        let mode = if settings.sampler.has_roots() { WITH_ROOTS } else { FOLLOWING };
        MODE.store(mode, Ordering::Relaxed);
        Ok(Some(Self { provider, settings }))
    }

    /// What makes spans of those of `tracing`.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let layer: OpenTelemetryLayer<S, SdkTracer> = OpenTelemetryLayer::new(self.provider.tracer("sluice"));
        layer
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_target(false)
            .with_filter(filter_fn(|metadata| !is_log(metadata)))
    }

    /// Says where spans go.
    pub fn announce(&self) {
        let Sampling { follows_parent, share } = self.settings.sampler;
        tracing::info!(endpoint = %self.settings.endpoint, follows_parent, share_of_others = share, "spans are exported");
    }

    /// Sends what is left, for up to 2 s. Not to be called inside of a runtime.
    pub fn end(self) {
        if self.provider.shutdown_with_timeout(FLUSH).is_err() {
            tracing::warn!("the last spans were not exported");
        }
    }
}

fn sampler(sampling: Sampling) -> Sampler {
    let others = if sampling.share >= 1.0 {
        Sampler::AlwaysOn
    } else if sampling.has_roots() {
        Sampler::TraceIdRatioBased(sampling.share)
    } else {
        Sampler::AlwaysOff
    };
    if sampling.follows_parent { Sampler::ParentBased(Box::new(others)) } else { others }
}

/// What the environment says of this service, and our name and version where it says nothing.
fn resource(service: Option<String>) -> Resource {
    let environment = EnvResourceDetector::new().detect();
    let told = |name: &'static str| environment.get(&Key::from_static_str(name));
    let name = service.map(Value::from).or_else(|| told("service.name")).unwrap_or_else(|| "sluice".into());
    let version = told("service.version").unwrap_or_else(|| env!("CARGO_PKG_VERSION").into());
    let own = [KeyValue::new("service.name", name), KeyValue::new("service.version", version)];
    Resource::builder().with_attributes(own).build()
}
