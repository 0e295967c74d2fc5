//! `POST /v1/check`: a batch from a filter.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::value::RawValue;
use sluice_filter::wire::{CheckAnswer, Entry, Refund, Request, RequestError};
use tokio::join;
use tracing::Instrument;

use super::{ApiError, App, body};
use crate::config::Limits;
use crate::engine::InForce;
use crate::metrics::RequestOutcome;
use crate::traces::span;

/// A batch whose requests are still text: one that is malformed must not spoil the others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch<'a> {
    #[serde(borrow)]
    requests: Vec<&'a RawValue>,
    #[serde(default)]
    refunds: Vec<Refund>,
}

pub(super) async fn check(
    State(app): State<Arc<App>>,
    asked: axum::extract::Request,
) -> Result<Json<CheckAnswer>, ApiError> {
    let (head, body) = asked.into_parts();
    let bytes = body::read(body, app.engine.in_force().limits()).await?;
    // Once it is here, and once for all of it.
    let in_force = app.engine.in_force();
    let (requests, refunds) = parse(&bytes, in_force.limits())?;
    let traces = requests.iter().flatten().filter_map(|request| request.traceparent);
    let span = span::question("POST", "/v1/check", &head.headers, traces);
    let answer = decide(&app, &in_force, requests, &refunds).instrument(span.clone()).await;
    match &answer {
        Ok(entries) => span::batch_decided(&span, entries),
        Err(error) => span::answered(&span, error.status().0),
    }
    Ok(Json(CheckAnswer { decisions: answer? }))
}

/// An entry for each request.
async fn decide(app: &App, in_force: &InForce, requests: Requests, refunds: &[Refund]) -> Result<Vec<Entry>, ApiError> {
    let refused = requests.iter().filter(|request| request.is_err()).count();
    app.engine.metrics().count_requests(RequestOutcome::Refused, refused);
    // Side by side: the refunds are on their way first, and nobody waits for them.
    let decisions = app.engine.decide(in_force, requests.iter().flatten());
    let ((), decisions) = join!(biased; give_back(app, in_force, refunds), decisions);
    let mut decisions = decisions?.into_iter();

    let mut entries = Vec::with_capacity(requests.len());
    for (index, request) in requests.into_iter().enumerate() {
        entries.push(match request {
            Err(error) => Entry::Refused { error },
            Ok(_) => match decisions.next() {
                Some(Ok(decision)) => Entry::Decided(decision),
                Some(Err(problem)) => {
                    Entry::Refused { error: refusal(problem.status().1, format!("requests[{index}].{problem}")) }
                }
                None => Entry::Refused { error: refusal("no decision", format!("requests[{index}]: lost")) },
            },
        });
    }
    Ok(entries)
}

/// Each request, or what is wrong with it.
type Requests = Vec<Result<Request, RequestError>>;

/// Gives back what is left of leases. Whoever sends it has no use for an answer; `sluice_refunds_total` counts it.
async fn give_back(app: &App, in_force: &InForce, refunds: &[Refund]) {
    // A policy that is gone is no reason to keep what others are owed.
    let is_known = |refund: &&Refund| in_force.policy(&refund.policy).is_some();
    let known: Vec<Refund> = refunds.iter().filter(is_known).cloned().collect();
    if !known.is_empty()
        && let Err(error) = app.engine.refund(in_force, &known).await
    {
        tracing::debug!(%error, "leases were not given back");
    }
}

/// The requests of a body, each by itself: what is wrong with one is told in its place. And what is given back.
fn parse(bytes: &[u8], limits: &Limits) -> Result<(Requests, Vec<Refund>), ApiError> {
    let batch: Batch<'_> = body::parse(bytes)?;
    let requests: Vec<_> = batch.requests.iter().enumerate().map(|(index, raw)| request(index, raw)).collect();
    let checks: usize = requests.iter().flatten().map(|request| request.checks.len()).sum();
    if checks.max(requests.len()) > limits.batch_checks {
        return Err(ApiError::LargeBatch("requests", checks.max(requests.len()), limits.batch_checks));
    }
    if batch.refunds.len() > limits.batch_checks {
        return Err(ApiError::LargeBatch("refunds", batch.refunds.len(), limits.batch_checks));
    }
    Ok((requests, batch.refunds))
}

fn request(index: usize, raw: &RawValue) -> Result<Request, RequestError> {
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = match error.path().to_string().as_str() {
            "." => String::new(),
            path => format!(".{path}"),
        };
        refusal("malformed request", format!("requests[{index}]{path}: {}", without_place(error.inner())))
    })
}

fn refusal(title: &str, detail: String) -> RequestError {
    RequestError { title: title.to_owned(), detail }
}

/// A message without "at line 1 column 23": that counts from the start of the request, which nobody sees.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(message, _)| message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> Result<Vec<Result<Request, RequestError>>, ApiError> {
        super::parse(body.as_bytes(), &Limits { batch_checks: 3, ..Limits::default() }).map(|(requests, _)| requests)
    }

    #[test]
    fn a_bad_request_does_not_spoil_its_batch() {
        let table = [
            ("5", "requests[1]: invalid type"),
            ("{}", "requests[1]: missing field `checks`"),
            (r#"{"checks":5}"#, "requests[1].checks: invalid type"),
            (r#"{"checks":[{"key":[]}]}"#, "requests[1].checks[0]: missing field `policy`"),
            (r#"{"checks":[{"policy":"p"}]}"#, "requests[1].checks[0]: missing field `key`"),
            (r#"{"checks":[{"policy":"p","key":"k"}]}"#, "requests[1].checks[0].key: invalid type"),
            (r#"{"checks":[{"policy":"p","key":[1]}]}"#, "requests[1].checks[0].key[0]: invalid type"),
            (r#"{"checks":[{"policy":"p","key":[],"cost":-1}]}"#, "requests[1].checks[0].cost: invalid value"),
            (r#"{"checks":[{"policy":"p","key":[],"cost":1.5}]}"#, "requests[1].checks[0].cost: invalid type"),
            (r#"{"checks":[{"policy":"p","key":[],"kost":1}]}"#, "requests[1].checks[0].kost: unknown field"),
            (r#"{"checks":[],"x":1}"#, "requests[1].x: unknown field"),
        ];
        for (bad, detail) in table {
            let good = r#"{"checks":[{"policy":"p","key":["k"]}]}"#;
            let requests = parse(&format!(r#"{{"requests":[{good},{bad},{good}]}}"#)).unwrap();
            assert!(requests[0].is_ok() && requests[2].is_ok(), "{bad}");
            let error = requests[1].as_ref().unwrap_err();
            assert!(error.detail.starts_with(detail), "{bad}: {}", error.detail);
            assert!(!error.detail.contains(" at line "), "{bad}: {}", error.detail);
        }
    }

    #[test]
    fn what_is_no_batch_is_refused_by_name() {
        let table = [
            ("", "the body: EOF"),
            ("{", "the body: EOF"),
            ("[]", "the body: "),
            (r#"{"requests":[]} x"#, "the body: trailing characters"),
            (r#"{"request":[]}"#, "request: unknown field"),
            ("{}", "the body: missing field `requests`"),
            (r#"{"requests":{}}"#, "requests: invalid type"),
            (r#"{"requests":[{]}"#, "requests[0]: key must be a string"),
        ];
        for (body, message) in table {
            let error = parse(body).unwrap_err().to_string();
            assert!(error.starts_with(message), "{body}: {error}");
        }
    }

    #[test]
    fn a_batch_has_a_largest_size() {
        let request = r#"{"checks":[{"policy":"p","key":[]},{"policy":"p","key":[]}]}"#;
        assert!(parse(&format!(r#"{{"requests":[{request}]}}"#)).is_ok());
        let error = parse(&format!(r#"{{"requests":[{request},{request}]}}"#)).unwrap_err();
        assert!(matches!(error, ApiError::LargeBatch(_, 4, 3)), "{error}");
        assert!(matches!(parse(r#"{"requests":[1,1,1,1]}"#), Err(ApiError::LargeBatch(_, 4, 3))));
    }
}
