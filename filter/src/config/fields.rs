//! Single fields of the configuration: how they may be written, and what they must be.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::de::value::{SeqAccessDeserializer, StrDeserializer};
use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::MAX_COST;
use crate::headers::Dialect;
use crate::rules::{self, HostMatch, Rule};

const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);

pub(super) fn rules<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Rule>, D::Error> {
    let rules = Vec::deserialize(deserializer)?;
    if rules.is_empty() { Err(D::Error::custom("at least one rule is needed")) } else { Ok(rules) }
}

/// Reads a text, and then what it says; the error is for the user.
pub(super) fn text<'de, D: Deserializer<'de>, T, E: Display>(
    deserializer: D,
    read: impl FnOnce(String) -> Result<T, E>,
) -> Result<T, D::Error> {
    read(String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Types that are read from a [`text`].
macro_rules! from_text {
    ($type:ty: $read:expr) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                super::fields::text(deserializer, $read)
            }
        }
    };
}
pub(super) use from_text;

pub(super) fn cluster<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    text(deserializer, |name| if name.is_empty() { Err("the cluster's name is empty") } else { Ok(name) })
}

pub(super) fn authority<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    text(deserializer, |host| {
        let is_host = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic());
        if is_host { Ok(host) } else { Err("expected a host, with or without a port") }
    })
}

/// The name of an environment variable.
pub(super) fn variable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(deserializer)?;
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || name.starts_with(|char: char| char.is_ascii_digit()) || !name.bytes().all(is_allowed) {
        // It is not shown: it may be the token itself.
        return Err(D::Error::custom("expected the name of an environment variable that holds the token"));
    }
    Ok(Some(name))
}

pub(super) fn policy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    text(deserializer, |name| {
        if name.is_empty() {
            Err("the policy's name is empty")
        } else if name.bytes().all(is_allowed) {
            Ok(name)
        } else {
            Err("a policy's name is made of the letters A to Z and a to z, digits, and \"_.-\"")
        }
    })
}

pub(super) fn timeout<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    text(deserializer, |text| {
        duration(&text)
            .filter(|duration| TIMEOUT.contains(duration))
            .ok_or("expected a duration from 1ms to 10s, such as \"50ms\" or \"1s\"")
    })
}

pub(super) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|char: char| !char.is_ascii_digit())?);
    let number = number.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

pub(super) fn cost<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    whole(deserializer, 0..=MAX_COST)
}

/// A whole number. Envoy hands numbers over as doubles, so that one may arrive as `5.0`.
pub(super) fn whole<'de, D: Deserializer<'de>, N: TryFrom<u64>>(
    deserializer: D,
    range: RangeInclusive<u64>,
) -> Result<N, D::Error> {
    let number = deserializer.deserialize_any(Whole(range))?;
    N::try_from(number).map_err(|_| D::Error::custom("this number is too large"))
}

struct Whole(RangeInclusive<u64>);

impl Visitor<'_> for Whole {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {} to {}", self.0.start(), self.0.end())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        let in_range = Some(number).filter(|number| self.0.contains(number));
        in_range.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
        let in_range = from_double(number).filter(|number| self.0.contains(number));
        in_range.ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }
}

/// The whole number that a double is, if it is one and not so large that its neighbours are none.
pub(super) fn from_double(number: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // just looked at
    (number.fract() == 0.0 && (0.0..=EXACT).contains(&number)).then_some(number as u64)
}

/// An object without fields.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// The name of a header, in lower case. Envoy keeps `host` as `:authority`.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HeaderName(pub String);

from_text!(HeaderName: |name| {
    const PSEUDO: [&str; 4] = [":authority", ":method", ":path", ":scheme"];
    let name = name.to_ascii_lowercase();
    if name == "host" {
        Ok(Self(":authority".to_owned()))
    } else if PSEUDO.contains(&name.as_str()) || is_token(&name) {
        Ok(Self(name))
    } else {
        Err("this is no header name")
    }
});

/// The name of a query parameter or of anything else: some text.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name(pub String);

from_text!(Name: |name| if name.is_empty() { Err("the name is empty") } else { Ok(Self(name)) });

/// The name of a cookie.
pub(super) struct CookieName(pub String);

from_text!(CookieName: |name| if is_token(&name) { Ok(Self(name)) } else { Err("this is no cookie's name") });

/// A token of HTTP, RFC 9110 section 5.6.2.
pub(super) fn is_token(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_allowed)
}

/// Whether a text can stand in a header: printable ASCII.
pub(super) fn is_printable(text: &str) -> bool {
    text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

/// A method, in upper case.
pub(super) struct Method(pub String);

from_text!(Method: |name| {
    if is_token(&name) { Ok(Self(name.to_ascii_uppercase())) } else { Err("this is no method") }
});

/// A host, as rules compare it, or `*.` and the end of one.
pub(super) struct HostName(pub HostMatch);

from_text!(HostName: |name| {
        let (name, is_suffix) = match name.strip_prefix("*.") {
            Some(end) => (end.to_owned(), true),
            None => (name, false),
        };
        if name.contains('*') {
            return Err("a wildcard can only be the first label, such as in *.example.com");
        }
        let is_possible = |byte: u8| byte.is_ascii_graphic() && !b"/?#@,".contains(&byte);
        let plain = rules::host(name.as_bytes()).and_then(|host| String::from_utf8(host).ok());
        match plain {
            Some(host) if host.len() < name.trim_end_matches('.').len() => {
                Err("a host has no port: requests match whatever their port")
            }
            Some(host) if host.bytes().all(is_possible) && is_suffix => Ok(Self(HostMatch::Suffix(format!(".{host}")))),
            Some(host) if host.bytes().all(is_possible) => Ok(Self(HostMatch::Exact(host))),
            _ => Err("this is no host"),
        }
});

/// A value, or a list of at least one.
pub(super) struct OneOrMany<T>(pub Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of texts")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
                Ok(vec![T::deserialize(StrDeserializer::new(text))?])
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<T>, A::Error> {
                let list = Vec::deserialize(SeqAccessDeserializer::new(list))?;
                if list.is_empty() { Err(A::Error::custom("the list is empty")) } else { Ok(list) }
            }
        }

        deserializer.deserialize_any(Either(PhantomData)).map(Self)
    }
}

#[derive(Deserialize)]
#[serde(rename = "Dialect")]
enum RawDialect {
    #[serde(rename = "ietf")]
    Ietf,
    #[serde(rename = "x-ratelimit")]
    XRateLimit,
}

/// Header dialects: `none`, one, or a list without repetitions, which may be empty.
pub(super) struct Dialects(pub Vec<Dialect>);

impl<'de> Deserialize<'de> for Dialects {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Vec<RawDialect>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"none\" or a list of \"ietf\" and \"x-ratelimit\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                match text {
                    "none" => Ok(Vec::new()),
                    "ietf" => Ok(vec![RawDialect::Ietf]),
                    "x-ratelimit" => Ok(vec![RawDialect::XRateLimit]),
                    _ => Err(E::unknown_variant(text, &["ietf", "x-ratelimit", "none"])),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list))
            }
        }

        let mut dialects = Vec::new();
        for dialect in deserializer.deserialize_any(Either)? {
            let dialect = match dialect {
                RawDialect::Ietf => Dialect::Ietf,
                RawDialect::XRateLimit => Dialect::XRateLimit,
            };
            if !dialects.contains(&dialect) {
                dialects.push(dialect);
            }
        }
        Ok(Self(dialects))
    }
}
