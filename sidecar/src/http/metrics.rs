//! `/metrics`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::App;

/// The text format of Prometheus, version 0.0.4: every scraper reads it.
pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], app.engine.metrics().encode())
        .into_response()
}
