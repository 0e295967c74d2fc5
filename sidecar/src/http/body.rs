//! Bodies: read up to a limit and within a deadline, and parsed with an error that names the field.

use std::error::Error as _;
use std::time::Duration;

use axum::body::{self, Body, Bytes};
use http_body_util::LengthLimitError;
use serde::Deserialize;
use tokio::time::timeout;

use super::ApiError;
use crate::config::Limits;

/// How long a client may take to send a body. It is there at once from whoever waits for a decision.
const DEADLINE: Duration = Duration::from_secs(5);

pub(super) async fn read(body: Body, limits: &Limits) -> Result<Bytes, ApiError> {
    let body = timeout(DEADLINE, body::to_bytes(body, limits.body_bytes)).await;
    body.map_err(|_| ApiError::SlowBody(DEADLINE))?.map_err(|error| {
        if error.source().is_some_and(<dyn std::error::Error>::is::<LengthLimitError>) {
            ApiError::LargeBody(limits.body_bytes)
        } else {
            ApiError::BrokenBody(error)
        }
    })
}

pub(super) fn parse<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, ApiError> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." || path == "?" { "the body".to_owned() } else { path };
        ApiError::Malformed { field, message: error.inner().to_string() }
    })?;
    match deserializer.end() {
        Ok(()) => Ok(value),
        Err(error) => Err(ApiError::Malformed { field: "the body".to_owned(), message: error.to_string() }),
    }
}
