//! What Envoy knows of a request: attributes and dynamic metadata.
//!
//! Envoy hands values over without their types: a text as it is, a number in 8 bytes, a truth value in one. Nearly
//! always the bytes tell: a text has no control characters, a number that anybody limits by has some.

use super::Facts;

/// An attribute, such as `connection.mtls`.
pub(super) fn read(facts: &Facts<'_>, path: &[String]) -> Option<Vec<u8>> {
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    let raw = facts.host.attribute(&names)?;
    // Metadata is JSON, whose numbers are doubles; all other numbers are whole.
    Some(if names.contains(&"filter_metadata") {
        value(raw, f64::from_le_bytes)
    } else {
        value(raw, i64::from_le_bytes)
    })
}

/// Dynamic metadata, by its namespace and the path below it.
pub(super) fn metadata(facts: &Facts<'_>, path: &[String]) -> Option<Vec<u8>> {
    let names: Vec<&str> = ["metadata", "filter_metadata"].into_iter().chain(path.iter().map(String::as_str)).collect();
    facts.host.attribute(&names).map(|raw| value(raw, f64::from_le_bytes))
}

/// A value as text, if it can be told what it is, and otherwise as it came.
fn value<N: ToString>(raw: Vec<u8>, number: impl Fn([u8; 8]) -> N) -> Vec<u8> {
    let is_text = std::str::from_utf8(&raw).is_ok_and(|text| !text.contains(|char: char| char.is_ascii_control()));
    if is_text {
        return raw;
    }
    match (raw.as_slice(), <[u8; 8]>::try_from(raw.as_slice())) {
        (_, Ok(bytes)) => number(bytes).to_string().into_bytes(),
        ([0], _) => b"false".to_vec(),
        ([1], _) => b"true".to_vec(),
        _ => raw,
    }
}
