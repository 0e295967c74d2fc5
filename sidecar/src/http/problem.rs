//! What can go wrong with a request to the sidecar, and the one place that makes a status of it.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::admin::Forbidden;
use crate::config::ConfigError;
use crate::engine::{CheckProblem, LookError, RefundError, RequestProblem};
use crate::store::StoreError;

/// Why a request to the sidecar is not answered with a decision. The texts name the field and say what to
/// do.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The body is larger than allowed.
    #[error("the body: more than {0} bytes (limits.body_bytes)")]
    LargeBody(usize),
    /// The body did not arrive in time.
    #[error("the body: not all of it came within {} s", .0.as_secs())]
    SlowBody(Duration),
    /// The body broke off.
    #[error("the body: cannot be read: {0}")]
    BrokenBody(axum::Error),
    /// The body is not a batch at all.
    #[error("{field}: {message}")]
    Malformed {
        /// The path of the field.
        field: String,
        /// What is wrong with it.
        message: String,
    },
    /// More checks than a batch may have.
    #[error("{0}: {1} checks, but a batch may have at most {2} (limits.batch_checks): send several batches")]
    LargeBatch(&'static str, usize, usize),
    /// A query parameter or a path segment is not as it must be.
    #[error("{0}")]
    BadUrl(&'static str),
    /// The one request of a single check can't be decided.
    #[error(transparent)]
    Request(#[from] RequestProblem),
    /// Charges can't be given back.
    #[error(transparent)]
    Refund(#[from] RefundError),
    /// The store can't decide.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No token, or none that is known.
    #[error("the token: none, or not one of {0}: send Authorization: Bearer TOKEN")]
    Unauthorized(&'static str),
    /// The admin API is not for whoever asks, or not like this.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// A key can't be looked at.
    #[error(transparent)]
    Look(#[from] LookError),
    /// The configuration file is no good. What was in force before stays.
    #[error("{0}; what was read before stays in force")]
    Reload(#[from] ConfigError),
    /// Too many look at the same time.
    #[error("{0} streams of events are open already: close one, or ask /v1/status")]
    TooManyStreams(usize),
    /// No such route.
    #[error("there is nothing at {0}: {1}")]
    NotFound(String, &'static str),
    /// Not this method.
    #[error("this path does not take this method")]
    MethodNotAllowed,
}

impl ApiError {
    /// The status and the title of a problem.
    pub(super) fn status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::LargeBody(_) | Self::LargeBatch(..) => (StatusCode::PAYLOAD_TOO_LARGE, "too large"),
            Self::SlowBody(_) => (StatusCode::REQUEST_TIMEOUT, "too slow"),
            Self::BrokenBody(_) | Self::Malformed { .. } | Self::BadUrl(_) => {
                (StatusCode::BAD_REQUEST, "malformed request")
            }
            Self::Request(problem) => problem.status(),
            Self::Refund(RefundError::Refund(_, problem)) | Self::Look(LookError::Check(problem)) => problem.status(),
            Self::Look(LookError::UnknownPolicy(..)) => (StatusCode::NOT_FOUND, "unknown policy"),
            Self::Look(LookError::Store(_)) => (StatusCode::SERVICE_UNAVAILABLE, "no answer from the store"),
            Self::Reload(_) => (StatusCode::UNPROCESSABLE_ENTITY, "not a configuration"),
            Self::TooManyStreams(_) => (StatusCode::SERVICE_UNAVAILABLE, "too many streams"),
            Self::Store(_) | Self::Refund(RefundError::Store(_)) => (StatusCode::SERVICE_UNAVAILABLE, "no decision"),
            Self::Unauthorized(_) => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, "forbidden"),
            Self::NotFound(..) => (StatusCode::NOT_FOUND, "not found"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "method not allowed"),
        }
    }
}

impl RequestProblem {
    /// The status and the title of a problem.
    pub(super) fn status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::NoChecks | Self::TooManyChecks(..) => (StatusCode::BAD_REQUEST, "malformed request"),
            Self::Check(_, problem) => problem.status(),
        }
    }
}

impl CheckProblem {
    fn status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::UnknownPolicy(_) => (StatusCode::NOT_FOUND, "unknown policy"),
            Self::LongKey(..) | Self::Cost(_) | Self::Lease(_) => (StatusCode::BAD_REQUEST, "malformed request"),
        }
    }
}

/// A problem, RFC 9457.
#[derive(Serialize)]
struct Problem {
    title: &'static str,
    status: u16,
    detail: String,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, title) = self.status();
        let mut response =
            (status, Json(Problem { title, status: status.as_u16(), detail: self.to_string() })).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }
}

pub(super) async fn not_found(uri: Uri) -> ApiError {
    ApiError::NotFound(uri.path().to_owned(), "see POST /v1/check, /v1/check/POLICY/KEY, /livez and /readyz")
}

pub(super) async fn not_found_here(uri: Uri) -> ApiError {
    ApiError::NotFound(
        uri.path().to_owned(),
        "see / with a browser, /metrics, /livez, /readyz and /v1/status; decisions are made on the other port",
    )
}

pub(super) async fn method_not_allowed() -> ApiError {
    ApiError::MethodNotAllowed
}
