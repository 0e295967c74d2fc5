//! Claims of JSON Web Tokens.

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use super::{Facts, attributes};

/// Longer tokens are not decoded: whoever needs more has them verified.
pub const MAX_TOKEN: usize = 16 << 10;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A claim, and where it is taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JwtClaim {
    /// From what Envoy's `jwt_authn` filter has verified: the path in dynamic metadata, from the namespace on.
    Verified(Vec<String>),
    /// From the bearer token as it came: anybody can write anything there.
    Unverified(Vec<String>),
}

impl JwtClaim {
    /// The claim's text. `None` if it is no text, number or truth value, nor a list of one of these.
    pub(super) fn read(&self, facts: &Facts<'_>) -> Option<Vec<u8>> {
        match self {
            Self::Verified(path) => attributes::metadata(facts, path),
            Self::Unverified(path) => claim(facts.claims()?, path).map(String::into_bytes),
        }
    }
}

/// The claims of a bearer token.
pub(crate) fn claims(authorization: &[u8]) -> Option<Value> {
    let (scheme, token) = authorization.split_at_checked("Bearer ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Bearer ") || token.len() > MAX_TOKEN {
        return None;
    }
    let mut parts = token.trim_ascii().split(|&byte| byte == b'.');
    let (Some(_), Some(payload), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    // What can't be decoded is a token without claims, and that is all there is to say about it.
    serde_json::from_slice(&BASE64.decode(payload).ok()?).ok()
}

/// One of them as text.
pub(crate) fn claim(claims: &Value, path: &[String]) -> Option<String> {
    text(match path.iter().try_fold(claims, |value, name| value.as_object()?.get(name))? {
        // As `aud` may be written, RFC 7519 section 4.1.3. Of several, it is nobody's to say which one counts.
        Value::Array(list) => list.first().filter(|_| list.len() == 1)?,
        value => value,
    })
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        // As Envoy's metadata has it, where all numbers are doubles: 1.0 is 1.
        Value::Number(number) => number.as_f64().map(|number| number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
