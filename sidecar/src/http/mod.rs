//! The HTTP side: every route is here.

mod batch;
mod body;
mod health;
mod problem;
mod refund;
mod single;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::routing::{get, post};

pub use problem::ApiError;

use crate::engine::Engine;

/// What handlers share.
#[derive(Debug)]
pub struct App {
    /// Decides.
    pub engine: Engine,
    /// Set when the process has been told to stop: it is not ready for new clients any more.
    pub draining: AtomicBool,
}

impl App {
    /// An app that serves this engine.
    pub fn new(engine: Engine) -> Arc<Self> {
        Arc::new(Self { engine, draining: AtomicBool::new(false) })
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

/// The routes.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/check", post(batch::check))
        .route("/v1/check/{policy}", get(single::peek).post(single::check))
        .route("/v1/check/{policy}/{*key}", get(single::peek).post(single::check))
        .route("/v1/refund", post(refund::refund))
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .fallback(problem::not_found)
        .method_not_allowed_fallback(problem::method_not_allowed)
        .with_state(app)
}
