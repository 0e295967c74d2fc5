//! A small HTTP/1.1 client.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// Longer than any deadline in any test.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client with connections that it keeps.
#[derive(Debug, Clone)]
pub struct Client(hyper_util::client::legacy::Client<HttpConnector, Body>);

impl Client {
    pub fn new() -> Self {
        Self(hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build_http())
    }

    /// A client with a new connection for each request.
    pub fn without_pool() -> Self {
        let mut builder = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
        Self(builder.pool_max_idle_per_host(0).build_http())
    }

    /// `GET`, which must be answered.
    pub async fn get(&self, port: u16, path: &str, headers: &[(&str, &str)]) -> Answer {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        self.get_bytes(port, path, &headers).await
    }

    /// `GET` with header values that need not be text.
    pub async fn get_bytes(&self, port: u16, path: &str, headers: &[(&str, &[u8])]) -> Answer {
        let mut request = Request::get(url(port, path));
        for (name, value) in headers {
            request = request.header(*name, HeaderValue::from_bytes(value).unwrap());
        }
        self.send(request.body(Body::empty()).unwrap()).await.unwrap_or_else(|error| panic!("GET {path}: {error}"))
    }

    /// Whether `GET` is answered with 200 by now.
    pub async fn is_ready(&self, port: u16, path: &str) -> bool {
        let request = Request::get(url(port, path)).body(Body::empty()).unwrap();
        self.send(request).await.is_ok_and(|answer| answer.is_allowed())
    }

    /// A request without a body, which must be answered.
    pub async fn request(&self, method: &str, port: u16, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::builder().method(method).uri(url(port, path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        self.send(request).await.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// `POST`, which must be answered.
    pub async fn post(&self, port: u16, path: &str, body: impl Into<Body>) -> Answer {
        let request = Request::post(url(port, path)).body(body.into()).unwrap();
        self.send(request).await.unwrap_or_else(|error| panic!("POST {path}: {error}"))
    }

    /// Sends a request; the error is why there was no answer. No answer for long is one as well: a request that nobody
    /// resumes fails its test instead of hanging it.
    pub async fn send(&self, request: Request<Body>) -> Result<Answer, String> {
        tokio::time::timeout(PATIENCE, self.exchange(request)).await.map_err(|_| format!("not within {PATIENCE:?}"))?
    }

    async fn exchange(&self, request: Request<Body>) -> Result<Answer, String> {
        let response = self.0.request(request).await.map_err(|error| format!("{error:?}"))?;
        let (parts, body) = response.into_parts();
        let body = to_bytes(Body::new(body), usize::MAX).await.map_err(|error| format!("{error:?}"))?;
        Ok(Answer { status: parts.status, headers: parts.headers, body })
    }
}

fn url(port: u16, path: &str) -> String {
    format!("http://127.0.0.1:{port}{path}")
}

/// A whole response.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn is_allowed(&self) -> bool {
        self.status == StatusCode::OK
    }

    /// The one value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?;
        assert!(values.next().is_none(), "{name} is there twice: {self:?}");
        Some(value.to_str().unwrap())
    }

    /// The policy, and the `r` parameter, of `RateLimit: "policy";r=1;t=2`.
    pub fn rate_limit(&self) -> (&str, u64) {
        let field = self.header("ratelimit").unwrap_or_else(|| panic!("no RateLimit header: {self:?}"));
        let mut parts = field.split(';');
        let policy = parts.next().unwrap().trim_matches('"');
        let remaining = parts.find_map(|part| part.strip_prefix("r=")).unwrap();
        (policy, remaining.parse().unwrap())
    }

    /// `Retry-After`, in seconds.
    pub fn retry_after(&self) -> u64 {
        let value = self.header("retry-after").unwrap_or_else(|| panic!("no Retry-After: {self:?}"));
        value.parse().unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}
