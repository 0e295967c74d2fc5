//! A configuration of envoyproxy/ratelimit, as it stands in its file. What that service would refuse is refused.

use std::collections::BTreeSet;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

use crate::policy::{MAX_COUNT, Rate};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(deserialize_with = "not_empty")]
    pub domain: String,
    #[serde(default, deserialize_with = "descriptors")]
    pub descriptors: Vec<Spanned<Descriptor>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "the file has them")]
pub(super) struct Descriptor {
    #[serde(deserialize_with = "not_empty")]
    pub key: String,
    #[serde(default)]
    pub value: Value,
    pub rate_limit: Option<RateLimit>,
    #[serde(default)]
    pub shadow_mode: bool,
    #[serde(default)]
    pub quota_mode: bool,
    #[serde(default)]
    pub detailed_metric: bool,
    #[serde(default)]
    pub value_to_metric: bool,
    #[serde(default)]
    pub share_threshold: bool,
    #[serde(default, deserialize_with = "descriptors")]
    pub descriptors: Vec<Spanned<Descriptor>>,
}

/// What a descriptor says of an entry's value.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "Option<String>")]
pub(super) enum Value {
    Exact(String),
    /// What stands in front of a `*` at the end.
    Prefix(String),
    #[default]
    Any,
}

#[derive(Deserialize)]
#[serde(try_from = "RateLimitFields")]
pub(super) struct RateLimit {
    pub amount: Amount,
    /// Whether the file asks for more than Sluice can count.
    pub lowered: bool,
    pub replaces: Vec<String>,
}

/// How much a descriptor lets through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Amount {
    Unlimited,
    /// Nothing, of what would have been so long a period.
    Blocked(Rate),
    Limited(Rate),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RateLimitFields {
    unit: Option<Unit>,
    #[serde(default)]
    requests_per_unit: u32,
    #[serde(default)]
    unlimited: bool,
    #[serde(default)]
    name: String,
    #[serde(default)]
    replaces: Vec<Replaced>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Replaced {
    #[serde(deserialize_with = "not_empty")]
    name: String,
}

/// A period, in days or seconds as that service counts them.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Unit {
    period_us: u64,
}

#[derive(Debug, thiserror::Error)]
enum RateLimitError {
    #[error("unit: an unlimited descriptor has none")]
    UnitOfUnlimited,
    #[error("missing field `unit`: second, minute, hour, day, week, month or year")]
    NoUnit,
    #[error("replaces: {0:?} is this descriptor's own name")]
    ReplacesItself(String),
}

impl From<Option<String>> for Value {
    fn from(text: Option<String>) -> Self {
        match text.unwrap_or_default() {
            text if text.is_empty() => Self::Any,
            text => match text.strip_suffix('*') {
                Some(prefix) => Self::Prefix(prefix.to_owned()),
                None => Self::Exact(text),
            },
        }
    }
}

impl TryFrom<String> for Unit {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let seconds = match name.to_ascii_lowercase().as_str() {
            "second" => 1,
            "minute" => 60,
            "hour" => 3_600,
            "day" => 86_400,
            "week" => 7 * 86_400,
            "month" => 30 * 86_400,
            "year" => 365 * 86_400,
            _ => return Err(format!("{name:?} is no unit: second, minute, hour, day, week, month or year")),
        };
        Ok(Self { period_us: seconds * 1_000_000 })
    }
}

impl TryFrom<RateLimitFields> for RateLimit {
    type Error = RateLimitError;

    fn try_from(fields: RateLimitFields) -> Result<Self, RateLimitError> {
        let RateLimitFields { unit, requests_per_unit, unlimited, name, replaces } = fields;
        if let Some(own) = replaces.iter().find(|replaced| replaced.name == name) {
            return Err(RateLimitError::ReplacesItself(own.name.clone()));
        }
        let wanted = u64::from(requests_per_unit);
        let amount = match (unlimited, unit) {
            (true, None) => Amount::Unlimited,
            (true, Some(_)) => return Err(RateLimitError::UnitOfUnlimited),
            (false, None) => return Err(RateLimitError::NoUnit),
            (false, Some(Unit { period_us })) if wanted == 0 => Amount::Blocked(Rate { count: 1, period_us }),
            (false, Some(Unit { period_us })) => Amount::Limited(Rate { count: wanted.min(MAX_COUNT), period_us }),
        };
        let replaces = replaces.into_iter().map(|replaced| replaced.name).collect();
        Ok(Self { amount, lowered: wanted > MAX_COUNT && !unlimited, replaces })
    }
}

fn not_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() { Err(D::Error::custom("it is empty")) } else { Ok(text) }
}

fn descriptors<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Spanned<Descriptor>>, D::Error> {
    let list = Option::<Vec<Spanned<Descriptor>>>::deserialize(deserializer)?.unwrap_or_default();
    let mut seen = BTreeSet::new();
    for descriptor in &list {
        let Descriptor { key, value, .. } = &descriptor.value;
        if !seen.insert((key, value)) {
            return Err(D::Error::custom(format_args!("the key {key:?} is there twice with the same value")));
        }
    }
    Ok(list)
}
