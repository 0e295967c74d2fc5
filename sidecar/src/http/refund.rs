//! `POST /v1/refund`: gives back what was charged for something that then did not happen.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use sluice_filter::wire::{RefundAnswer, RefundBody};

use super::{ApiError, App, body};
use crate::metrics::RefundOutcome;

pub(super) async fn refund(State(app): State<Arc<App>>, body: Body) -> Result<Json<RefundAnswer>, ApiError> {
    let bytes = body::read(body, app.engine.in_force().limits()).await?;
    let in_force = app.engine.in_force();
    let limits = in_force.limits();
    let body: RefundBody = body::parse(&bytes)?;
    if body.refunds.len() > limits.batch_checks {
        return Err(ApiError::LargeBatch("refunds", body.refunds.len(), limits.batch_checks));
    }
    let metrics = app.engine.metrics();
    let count = body.refunds.len();
    let refunds = app.engine.refund(&in_force, &body.refunds).await;
    let refunds = refunds.inspect_err(|error| metrics.count_refunds(RefundOutcome::of_error(error), count))?;
    let given_back = refunds.iter().filter(|refund| refund.refunded).count();
    metrics.count_refunds(RefundOutcome::Refunded, given_back);
    metrics.count_refunds(RefundOutcome::Late, count - given_back);
    Ok(Json(RefundAnswer { refunds }))
}
