//! What takes spans to the collector: HTTP/1.1, a connection for each batch of them.
//!
//! The clients that OpenTelemetry's library brings would bring half a browser along. This one also knows whether sending
//! works, and says so when that changes.

use std::error::Error;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::uri::PathAndQuery;
use axum::http::{HeaderValue, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::settings::{Settings, TracesError};
use crate::trust::{self, TrustError};

/// How much of an answer is read. A good one is nearly empty.
const ANSWER_BYTES: usize = 64 * 1024;

/// Sends spans.
#[derive(Debug)]
pub(super) struct Client {
    /// A runtime of its own, on the thread that exports: what is slow here takes no time from decisions.
    runtime: Runtime,
    host: String,
    port: u16,
    tls: Option<Tls>,
    timeout: Duration,
    is_failing: AtomicBool,
}

struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tls").field(&self.name).finish()
    }
}

/// Both kinds of connections.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Client {
    /// A client of this collector. It connects when there is something to send.
    ///
    /// # Errors
    ///
    /// If the files of its authorities can't be used.
    pub(super) fn new(settings: &Settings) -> Result<Self, TracesError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| TracesError::Exporter(error.to_string()))?;
        let is_https = settings.endpoint.scheme_str() == Some("https");
        // As a URI has it, an IPv6 address is in brackets.
        let host = settings.endpoint.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let tls = if is_https { Some(tls(&host, settings.ca_file.as_deref())?) } else { None };
        Ok(Self {
            runtime,
            port: settings.endpoint.port_u16().unwrap_or(if is_https { 443 } else { 80 }),
            host,
            tls,
            timeout: settings.timeout,
            is_failing: AtomicBool::new(false),
        })
    }

    async fn send(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let stream = self.connect().await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let authority = request.uri().authority().map_or("", |authority| authority.as_str());
        let host = HeaderValue::try_from(authority)?;
        request.headers_mut().insert(header::HOST, host);
        // A server is asked for a path, a proxy for the whole of it.
        let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::from(path);
        let answer = async {
            let (parts, body) = sender.send_request(request.map(Full::new)).await?.into_parts();
            let body = Limited::new(body, ANSWER_BYTES).collect().await?.to_bytes();
            Ok(Response::from_parts(parts, body))
        }
        .await;
        connection.abort();
        answer
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, io::Error> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        Ok(match &self.tls {
            None => Box::new(stream),
            Some(tls) => Box::new(tls.connector.connect(tls.name.clone(), stream).await?),
        })
    }

    /// Says once that sending fails, or works again.
    fn report(&self, answer: &Result<Response<Bytes>, HttpError>) {
        let why = match answer {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("it answers {}", answer.status())),
            Err(error) => Some(causes(&**error)),
        };
        let collector = format_args!("{}:{}", self.host, self.port);
        if self.is_failing.swap(why.is_some(), Ordering::Relaxed) == why.is_some() {
            return;
        }
        if let Some(why) = why {
            tracing::warn!(%collector, why, "spans can't be exported: they are dropped until that works");
        } else {
            tracing::info!(%collector, "spans are exported again");
        }
    }
}

impl HttpClient for Client {
    // What `async_trait` makes of an `async fn`.
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            // The exporter has a thread of its own, outside of all runtimes.
            let answer = self.runtime.block_on(async {
                let late = |_| HttpError::from(format!("no answer within {} ms", self.timeout.as_millis()));
                timeout(self.timeout, self.send(request)).await.map_err(late)?
            });
            self.report(&answer);
            answer
        })
    }
}

/// An error with what it came of.
fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn tls(host: &str, ca_file: Option<&Path>) -> Result<Tls, TracesError> {
    let config = trust::client(ca_file).map_err(|error| {
        let message = match (&error, ca_file) {
            (TrustError::File(message), Some(path)) => format!("{}: {message}", path.display()),
            (TrustError::Nobody, _) => format!("{error}: name a file with the collector's"),
            _ => return TracesError::Exporter(error.to_string()),
        };
        TracesError::Variable("OTEL_EXPORTER_OTLP_CERTIFICATE", message)
    })?;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| TracesError::Exporter(error.to_string()))?;
    Ok(Tls { connector: TlsConnector::from(Arc::new(config.with_no_client_auth())), name })
}
