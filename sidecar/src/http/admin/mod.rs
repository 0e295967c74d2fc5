//! The admin API: what those who run Sluice ask of it, beside probes and metrics.

mod events;
mod guard;
mod keys;
mod policies;
mod reload;
mod status;
mod top;

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::{get, post};

pub use events::Streams;
pub use guard::{Forbidden, Guard};

use super::App;

/// The routes for those whom the guard lets in.
pub(super) fn routes(guard: Guard) -> Router<Arc<App>> {
    let inspect = || get(keys::inspect).delete(keys::reset);
    Router::new()
        .route("/v1/status", get(status::status))
        .route("/v1/events", get(events::events))
        .route("/v1/policies", get(policies::policies))
        .route("/v1/top", get(top::top))
        .route("/v1/keys/{policy}", inspect())
        .route("/v1/keys/{policy}/", inspect())
        .route("/v1/keys/{policy}/{*key}", inspect())
        .route("/v1/peek/{policy}", get(keys::peek))
        .route("/v1/peek/{policy}/", get(keys::peek))
        .route("/v1/peek/{policy}/{*key}", get(keys::peek))
        .route("/v1/reload", post(reload::reload))
        // After all routes: it is about those that are there by now.
        .route_layer(from_fn_with_state(guard, guard::guard))
        .route_layer(map_response(unkept))
}

/// Keys of clients are nothing to keep, and nothing to take for a page.
async fn unkept(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
