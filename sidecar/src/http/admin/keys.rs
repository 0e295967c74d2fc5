//! A single key: what is kept of it, what a check would say, and a fresh limit.

use std::sync::Arc;

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::http::Uri;

use crate::admin::{Forgotten, Inspection, Peeked};
use crate::http::{ApiError, App, path};

const KEYS: &str = "/v1/keys/";
const PEEK: &str = "/v1/peek/";

/// `GET /v1/keys/{policy}/{key}`.
pub(super) async fn inspect(
    State(app): State<Arc<App>>,
    OriginalUri(uri): OriginalUri,
) -> Result<Json<Inspection>, ApiError> {
    let (policy, key) = named(&uri)?;
    Ok(Json(app.engine.inspect(&policy, &key).await?))
}

/// `DELETE /v1/keys/{policy}/{key}`.
pub(super) async fn reset(
    State(app): State<Arc<App>>,
    OriginalUri(uri): OriginalUri,
) -> Result<Json<Forgotten>, ApiError> {
    let (policy, key) = named(&uri)?;
    let forgotten = app.engine.forget(&policy, &key).await?;
    // The key may be a secret of somebody's.
    tracing::info!(policy, existed = forgotten.existed, "a key was reset");
    Ok(Json(forgotten))
}

/// `GET /v1/peek/{policy}/{key}`, of the cost of `?cost=`, by default 0.
pub(super) async fn peek(State(app): State<Arc<App>>, OriginalUri(uri): OriginalUri) -> Result<Json<Peeked>, ApiError> {
    let (policy, key) = path::policy_and_key(&uri, PEEK)?;
    Ok(Json(app.engine.peek(&policy, &key, path::cost(&uri, 0)?).await?))
}

fn named(uri: &Uri) -> Result<(String, Vec<String>), ApiError> {
    if uri.query().is_some_and(|query| !query.is_empty()) {
        return Err(ApiError::BadUrl("the query: this path takes no parameters"));
    }
    path::policy_and_key(uri, KEYS)
}
