//! `match`: which requests a rule is about.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::fields::{HeaderName, HostName, Method, Name, OneOrMany, from_text};
use super::settings::Block;
use crate::path::PathMatch;
use crate::pattern::{Pattern, ValueMatch};
use crate::rules::Match;

#[cfg(feature = "schema")]
super::schema::read_as!(Match => RawMatch, PathMatch => RawPathMatch, ValueMatch => RawValueMatch);

/// Which requests a rule is about. What is absent matches everything.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Match"))]
#[serde(deny_unknown_fields)]
struct RawMatch {
    /// The path, without its query.
    path: Option<PathMatch>,
    /// One of these methods.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    methods: Option<Vec<Method>>,
    /// This host, or one of these, without a port. `*.example.com` is all below `example.com`.
    host: Option<OneOrMany<HostName>>,
    /// All of these headers.
    headers: Option<BTreeMap<HeaderName, ValueMatch>>,
    /// All of these query parameters.
    query: Option<BTreeMap<Name, ValueMatch>>,
    /// The client's address is in this block, or in one of these.
    client_ip: Option<OneOrMany<Block>>,
    /// This does not match.
    #[cfg_attr(feature = "schema", schemars(extend("minProperties" = 1)))]
    not: Option<Box<Match>>,
}

impl<'de> Deserialize<'de> for Match {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawMatch::deserialize(deserializer)?;
        if raw.methods.as_ref().is_some_and(Vec::is_empty) {
            return Err(D::Error::custom("`methods` needs at least one method; without it, all match"));
        }
        if raw.not.as_deref() == Some(&Self::default()) {
            return Err(D::Error::custom("`not` needs something that must not match"));
        }
        Ok(Self {
            path: raw.path,
            methods: raw.methods.map(|methods| methods.into_iter().map(|method| method.0).collect()),
            hosts: raw.host.map(|hosts| hosts.0.into_iter().map(|host| host.0).collect()),
            headers: raw.headers.into_iter().flatten().map(|(name, value)| (name.0, value)).collect(),
            query: raw.query.into_iter().flatten().map(|(name, value)| (name.0, value)).collect(),
            client_ip: raw.client_ip.map(|blocks| blocks.0.into_iter().map(|block| block.0).collect()),
            not: raw.not,
        })
    }
}

/// Which paths: one way to say it.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "PathMatch", extend("minProperties" = 1, "maxProperties" = 1)))]
#[serde(deny_unknown_fields)]
struct RawPathMatch {
    /// This path and no other.
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::path", default))]
    exact: Option<String>,
    /// This path and everything below it.
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::path", default))]
    prefix: Option<String>,
    /// Paths that match a regular expression as a whole.
    regex: Option<Pattern>,
    /// Paths of this form, such as `/users/{id}/...`.
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::template", default))]
    template: Option<String>,
}

impl<'de> Deserialize<'de> for PathMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawPathMatch::deserialize(deserializer)?;
        match (raw.exact, raw.prefix, raw.regex, raw.template) {
            (Some(path), None, None, None) => Self::exact(path),
            (None, Some(path), None, None) => Self::prefix(path),
            (None, None, Some(pattern), None) => Ok(Self::Regex(pattern)),
            (None, None, None, Some(text)) => Self::template(&text),
            _ => Err("expected one of `exact`, `prefix`, `regex` and `template`"),
        }
        .map_err(D::Error::custom)
    }
}

from_text!(Pattern: |text| text.parse());

/// What a header or a query parameter must be: one way to say it.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ValueMatch", extend("minProperties" = 1, "maxProperties" = 1)))]
#[serde(deny_unknown_fields)]
struct RawValueMatch {
    /// One of its values is this.
    exact: Option<String>,
    /// It is there, even if it is empty; or it is not.
    present: Option<bool>,
    /// One of its values matches a regular expression as a whole.
    regex: Option<Pattern>,
}

impl<'de> Deserialize<'de> for ValueMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawValueMatch::deserialize(deserializer)?;
        match (raw.exact, raw.present, raw.regex) {
            (Some(text), None, None) => Ok(Self::Exact(text)),
            (None, Some(present), None) => Ok(Self::Present(present)),
            (None, None, Some(pattern)) => Ok(Self::Regex(pattern)),
            _ => Err(D::Error::custom("expected one of `exact`, `present` and `regex`")),
        }
    }
}
