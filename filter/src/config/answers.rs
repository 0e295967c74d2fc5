//! The fields about what clients and upstreams are told: `denied`, `cors_preflight`, `denial_cache`, `leases`.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::fields::{duration, from_text, is_printable, is_token, text, whole};
use crate::denials::Limits;
use crate::denied::{Denied, Template};
use crate::leases;

/// The longest a denial may be repeated without asking.
const MAX_AGE: Duration = Duration::from_mins(1);
/// How many denials may be kept, and how many keys watched for leases.
const ENTRIES: RangeInclusive<u64> = 1..=1_000_000;

/// Names that are no free choice: HTTP's own, and those of every denial.
pub(super) const TAKEN: [&str; 6] =
    ["connection", "content-length", "retry-after", "transfer-encoding", "x-envoy-ratelimited", "upgrade"];

/// Whether CORS preflights are subject to rules. Browsers send them by themselves, and count a denial as a
/// forbidden request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CorsPreflight {
    /// They pass uncounted.
    #[default]
    Exempt,
    /// They are requests like any other.
    Check,
}

pub(super) fn default_denial_cache() -> Limits {
    Limits { max_age: Duration::from_secs(1), entries: 10_000 }
}

/// How long denials are repeated without asking.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DenialCache"))]
#[serde(deny_unknown_fields)]
pub(super) struct RawLimits {
    /// How long at most, up to 60 s; 0 asks about every request.
    #[serde(default = "default_max_age", deserialize_with = "max_age")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::max_age", extend("default" = "1s")))]
    max_age: Duration,
    /// How many keys each worker remembers, 1 to 1,000,000; the oldest makes room.
    #[serde(default = "default_entries", deserialize_with = "entries")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::whole::<1, 1_000_000>"))]
    entries: usize,
}

fn default_max_age() -> Duration {
    default_denial_cache().max_age
}

fn default_entries() -> usize {
    default_denial_cache().entries
}

pub(super) fn denial_cache<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Limits, D::Error> {
    let RawLimits { max_age, entries } = RawLimits::deserialize(deserializer)?;
    Ok(Limits { max_age, entries })
}

/// A duration, or 0 without a unit.
fn max_age<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    struct MaxAge;

    impl Visitor<'_> for MaxAge {
        type Value = Duration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a duration up to 60s, such as \"500ms\" or \"1s\", or 0 for none")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
            if text == "0" {
                return Ok(Duration::ZERO);
            }
            let age = duration(text).filter(|age| *age <= MAX_AGE);
            age.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<Duration, E> {
            if number == 0 { Ok(Duration::ZERO) } else { Err(E::invalid_value(Unexpected::Unsigned(number), &self)) }
        }

        fn visit_f64<E: Error>(self, number: f64) -> Result<Duration, E> {
            if number == 0.0 { Ok(Duration::ZERO) } else { Err(E::invalid_value(Unexpected::Float(number), &self)) }
        }
    }

    deserializer.deserialize_any(MaxAge)
}

fn entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    whole(deserializer, ENTRIES)
}

pub(super) fn default_leases() -> leases::Limits {
    leases::Limits { entries: default_entries() }
}

/// How tokens are kept that the sidecar grants ahead of use.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Leases"))]
#[serde(deny_unknown_fields)]
pub(super) struct RawLeases {
    /// How many keys each worker watches, 1 to 1,000,000.
    #[serde(default = "default_entries", deserialize_with = "entries")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::whole::<1, 1_000_000>"))]
    entries: usize,
}

/// An object, or `off`, which YAML 1.1 takes for `false`.
pub(super) fn leases<'de, D: Deserializer<'de>>(deserializer: D) -> Result<leases::Limits, D::Error> {
    struct Either;

    impl<'de> Visitor<'de> for Either {
        type Value = leases::Limits;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("{\"entries\": number} or \"off\"")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            if text == "off" { self.visit_bool(false) } else { Err(E::invalid_value(Unexpected::Str(text), &self)) }
        }

        fn visit_bool<E: Error>(self, on: bool) -> Result<Self::Value, E> {
            if on { Err(E::invalid_value(Unexpected::Bool(on), &self)) } else { Ok(leases::Limits { entries: 0 }) }
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            let RawLeases { entries } = RawLeases::deserialize(MapAccessDeserializer::new(map))?;
            Ok(leases::Limits { entries })
        }
    }

    deserializer.deserialize_any(Either)
}

/// What denied clients are told.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Denied", extend("dependencies" = {"content_type": ["body"]})))]
#[serde(deny_unknown_fields)]
pub(super) struct RawDenied {
    /// The status of the answer, 429 or 503.
    #[serde(default = "default_status", deserialize_with = "status")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::status"))]
    status: u16,
    /// The body, with `{policy}` and `{retry_after}` filled in. Without it, a JSON problem.
    #[serde(default, deserialize_with = "body")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::body"))]
    body: Option<Template>,
    /// The media type of `body`; without it, `text/plain; charset=utf-8`.
    #[serde(default, deserialize_with = "content_type")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::content_type"))]
    content_type: Option<String>,
    /// Further header fields, filled in like `body`.
    #[serde(default, deserialize_with = "headers")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<HeaderName, HeaderValue>"))]
    headers: Vec<(String, Template)>,
}

fn default_status() -> u16 {
    429
}

pub(super) fn denied<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<Denied>>, D::Error> {
    let RawDenied { status, body, content_type, headers } = RawDenied::deserialize(deserializer)?;
    let body = match (body, content_type) {
        (Some(body), content_type) => {
            Some((body, content_type.unwrap_or_else(|| "text/plain; charset=utf-8".to_owned())))
        }
        (None, None) => None,
        (None, Some(_)) => return Err(D::Error::custom("`content_type` is that of `body`, which is missing")),
    };
    Ok(Some(Arc::new(Denied { status, body, headers })))
}

fn status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let status = f64::deserialize(deserializer)?;
    [429, 503]
        .into_iter()
        .find(|known| f64::from(*known).total_cmp(&status).is_eq())
        .ok_or_else(|| D::Error::custom("expected 429 or 503"))
}

fn body<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Template>, D::Error> {
    text(deserializer, |body| Template::parse(&body).map(Some))
}

fn content_type<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    text(deserializer, |name| {
        let is_type = name.contains('/') && is_printable(&name);
        if is_type { Ok(Some(name)) } else { Err("expected a media type, such as \"application/json\"") }
    })
}

fn headers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, Template)>, D::Error> {
    let headers = BTreeMap::<HeaderName, HeaderValue>::deserialize(deserializer)?;
    Ok(headers.into_iter().map(|(name, value)| (name.0, value.0)).collect())
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HeaderName(String);

from_text!(HeaderName: |name| {
    let name = name.to_ascii_lowercase();
    if !is_token(&name) {
        Err("this is no header name".to_owned())
    } else if name == "content-type" {
        Err("`content-type` has a field of its own, `content_type`".to_owned())
    } else if TAKEN.contains(&name.as_str()) || crate::spoofed::is_ours(&name) {
        Err(format!("`{name}` is not for configuration to set"))
    } else {
        Ok(Self(name))
    }
});

pub(super) struct HeaderValue(Template);

from_text!(HeaderValue: |value| {
    if is_printable(&value) {
        Template::parse(&value).map(Self)
    } else {
        Err("a header's value is made of printable ASCII".to_owned())
    }
});
