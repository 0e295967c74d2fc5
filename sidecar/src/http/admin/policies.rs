//! `GET /v1/policies`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use crate::admin::{PolicyEntry, PolicyList};
use crate::http::App;

pub(super) async fn policies(State(app): State<Arc<App>>) -> Json<PolicyList> {
    let in_force = app.engine.in_force();
    let policies = in_force.policies().into_iter().map(|(name, counted)| PolicyEntry::new(name, &counted.policy));
    Json(PolicyList { generation: in_force.generation(), policies: policies.collect() })
}
