//! The spans: one for a question of a filter's, and below it one for each that the store is asked.
//!
//! They hold numbers and names of ours. What clients send, such as keys and paths, is never among them.

use axum::http::{HeaderMap, StatusCode};
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use sluice_filter::trace::{TRACEPARENT, TraceContext};
use sluice_filter::wire::{Decision, Entry};
use tracing::field::Empty;
use tracing::{Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::{FOLLOWING, OFF, TARGET, mode};
use crate::store::StoreError;

/// A span for a question at `route`. It belongs to the trace of whoever asks (`headers`), or of the first request that
/// has one (`traces`); to the traces of the others it is linked. Without any it begins one, if the sampler wants that.
pub fn question(
    method: &'static str,
    route: &'static str,
    headers: &HeaderMap,
    traces: impl IntoIterator<Item = TraceContext>,
) -> Span {
    if mode() == OFF {
        return Span::none();
    }
    let mut traces = traces.into_iter();
    let first = traces.next();
    // The filter shows the trace of the first, and a proxy on the way may have put a span of its own below it.
    let asks = traceparent(headers);
    let parent = asks.filter(|asks| asks.is_sampled).or(first).or(asks);
    if mode() == FOLLOWING && !parent.is_some_and(|parent| parent.is_sampled) {
        return Span::none();
    }
    let span = info_span!(
        target: TARGET,
        "question",
        otel.name = format_args!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
        error.type = Empty,
        sluice.requests = Empty,
        sluice.checks = Empty,
        sluice.allowed = Empty,
        sluice.denied = Empty,
        sluice.degraded = Empty,
        sluice.refused = Empty,
    );
    if let Some(parent) = parent {
        let parent = Context::new().with_remote_span_context(remote(parent));
        // It fails only if the span has begun, or if nobody records it.
        let _ = span.set_parent(parent);
    }
    let first = first.filter(|first| parent.is_none_or(|parent| parent.trace != first.trace));
    for trace in first.into_iter().chain(traces) {
        span.add_link(remote(trace));
    }
    span
}

/// The trace of the one header, if it is good.
fn traceparent(headers: &HeaderMap) -> Option<TraceContext> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    TraceContext::parse(value.as_bytes())
}

fn remote(trace: TraceContext) -> SpanContext {
    let flags = if trace.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let (trace, span) = (TraceId::from(trace.trace.get()), SpanId::from(trace.span.get()));
    SpanContext::new(trace, span, flags, true, TraceState::NONE)
}

/// Notes what was answered to the requests of a batch.
pub fn batch_decided(span: &Span, entries: &[Entry]) {
    if span.is_disabled() {
        return;
    }
    let decisions = entries.iter().filter_map(|entry| match entry {
        Entry::Decided(decision) => Some(decision),
        Entry::Refused { .. } => None,
    });
    decided(span, &decisions, entries.len());
    answered(span, StatusCode::OK);
}

/// Notes what was decided of so many requests. Those without a decision were refused.
fn decided<'a>(span: &Span, decisions: &(impl Iterator<Item = &'a Decision> + Clone), requests: usize) {
    let count = |is: fn(&Decision) -> bool| decisions.clone().filter(|decision| is(decision)).count();
    span.record("sluice.requests", requests);
    span.record("sluice.checks", decisions.clone().map(|decision| decision.checks.len()).sum::<usize>());
    span.record("sluice.allowed", count(|decision| decision.allowed));
    span.record("sluice.denied", count(|decision| !decision.allowed));
    span.record("sluice.degraded", count(|decision| decision.degraded));
    span.record("sluice.refused", requests - count(|_| true));
}

/// Notes what was answered to a single check.
pub fn one_decided(span: &Span, decision: &Decision, status: StatusCode) {
    if !span.is_disabled() {
        decided(span, &std::iter::once(decision), 1);
        answered(span, status);
    }
}

/// Notes the status of the answer.
pub fn answered(span: &Span, status: StatusCode) {
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
        span.record("error.type", status.as_str());
    }
}

/// A span for a script that a server of the store runs, below the current one; none if there is none.
///
/// `place` tells where the server is: a host, and a port if it has one.
pub fn script(name: &'static str, place: impl FnOnce() -> (String, Option<u16>)) -> Span {
    if mode() == OFF || Span::current().is_disabled() {
        return Span::none();
    }
    let (address, port) = place();
    info_span!(
        target: TARGET,
        "EVALSHA",
        otel.kind = "client",
        otel.status_code = Empty,
        db.system.name = "redis",
        db.operation.name = "EVALSHA",
        db.stored_procedure.name = name,
        server.address = address,
        server.port = port,
        error.type = Empty,
    )
}

/// Notes what came of a script.
pub fn ran<T>(span: &Span, answer: &Result<T, StoreError>) {
    if let Err(error) = answer
        && !span.is_disabled()
    {
        span.record("otel.status_code", "ERROR");
        span.record("error.type", error.reason());
    }
}
