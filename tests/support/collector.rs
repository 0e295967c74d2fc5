//! A collector of spans: takes what OTLP/HTTP sends, and remembers it.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::serve::ListenerExt;
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prometheus_client::metrics::counter::Counter;
use prost::Message;
use sluice::config::Tls;
use sluice::reload::Reloaded;
use sluice::tls::{self, TlsListener};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::rustls::ServerConfig;

use super::{Certificate, Port, eventually};

/// A running collector.
#[derive(Debug)]
pub struct Collector {
    endpoint: String,
    _port: Port,
    taken: Arc<Mutex<Taken>>,
    server: JoinHandle<()>,
}

/// What it was sent.
#[derive(Debug, Default)]
struct Taken {
    connections: usize,
    headers: Vec<HeaderMap>,
    requests: Vec<ExportTraceServiceRequest>,
    /// What it answers.
    status: StatusCode,
}

impl Collector {
    pub async fn start() -> Self {
        Self::start_on(Port::free()).await
    }

    /// On a port where there was none before.
    pub async fn start_on(port: Port) -> Self {
        Self::start_by(port, None).await
    }

    /// One that speaks TLS. Its files are kept in this directory.
    pub async fn start_with_tls(certificate: &Certificate, directory: &TempDir) -> Self {
        let file = |name: &str, text: &str| {
            let file = directory.path().join(name);
            std::fs::write(&file, text).unwrap();
            file
        };
        let (cert_file, key_file) = (file("collector.crt", &certificate.pem), file("collector.key", &certificate.key));
        let tls = tls::config(&Tls { cert_file, key_file, client_ca_file: None }).unwrap();
        Self::start_by(Port::free(), Some(tls)).await
    }

    async fn start_by(port: Port, tls: Option<Reloaded<ServerConfig>>) -> Self {
        let taken = Arc::new(Mutex::new(Taken::default()));
        let listener = TcpListener::bind(("127.0.0.1", port.number())).await.unwrap();
        let counted = Arc::clone(&taken);
        let listener = listener.tap_io(move |_| counted.lock().unwrap().connections += 1);
        let routes = Router::new().route("/v1/traces", post(take)).with_state(Arc::clone(&taken));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let endpoint = format!("{scheme}://127.0.0.1:{}", port.number());
        let server = tokio::spawn(async move {
            match tls {
                None => axum::serve(listener, routes).await.unwrap(),
                Some(tls) => axum::serve(TlsListener::new(listener, tls, Counter::default()), routes).await.unwrap(),
            }
        });
        Self { endpoint, taken, server, _port: port }
    }

    /// The variable that has spans sent here.
    pub fn endpoint(&self) -> (&'static str, String) {
        ("OTEL_EXPORTER_OTLP_ENDPOINT", self.endpoint.clone())
    }

    /// Answers with this status from now on.
    pub fn set(&self, status: StatusCode) {
        self.taken.lock().unwrap().status = status;
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        self.taken.lock().unwrap().connections
    }

    /// The headers of what was sent last.
    pub fn headers(&self) -> HeaderMap {
        self.taken.lock().unwrap().headers.last().unwrap().clone()
    }

    /// What is said of the service that sent the last spans.
    pub fn resource(&self) -> Vec<(String, String)> {
        let taken = self.taken.lock().unwrap();
        let spans = &taken.requests.last().unwrap().resource_spans[0];
        texts(&spans.resource.as_ref().unwrap().attributes)
    }

    /// All spans so far.
    pub fn spans(&self) -> Vec<Told> {
        let taken = self.taken.lock().unwrap();
        let scopes =
            taken.requests.iter().flat_map(|request| &request.resource_spans).flat_map(|spans| &spans.scope_spans);
        scopes.flat_map(|scope| &scope.spans).cloned().map(Told).collect()
    }

    /// Waits for the spans of a trace, until there are so many.
    pub async fn spans_of(&self, trace: &str, count: usize) -> Vec<Told> {
        eventually("the spans of a trace arrive", async || {
            let spans: Vec<_> = self.spans().into_iter().filter(|span| span.trace() == trace).collect();
            (spans.len() >= count).then_some(spans)
        })
        .await
    }

    /// Everything that was sent, as text.
    pub fn text(&self) -> String {
        format!("{:?}", self.taken.lock().unwrap().requests)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn take(State(taken): State<Arc<Mutex<Taken>>>, headers: HeaderMap, body: Bytes) -> (StatusCode, Vec<u8>) {
    let mut taken = taken.lock().unwrap();
    if taken.status.is_success() {
        taken.requests.push(ExportTraceServiceRequest::decode(body).unwrap());
        taken.headers.push(headers);
    }
    (taken.status, ExportTraceServiceResponse::default().encode_to_vec())
}

/// A span.
#[derive(Debug, Clone)]
pub struct Told(Span);

impl Told {
    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub fn trace(&self) -> String {
        hex(&self.0.trace_id)
    }

    pub fn id(&self) -> String {
        hex(&self.0.span_id)
    }

    /// The span above it; empty if there is none.
    pub fn parent(&self) -> String {
        hex(&self.0.parent_span_id)
    }

    pub fn is_error(&self) -> bool {
        self.0.status.as_ref().is_some_and(|status| status.code == 2)
    }

    /// The traces and spans that it is linked to.
    pub fn links(&self) -> Vec<(String, String)> {
        self.0.links.iter().map(|link| (hex(&link.trace_id), hex(&link.span_id))).collect()
    }

    /// An attribute, as text.
    pub fn attribute(&self, name: &str) -> Option<String> {
        texts(&self.0.attributes).into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The names of all attributes, in order.
    pub fn attributes(&self) -> Vec<String> {
        let mut names: Vec<_> = texts(&self.0.attributes).into_iter().map(|(name, _)| name).collect();
        names.sort();
        names
    }
}

fn texts(attributes: &[KeyValue]) -> Vec<(String, String)> {
    let text = |attribute: &KeyValue| {
        let value = match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
            Some(Value::StringValue(text)) => text.clone(),
            Some(Value::IntValue(number)) => number.to_string(),
            other => format!("{other:?}"),
        };
        (attribute.key.clone(), value)
    };
    attributes.iter().map(text).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
