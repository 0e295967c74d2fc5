//! The plugin's configuration: JSON in, checked values out.
//!
//! Everything is checked while it is read, so that each error knows the path of its field and its place in
//! the text.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::denials::Limits;
use crate::denied::Denied;
use crate::headers::Dialect;
use crate::keys::{CheckSpec, KeyPart, OnMissing, encode};
use crate::path::PathMatch;
use crate::rules::{Effect, Match, Rule};

mod answers;
mod error;
mod fields;
#[cfg(test)]
mod tests;

pub use answers::CorsPreflight;
pub use error::ConfigError;
use fields::{Dialects, OneOrMany};

/// The largest cost of a check.
pub const MAX_COST: u64 = 1_000_000_000;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where decisions come from.
    pub sidecar: Sidecar,
    /// What happens to a request that can't be decided.
    #[serde(default)]
    pub on_error: OnError,
    /// How clients are told about their limits: any number of dialects, in this order.
    #[serde(default = "default_headers", deserialize_with = "dialects")]
    pub headers: Vec<Dialect>,
    /// What denied clients are told, where their rule says nothing else; without it, a JSON problem.
    #[serde(default, deserialize_with = "answers::denied")]
    pub denied: Option<Arc<Denied>>,
    /// Whether CORS preflights are subject to rules.
    #[serde(default)]
    pub cors_preflight: CorsPreflight,
    /// Whether upstreams are told about the limits of allowed requests.
    #[serde(default)]
    pub forward_headers: bool,
    /// How long denials are repeated without asking.
    #[serde(default = "answers::default_denial_cache", deserialize_with = "answers::denial_cache")]
    pub denial_cache: Limits,
    /// At least one rule.
    #[serde(deserialize_with = "fields::rules")]
    pub rules: Vec<Rule>,
}

/// How to reach the sidecar.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sidecar {
    /// The Envoy cluster.
    #[serde(deserialize_with = "fields::cluster")]
    pub cluster: String,
    /// How long a request may wait for its decision, 1 ms to 10 s.
    #[serde(default = "default_timeout", deserialize_with = "fields::timeout")]
    pub timeout: Duration,
    /// The `:authority` of callouts.
    #[serde(default = "default_authority", deserialize_with = "fields::authority")]
    pub authority: String,
}

/// What happens to a request that can't be decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// It goes on.
    #[default]
    Allow,
    /// It is answered with 503.
    Deny,
}

impl Config {
    /// Reads a plugin configuration.
    ///
    /// # Errors
    /// If there is none, or one that is not understood down to its last field. The error's text is one line,
    /// and names the field's path and its place in the text.
    pub fn parse(json: &[u8]) -> Result<Self, ConfigError> {
        if json.trim_ascii().is_empty() {
            return Err(ConfigError::Empty);
        }
        // JSON has no such bytes, and a protocol buffer has them all over.
        if json.iter().any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace()) {
            return Err(ConfigError::Binary);
        }
        if !json.trim_ascii_start().starts_with(b"{") {
            return Err(ConfigError::NotAnObject);
        }
        let mut reader = serde_json::Deserializer::from_slice(json);
        let config = serde_path_to_error::deserialize(&mut reader).map_err(ConfigError::field)?;
        reader.end().map_err(|error| ConfigError::syntax(&error))?;
        Ok(config)
    }

    /// Every policy that the rules name, with the path of the field that names it.
    pub fn policies(&self) -> impl Iterator<Item = (String, &str)> {
        self.rules.iter().enumerate().flat_map(|(rule, Rule { effect, .. })| {
            let checks = match effect {
                Effect::Check(checks) => checks.as_slice(),
                Effect::Exempt => &[],
            };
            checks
                .iter()
                .enumerate()
                .map(move |(check, spec)| (format!("rules[{rule}].checks[{check}].policy"), spec.policy.as_str()))
        })
    }
}

fn default_headers() -> Vec<Dialect> {
    vec![Dialect::Ietf]
}

fn default_timeout() -> Duration {
    Duration::from_millis(50)
}

fn default_authority() -> String {
    "sluice".to_owned()
}

fn dialects<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Dialect>, D::Error> {
    Dialects::deserialize(deserializer).map(|dialects| dialects.0)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    #[serde(default, rename = "match")]
    matches: Match,
    checks: Option<Vec<CheckSpec>>,
    #[serde(default)]
    exempt: bool,
    #[serde(default, deserialize_with = "answers::denied")]
    denied: Option<Arc<Denied>>,
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let rule = RawRule::deserialize(deserializer)?;
        let effect = match (rule.checks, rule.exempt) {
            (Some(mut checks), false) if !checks.is_empty() => {
                for check in &mut checks {
                    check.denied.clone_from(&rule.denied);
                }
                Effect::Check(checks)
            }
            (Some(_), false) => return Err(serde::de::Error::custom("`checks` needs at least one check")),
            (None, true) if rule.denied.is_some() => {
                return Err(serde::de::Error::custom("an exempt rule denies nobody: it has no `denied`"));
            }
            (None, true) => Effect::Exempt,
            (Some(_), true) => {
                return Err(serde::de::Error::custom("a rule has either `checks` or `exempt: true`, not both"));
            }
            (None, false) => {
                return Err(serde::de::Error::custom("a rule needs `checks` or `exempt: true`"));
            }
        };
        Ok(Self { matches: rule.matches, effect })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMatch {
    path: Option<PathMatch>,
    methods: Option<Vec<fields::Method>>,
    host: Option<OneOrMany<fields::HostName>>,
}

impl<'de> Deserialize<'de> for Match {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawMatch::deserialize(deserializer)?;
        if raw.methods.as_ref().is_some_and(Vec::is_empty) {
            return Err(serde::de::Error::custom("`methods` needs at least one method; without it, all match"));
        }
        Ok(Self {
            path: raw.path,
            methods: raw.methods.map(|methods| methods.into_iter().map(|method| method.0).collect()),
            hosts: raw.host.map(|hosts| hosts.0.into_iter().map(|host| host.0).collect()),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPathMatch {
    exact: Option<String>,
    prefix: Option<String>,
}

impl<'de> Deserialize<'de> for PathMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawPathMatch::deserialize(deserializer)?;
        match (raw.exact, raw.prefix) {
            (Some(path), None) => Self::exact(path),
            (None, Some(path)) => Self::prefix(path),
            _ => Err("expected one of `exact` and `prefix`"),
        }
        .map_err(serde::de::Error::custom)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCheck {
    #[serde(deserialize_with = "fields::policy")]
    policy: String,
    key: Vec<KeyPart>,
    #[serde(default = "default_cost", deserialize_with = "fields::cost")]
    cost: u64,
    #[serde(default)]
    on_missing: OnMissing,
}

fn default_cost() -> u64 {
    1
}

impl<'de> Deserialize<'de> for CheckSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let RawCheck { policy, key, cost, on_missing } = RawCheck::deserialize(deserializer)?;
        Ok(Self { policy, key, cost, on_missing, denied: None })
    }
}

#[derive(Deserialize)]
#[serde(rename = "OnMissing", rename_all = "lowercase")]
enum RawOnMissing {
    Bucket,
    Skip,
    Deny,
}

impl<'de> Deserialize<'de> for OnMissing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match RawOnMissing::deserialize(deserializer)? {
            RawOnMissing::Bucket => Self::Bucket,
            RawOnMissing::Skip => Self::Skip,
            RawOnMissing::Deny => Self::Deny,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKeyPart {
    #[serde(default, deserialize_with = "fields::header_name")]
    header: Option<String>,
    literal: Option<String>,
}

impl TryFrom<RawKeyPart> for KeyPart {
    type Error = &'static str;

    fn try_from(raw: RawKeyPart) -> Result<Self, Self::Error> {
        match (raw.header, raw.literal) {
            (Some(name), None) => Ok(Self::Header(name)),
            (None, Some(text)) => Ok(Self::Literal(encode::part(text.as_bytes()))),
            _ => Err("expected one of `header` and `literal`, or \"client_ip\""),
        }
    }
}
