//! The HTTP side: every route is here.

mod auth;
mod batch;
mod body;
mod health;
mod metrics;
mod problem;
mod refund;
mod single;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::middleware::{from_fn_with_state, map_response_with_state};
use axum::routing::{get, post};

pub use auth::Tokens;
pub use problem::ApiError;

use crate::config_file::{ConfigFile, Reloader};
use crate::engine::Engine;
use crate::reload::Reloaded;
use crate::store::Store;

/// What handlers share.
#[derive(Debug)]
pub struct App {
    /// Decides.
    pub engine: Arc<Engine>,
    /// Reads the configuration again.
    pub reloader: Arc<Reloader>,
    /// Who may ask; without tokens everybody.
    pub tokens: Option<Reloaded<Tokens>>,
    /// Set when the process has been told to stop: it is not ready for new clients any more.
    pub draining: AtomicBool,
}

impl App {
    /// An app that serves this configuration with counts from this store.
    pub fn new(file: ConfigFile, store: Store, tokens: Option<Reloaded<Tokens>>) -> Arc<Self> {
        let engine = Arc::new(Engine::new(file.config.policies.clone(), file.config.limits, store));
        let reloader = Reloader::new(file, Arc::clone(&engine));
        Arc::new(Self { engine, reloader, tokens, draining: AtomicBool::new(false) })
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

/// The routes of the check listener.
pub fn check_router(app: Arc<App>) -> Router {
    let mut questions = Router::new()
        .route("/v1/check", post(batch::check))
        .route("/v1/check/{policy}", get(single::peek).post(single::check))
        .route("/v1/check/{policy}/{*key}", get(single::peek).post(single::check))
        .route("/v1/refund", post(refund::refund));
    if let Some(tokens) = &app.tokens {
        // After all routes: it is about those that are there by now.
        questions = questions.route_layer(from_fn_with_state(tokens.clone(), auth::require_token));
    }
    probes()
        .merge(questions)
        .fallback(problem::not_found)
        .method_not_allowed_fallback(problem::method_not_allowed)
        .layer(map_response_with_state(Arc::clone(&app), metrics::count))
        .with_state(app)
}

/// The routes of the admin listener, which no client needs to reach.
pub fn admin_router(app: Arc<App>) -> Router {
    probes()
        .route("/metrics", get(metrics::metrics))
        .fallback(problem::not_found_here)
        .method_not_allowed_fallback(problem::method_not_allowed)
        .with_state(app)
}

/// On both listeners: the admin one may be out of a kubelet's reach, and the other one may want certificates.
fn probes() -> Router<Arc<App>> {
    Router::new().route("/livez", get(health::live)).route("/readyz", get(health::ready))
}
