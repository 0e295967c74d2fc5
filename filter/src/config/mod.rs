//! The plugin's configuration: JSON in, checked values out.
//!
//! Everything is checked while it is read, so that each error knows the path of its field and its place in
//! the text.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::client_ip::ClientIpSettings;
use crate::denials::Limits;
use crate::denied::Denied;
use crate::headers::Dialect;
use crate::keys::{CheckSpec, HashKey};
use crate::leases;
use crate::path::PathSettings;
use crate::rules::{Effect, Match, Rule};
use crate::token::Token;

mod answers;
mod checks;
mod error;
mod fields;
mod matching;
mod prepare;
mod reader;
#[cfg(feature = "schema")]
pub mod schema;
mod secrets;
mod settings;
#[cfg(test)]
mod tests;

pub use answers::CorsPreflight;
pub use error::ConfigError;
use fields::Dialects;

/// The largest cost of a check.
pub const MAX_COST: u64 = 1_000_000_000;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where decisions come from.
    pub sidecar: Sidecar,
    /// What happens to a request that can't be decided.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "allow")))]
    pub on_error: OnError,
    /// How clients are told about their limits: any number of dialects, in this order.
    #[serde(default = "default_headers", deserialize_with = "dialects")]
    #[cfg_attr(feature = "schema", schemars(with = "Dialects", extend("default" = ["ietf"])))]
    pub headers: Vec<Dialect>,
    /// How the client's address is found.
    #[serde(default)]
    pub client_ip: ClientIpSettings,
    /// Which spellings of a path are the same.
    #[serde(default)]
    pub path: PathSettings,
    /// The key of all digests. There is one if any key part wants it.
    #[serde(default, deserialize_with = "settings::hash_key")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "schema::hash_key"))]
    pub hash_key: Option<HashKey>,
    /// The name of an environment variable of the plugin's VM that holds the key of all digests. Takes the place of
    /// `hash_key`, which Envoy shows to whoever reaches its admin interface.
    #[serde(default, deserialize_with = "fields::variable")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "schema::variable"))]
    pub hash_key_env: Option<String>,
    /// What denied clients are told, where their rule says nothing else; without it, a JSON problem.
    #[serde(default, deserialize_with = "answers::denied")]
    #[cfg_attr(feature = "schema", schemars(with = "answers::RawDenied"))]
    pub denied: Option<Arc<Denied>>,
    /// Whether CORS preflights are subject to rules.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "exempt")))]
    pub cors_preflight: CorsPreflight,
    /// Whether upstreams are told about the limits of allowed requests.
    #[serde(default)]
    pub forward_headers: bool,
    /// Whether the sidecar is told which traces requests are recorded in.
    #[serde(default)]
    pub trace_context: bool,
    /// How long denials are repeated without asking.
    #[serde(default = "answers::default_denial_cache", deserialize_with = "answers::denial_cache")]
    #[cfg_attr(feature = "schema", schemars(with = "answers::RawLimits"))]
    pub denial_cache: Limits,
    /// How tokens are kept that the sidecar grants ahead of use.
    #[serde(default = "answers::default_leases", deserialize_with = "answers::leases")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "schema::leases", extend("default" = {})))]
    pub leases: leases::Limits,
    /// At least one rule.
    #[serde(deserialize_with = "fields::rules")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub rules: Vec<Rule>,
}

/// How to reach the sidecar.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Sidecar {
    /// The Envoy cluster.
    #[serde(deserialize_with = "fields::cluster")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub cluster: String,
    /// How long a request may wait for its decision, 1 ms to 10 s.
    #[serde(default = "default_timeout", deserialize_with = "fields::timeout")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "schema::timeout", extend("default" = "50ms")))]
    pub timeout: Duration,
    /// The `:authority` of callouts.
    #[serde(default = "default_authority", deserialize_with = "fields::authority")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "schema::authority"))]
    pub authority: String,
    /// The name of an environment variable of the plugin's VM that holds the token which the sidecar wants. The token
    /// itself is not here, because Envoy shows this configuration to whoever reaches its admin interface.
    #[serde(default, deserialize_with = "fields::variable")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "schema::variable"))]
    pub token_env: Option<String>,
    /// The token, once [`Config::read_secrets`] has looked for it.
    #[serde(skip)]
    pub token: Option<Token>,
}

/// What happens to a request that can't be decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
        let mut config: Self = reader::read(json)?;
        config.prepare()?;
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

/// Which requests are charged to what: a rule has either checks or is an exemption.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "schema",
    schemars(
        rename = "Rule",
        extend("oneOf" = [
            {"required": ["checks"], "properties": {"exempt": {"const": false}}},
            {
                "required": ["exempt"],
                "properties": {"exempt": {"const": true}},
                "not": {"anyOf": [{"required": ["checks"]}, {"required": ["denied"]}]},
            },
        ])
    )
)]
#[serde(deny_unknown_fields)]
struct RawRule {
    /// Which requests it is about. Without it, all.
    #[serde(default, rename = "match")]
    matches: Match,
    /// What they are charged to. Every rule that matches adds its checks.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    checks: Option<Vec<CheckSpec>>,
    /// Later rules add nothing to them.
    #[serde(default)]
    exempt: bool,
    /// What clients are told whom its checks deny, in place of the general `denied`.
    #[serde(default, deserialize_with = "answers::denied")]
    #[cfg_attr(feature = "schema", schemars(with = "answers::RawDenied"))]
    denied: Option<Arc<Denied>>,
}

#[cfg(feature = "schema")]
schema::read_as!(Rule => RawRule);

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
