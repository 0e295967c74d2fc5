//! Bodies: read up to a limit, and parsed with an error that names the field.

use std::error::Error as _;

use axum::body::{self, Body, Bytes};
use http_body_util::LengthLimitError;
use serde::Deserialize;

use super::ApiError;
use crate::config::Limits;

pub(super) async fn read(body: Body, limits: &Limits) -> Result<Bytes, ApiError> {
    body::to_bytes(body, limits.body_bytes).await.map_err(|error| {
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
