//! `POST /v1/reload`: reads the configuration again now, not at the next look.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use crate::admin::Reloaded;
use crate::config_file::Reload;
use crate::http::{ApiError, App};

pub(super) async fn reload(State(app): State<Arc<App>>) -> Result<Json<Reloaded>, ApiError> {
    let Reload { generation, changed, restart_needed } = app.reloader.reload_now().await?;
    let restart_needed = restart_needed.into_iter().map(str::to_owned).collect();
    Ok(Json(Reloaded { generation, changed, restart_needed }))
}
