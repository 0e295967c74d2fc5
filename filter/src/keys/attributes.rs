//! What Envoy knows of a request: attributes and dynamic metadata.
//!
//! Envoy hands values over without their types: a text as it is, a number in 8 bytes, a truth value in one, lists and
//! objects as it does headers. Nearly always the bytes tell: a text has no control characters, a number that anybody
//! limits by has some, and nothing else looks like headers.

use super::Facts;

/// An attribute, such as `connection.mtls`.
pub(super) fn read(facts: &Facts<'_>, path: &[String]) -> Option<Vec<u8>> {
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    let raw = facts.attribute(&names)?;
    // Metadata is JSON, whose numbers are doubles; all other numbers are whole.
    if names.contains(&"filter_metadata") { value(raw, f64::from_le_bytes) } else { value(raw, i64::from_le_bytes) }
}

/// Dynamic metadata, by its namespace and the path below it.
pub(super) fn metadata(facts: &Facts<'_>, path: &[String]) -> Option<Vec<u8>> {
    let names: Vec<&str> = ["metadata", "filter_metadata"].into_iter().chain(path.iter().map(String::as_str)).collect();
    value(facts.attribute(&names)?, f64::from_le_bytes)
}

/// A value as text, if it can be told what it is, and otherwise as it came. A list of one value is that value. Which
/// value any other list or an object is, nobody can say.
fn value<N: ToString>(raw: Vec<u8>, number: impl Fn([u8; 8]) -> N) -> Option<Vec<u8>> {
    match names_and_values(&raw).as_deref() {
        None => Some(scalar(raw, number)),
        Some([only, b""]) if names_and_values(only).is_none() => Some(scalar(only.to_vec(), number)),
        Some(_) => None,
    }
}

fn scalar<N: ToString>(raw: Vec<u8>, number: impl Fn([u8; 8]) -> N) -> Vec<u8> {
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

/// The names and values of an object, by turns; of a list, its values and nothing, so that an object whose only value is
/// empty is taken for a list. They come as their number, the lengths of all of them, and then each with a zero byte
/// behind it.
fn names_and_values(raw: &[u8]) -> Option<Vec<&[u8]>> {
    let size = |bytes: &[u8; 4]| usize::try_from(u32::from_le_bytes(*bytes)).ok();
    let (count, rest) = raw.split_first_chunk()?;
    let (lengths, mut rest) = rest.split_at_checked(size(count)?.checked_mul(2 * 4)?)?;
    let mut texts = Vec::new();
    for length in lengths.as_chunks().0 {
        let (text, after) = rest.split_at_checked(size(length)?)?;
        texts.push(text);
        rest = after.strip_prefix(b"\0")?;
    }
    rest.is_empty().then_some(texts)
}
