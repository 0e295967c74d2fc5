//! `GET /v1/top`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{OriginalUri, State};

use crate::http::{ApiError, App, path};
use crate::top::Report;

/// Keys of each kind, if not asked for more or fewer.
pub(super) const COUNT: usize = 20;

const MAX_COUNT: usize = 100;

pub(super) async fn top(State(app): State<Arc<App>>, OriginalUri(uri): OriginalUri) -> Result<Json<Report>, ApiError> {
    let count = path::parameter(&uri, "count", "the query: the only parameter is count, such as ?count=5")?;
    let count = match count.map(str::parse) {
        None => COUNT,
        Some(Ok(count @ 1..=MAX_COUNT)) => count,
        Some(_) => return Err(ApiError::BadUrl("the query: count is not a whole number from 1 to 100")),
    };
    let top = app.engine.top();
    Ok(Json(top.report(count, top.now())))
}
