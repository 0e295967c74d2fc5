//! `GET /v1/status`: how the sidecar is, and totals since it started. Who wants rates takes the difference of two.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::top::COUNT;
use crate::config_file::ConfigStatus;
use crate::engine::Counted;
use crate::http::App;
use crate::store::StoreState;
use crate::top::Report;

/// A snapshot. Its parts are taken one after the other.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    version: &'static str,
    now_ms: u64,
    uptime_s: u64,
    /// Whether the process has been told to stop.
    draining: bool,
    config: ConfigPart,
    store: StorePart,
    latency: LatencyPart,
    requests: BTreeMap<&'static str, u64>,
    policies: Vec<PolicyPart>,
    top: Report,
}

#[derive(Debug, Serialize)]
struct ConfigPart {
    file: String,
    generation: u64,
    loaded_at_ms: u64,
    /// Why the file, as last read, is not in force.
    error: Option<String>,
    restart_needed: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct StorePart {
    /// Without a password.
    address: String,
    state: &'static str,
    error: Option<String>,
    breaker: &'static str,
    in_flight: usize,
    warnings: Vec<String>,
}

/// How long the store took.
#[derive(Debug, Serialize)]
struct LatencyPart {
    bounds_s: &'static [f64],
    /// How many took no longer than each bound and longer than the one before, and how many longer than all.
    counts: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct PolicyPart {
    name: String,
    limit_text: String,
    shadow: bool,
    decisions: BTreeMap<&'static str, u64>,
    near_limit: u64,
    cost_admitted: u64,
}

pub(super) async fn status(State(app): State<Arc<App>>) -> Json<Status> {
    Json(Status::of(&app))
}

impl Status {
    pub(super) fn of(app: &App) -> Self {
        let engine = &app.engine;
        let (in_force, store, metrics) = (engine.in_force(), engine.store(), engine.metrics());
        let ConfigStatus { error, restart_needed } = app.reloader.status();
        let (state, store_error) = match store.state() {
            StoreState::Unknown => ("unknown", None),
            StoreState::Up => ("up", None),
            StoreState::Down(why) => ("down", Some(why)),
        };
        let latency = metrics.store_seconds();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            now_ms: since_epoch_ms(SystemTime::now()),
            uptime_s: app.started.elapsed().as_secs(),
            draining: app.is_draining(),
            config: ConfigPart {
                file: app.reloader.path().display().to_string(),
                generation: in_force.generation(),
                loaded_at_ms: since_epoch_ms(in_force.loaded_at()),
                error,
                restart_needed,
            },
            store: StorePart {
                address: app.store_address.clone(),
                state,
                error: store_error,
                breaker: if store.breakers_open() > 0 { "open" } else { "closed" },
                in_flight: store.in_flight(),
                warnings: store.warnings(),
            },
            latency: LatencyPart { bounds_s: latency.bounds(), counts: latency.counts() },
            requests: metrics.requests().all().collect(),
            policies: in_force.policies().into_iter().map(|(name, counted)| PolicyPart::of(name, counted)).collect(),
            top: engine.top().report(COUNT, engine.top().now()),
        }
    }
}

impl PolicyPart {
    fn of(name: &str, Counted { policy, counters }: &Counted) -> Self {
        Self {
            name: name.to_owned(),
            limit_text: policy.limit.to_string(),
            shadow: policy.limit.shadow,
            decisions: counters.decisions.all().collect(),
            near_limit: counters.near_limit(),
            cost_admitted: counters.cost_admitted(),
        }
    }
}

fn since_epoch_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
