//! `/livez` and `/readyz`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;

use super::App;
use crate::config_file::ConfigStatus;
use crate::store::StoreState;

#[derive(Serialize)]
pub(super) struct Readiness {
    policies: usize,
    draining: bool,
    config: ConfigReport,
    store: StoreReport,
}

#[derive(Serialize)]
struct ConfigReport {
    generation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    restart_needed: Vec<&'static str>,
}

#[derive(Serialize)]
struct StoreReport {
    kind: &'static str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// The process answers.
pub(super) async fn live() -> &'static str {
    "ok\n"
}

/// Ready means that policies are loaded and the process is not stopping. A store that is down doesn't make
/// it unready: every replica would leave the cluster at once, and a filter that finds no sidecar at all
/// can't tell why. Nor does a configuration that was changed for the worse: the one before it is in force.
pub(super) async fn ready(State(app): State<Arc<App>>) -> (StatusCode, Json<Readiness>) {
    let store = app.engine.store();
    let (state, detail) = match store.state() {
        StoreState::Unknown => ("unknown", None),
        StoreState::Up => ("up", None),
        StoreState::Down(why) => ("down", Some(why)),
    };
    let draining = app.is_draining();
    let status = if draining { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let store = StoreReport { kind: store.kind(), state, detail, warnings: store.warnings() };
    let in_force = app.engine.in_force();
    let ConfigStatus { error, restart_needed } = app.reloader.status();
    let config = ConfigReport { generation: in_force.generation(), error, restart_needed };
    (status, Json(Readiness { policies: in_force.policy_count(), draining, config, store }))
}
