//! The HTTP side: every route is here.

mod admin;
mod auth;
mod batch;
mod body;
mod health;
mod metrics;
mod page;
mod path;
mod problem;
mod refund;
mod single;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::middleware::{from_fn_with_state, map_response_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use tokio::sync::watch;

pub use admin::{Forbidden, Guard, Streams};
pub use auth::Tokens;
pub(crate) use auth::token_lines;
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
    /// Where counts are kept, without a password.
    pub store_address: String,
    /// Who looks at events.
    pub streams: Streams,
    /// When it was made.
    pub started: Instant,
    /// Set when the process has been told to stop: it is not ready for new clients any more.
    draining: AtomicBool,
    /// True when it stops.
    stop: watch::Sender<bool>,
}

impl App {
    /// An app that serves this configuration with counts from this store.
    pub fn new(file: ConfigFile, store: Store, tokens: Option<Reloaded<Tokens>>) -> Arc<Self> {
        let engine = Arc::new(Engine::new(file.config.policies.clone(), file.config.limits, store));
        let store_address = file.config.store.address.to_string();
        let reloader = Reloader::new(file, Arc::clone(&engine));
        let (stop, _) = watch::channel(false);
        Arc::new(Self {
            engine,
            reloader,
            tokens,
            store_address,
            streams: Streams::default(),
            started: Instant::now(),
            draining: AtomicBool::new(false),
            stop,
        })
    }

    /// Says that the process has been told to stop, though it still serves.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Says that it stops now: what would go on for ever ends.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Becomes true when the process stops.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
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
        .layer(map_response_with_state(Arc::clone(&app), answered))
        .with_state(app)
}

/// Counts an answer. While the process is stopping, each is the last on its connection: the next question finds another
/// sidecar, and none is sent on a connection that is being closed. HTTP/2 has a frame for that, which the server sends by
/// itself at the end; it takes this header out.
async fn answered(State(app): State<Arc<App>>, mut response: Response) -> Response {
    app.engine.metrics().count_response(response.status().as_u16());
    if app.is_draining() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The routes of the admin listener, which no client needs to reach.
pub fn admin_router(app: Arc<App>, guard: Guard) -> Router {
    probes()
        .merge(page::routes())
        .merge(admin::routes(guard))
        .route("/metrics", get(metrics::metrics))
        .fallback(problem::not_found_here)
        .method_not_allowed_fallback(problem::method_not_allowed)
        .with_state(app)
}

/// On both listeners: the admin one may be out of a kubelet's reach, and the other one may want certificates.
fn probes() -> Router<Arc<App>> {
    Router::new().route("/livez", get(health::live)).route("/readyz", get(health::ready))
}
