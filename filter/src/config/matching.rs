//! `match`: which requests a rule is about.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::fields::{HeaderName, HostName, Method, Name, OneOrMany};
use super::settings::Block;
use crate::path::PathMatch;
use crate::pattern::{Pattern, ValueMatch};
use crate::rules::Match;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMatch {
    path: Option<PathMatch>,
    methods: Option<Vec<Method>>,
    host: Option<OneOrMany<HostName>>,
    headers: Option<BTreeMap<HeaderName, ValueMatch>>,
    query: Option<BTreeMap<Name, ValueMatch>>,
    client_ip: Option<OneOrMany<Block>>,
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPathMatch {
    exact: Option<String>,
    prefix: Option<String>,
    regex: Option<Pattern>,
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

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawValueMatch {
    exact: Option<String>,
    present: Option<bool>,
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
