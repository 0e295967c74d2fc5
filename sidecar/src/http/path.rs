//! `/…/{policy}/{key}`: each further path segment is a part of the key, percent-encoded; no segment is the empty key.

use axum::http::Uri;
use percent_encoding::percent_decode_str;

use super::ApiError;

/// The policy and the key of a path below `prefix`.
pub(super) fn policy_and_key(uri: &Uri, prefix: &str) -> Result<(String, Vec<String>), ApiError> {
    let path = uri.path().strip_prefix(prefix).unwrap_or_default();
    let mut segments = path.split('/').map(|segment| {
        percent_decode_str(segment)
            .decode_utf8()
            .map(std::borrow::Cow::into_owned)
            .map_err(|_| ApiError::BadUrl("the path: a key part is not UTF-8"))
    });
    let policy = segments.next().transpose()?.unwrap_or_default();
    Ok((policy, segments.collect::<Result<_, _>>()?))
}

/// The one parameter that a query may have, `name`, as text.
pub(super) fn parameter<'a>(uri: &'a Uri, name: &str, problem: &'static str) -> Result<Option<&'a str>, ApiError> {
    let mut found = None;
    for parameter in uri.query().unwrap_or_default().split('&').filter(|parameter| !parameter.is_empty()) {
        let value = parameter.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
        found = Some(value.ok_or(ApiError::BadUrl(problem))?);
    }
    Ok(found)
}

/// `?cost=5`, or `default`.
pub(super) fn cost(uri: &Uri, default: u64) -> Result<u64, ApiError> {
    let cost = parameter(uri, "cost", "the query: the only parameter is cost, such as ?cost=5")?;
    cost.map_or(Ok(default), |cost| {
        cost.parse().map_err(|_| ApiError::BadUrl("the query: cost is not a whole number from 0 to 1000000000"))
    })
}
