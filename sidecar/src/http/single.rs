//! `/v1/check/{policy}/{key}`: one check, for curl and for other gateways. POST takes, GET peeks.
//!
//! The answer is that of a rate-limited service itself: 200 or 429, with real rate-limit headers.

use std::sync::Arc;

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use sluice_filter::answer;
use sluice_filter::headers::{self, Dialect};
use sluice_filter::wire::{Check, Decision, Request};
use tracing::{Instrument, Span};

use super::{ApiError, App, path};
use crate::traces::span;

/// Both dialects: the caller is not known.
const DIALECTS: [Dialect; 2] = [Dialect::Ietf, Dialect::XRateLimit];

/// As traces have it: a path has a key in it.
const ROUTE: &str = "/v1/check/{policy}/{key}";

const PATH: &str = "/v1/check/";

pub(super) async fn check(
    State(app): State<Arc<App>>,
    OriginalUri(uri): OriginalUri,
    asked: axum::extract::Request,
) -> Result<Response, ApiError> {
    let request = Request { checks: vec![parse(&uri)?], refundable: true, traceparent: None };
    let span = span::question("POST", ROUTE, asked.headers(), None);
    traced(span, decide(&app, &request), |decision| if decision.allowed { allowed(decision) } else { denied(decision) })
        .await
}

pub(super) async fn peek(
    State(app): State<Arc<App>>,
    OriginalUri(uri): OriginalUri,
    asked: axum::extract::Request,
) -> Result<Response, ApiError> {
    let mut check = parse(&uri)?;
    check.cost = 0;
    let request = Request { checks: vec![check], ..Request::default() };
    let span = span::question("GET", ROUTE, asked.headers(), None);
    traced(span, decide(&app, &request), allowed).await
}

async fn decide(app: &App, request: &Request) -> Result<Decision, ApiError> {
    match app.engine.decide(&app.engine.in_force(), [request]).await?.into_iter().next() {
        Some(decision) => Ok(decision?),
        None => Err(ApiError::Store(crate::store::StoreError::Malformed("no decision"))),
    }
}

/// Answers with a decision, and notes it on its span.
async fn traced(
    span: Span,
    decision: impl Future<Output = Result<Decision, ApiError>>,
    answer: impl FnOnce(&Decision) -> Response,
) -> Result<Response, ApiError> {
    match decision.instrument(span.clone()).await {
        Ok(decision) => {
            let response = answer(&decision);
            span::one_decided(&span, &decision, response.status());
            Ok(response)
        }
        Err(error) => {
            span::answered(&span, error.status().0);
            Err(error)
        }
    }
}

fn allowed(decision: &Decision) -> Response {
    let response = (StatusCode::OK, Json(decision.checks.first())).into_response();
    let shown = headers::shown(&decision.checks, true);
    with_fields(response, shown.map(|verdict| headers::fields(verdict, &DIALECTS)).unwrap_or_default())
}

fn denied(decision: &Decision) -> Response {
    let reply = answer::denied(&decision.checks, &DIALECTS, false);
    let mut response = (StatusCode::TOO_MANY_REQUESTS, reply.body).into_response();
    response.headers_mut().remove(header::CONTENT_TYPE);
    with_fields(response, reply.headers)
}

fn with_fields(mut response: Response, fields: Vec<headers::Field>) -> Response {
    for (name, value) in fields {
        // A name of a policy is made of letters, digits and "_.-": every value can be a header.
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

fn parse(uri: &Uri) -> Result<Check, ApiError> {
    let (policy, key) = path::policy_and_key(uri, PATH)?;
    Ok(Check { policy, key, cost: path::cost(uri, 1)?, lease: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(uri: &str) -> Result<Check, ApiError> {
        parse(&uri.parse().unwrap())
    }

    #[test]
    fn the_path_is_a_policy_and_key_parts() {
        let table: [(&str, &str, &[&str], u64); 7] = [
            ("/v1/check/p/acme", "p", &["acme"], 1),
            ("/v1/check/p", "p", &[], 1),
            ("/v1/check/p/", "p", &[""], 1),
            ("/v1/check/p/a/b", "p", &["a", "b"], 1),
            ("/v1/check/p/a%2Fb%20%C3%A9", "p", &["a/b é"], 1),
            ("/v1/check/p/a?cost=5", "p", &["a"], 5),
            ("/v1/check/p/a?", "p", &["a"], 1),
        ];
        for (uri, policy, key, cost) in table {
            let expected =
                Check { policy: policy.to_owned(), key: key.iter().map(|s| (*s).to_owned()).collect(), cost, lease: 0 };
            assert_eq!(check(uri).unwrap(), expected, "{uri}");
        }
    }

    #[test]
    fn bad_urls_are_refused_by_name() {
        let table = [
            ("/v1/check/p/%FF", "the path"),
            ("/v1/check/p/a?cost=-1", "the query: cost"),
            ("/v1/check/p/a?cost=1.5", "the query: cost"),
            ("/v1/check/p/a?cost=", "the query: cost"),
            ("/v1/check/p/a?kost=1", "the query: the only parameter"),
        ];
        for (uri, message) in table {
            let error = check(uri).unwrap_err().to_string();
            assert!(error.starts_with(message), "{uri}: {error}");
        }
    }
}
