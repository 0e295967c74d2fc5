//! Keys: takes the parts of each check's key from a request.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;

use crate::client_ip::ClientIpSettings;
use crate::config::Config;
use crate::denied::Denied;
use crate::host::{HeaderList, Host};
use crate::wire::{Check, MISSING_PART};
use crate::{path, rules};

mod attributes;
mod cost;
pub mod encode;
mod fields;
mod hash;
pub(crate) mod jwt;
mod part;
#[cfg(test)]
mod tests;

pub use cost::{Cost, CostSource};
pub use hash::{HashKey, MIN_HASH_KEY};
pub use jwt::JwtClaim;
pub use part::{KeyPart, Source};

/// One check of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckSpec {
    /// The policy's name in the sidecar's configuration.
    pub policy: String,
    /// Who or what is limited. No part at all means one bucket for everybody.
    pub key: Vec<KeyPart>,
    /// How much a request takes.
    pub cost: Cost,
    /// What a missing part means.
    pub on_missing: OnMissing,
    /// Its rule's answer to a request that it denies.
    pub denied: Option<Arc<Denied>>,
}

/// What a key part that is missing, empty or ambiguous (such as a repeated header) means for its check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum OnMissing {
    /// All such requests share one bucket, distinct from every real value's.
    #[default]
    Bucket,
    /// The check is left out.
    Skip,
    /// The request is denied.
    Deny(Refusal),
}

/// How a request without a key is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status to answer with.
    pub status: u16,
    /// What clients are to prove who they are with. A 401 and a 407 have it, in a header of their own.
    pub challenge: Option<String>,
}

/// What rules and keys look at. The host is asked for each thing at most once per request, and only if something
/// wants it; for headers always, and for all of them at once.
pub struct Facts<'a> {
    host: &'a dyn Host,
    config: &'a Config,
    headers: HeaderList,
    path: OnceCell<Option<Vec<u8>>>,
    authority: OnceCell<Option<Vec<u8>>>,
    source_address: OnceCell<Option<Vec<u8>>>,
    client_address: OnceCell<Option<IpAddr>>,
    attributes: RefCell<Attributes>,
    claims: OnceCell<Option<Value>>,
}

/// Attributes by their paths: a request has few, and a list of few is searched faster than a map.
type Attributes = Vec<(Vec<String>, Option<Vec<u8>>)>;

/// A value that is there exactly once and not empty.
pub fn only<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    let value = values.next().filter(|value| !value.is_empty());
    if values.next().is_some() { None } else { value }
}

impl<'a> Facts<'a> {
    /// Reads the current request.
    pub fn read(host: &'a dyn Host, config: &'a Config) -> Self {
        Self {
            host,
            config,
            headers: host.request_headers(),
            path: OnceCell::new(),
            authority: OnceCell::new(),
            source_address: OnceCell::new(),
            client_address: OnceCell::new(),
            attributes: RefCell::default(),
            claims: OnceCell::new(),
        }
    }

    /// All values of a header, in order, empty ones too.
    pub fn header_values<'b>(&'b self, name: &'b str) -> impl DoubleEndedIterator<Item = &'b [u8]> {
        self.headers.iter().filter(move |(n, _)| n == name).map(|(_, value)| value.as_slice())
    }

    /// A header's value, if it is there exactly once and not empty.
    pub fn header<'b>(&'b self, name: &'b str) -> Option<&'b [u8]> {
        only(self.header_values(name))
    }

    /// The headers, for what is still to be read of them when all else is known.
    pub fn into_headers(self) -> HeaderList {
        self.headers
    }

    /// The names of all headers, in lower case, repeated ones repeatedly.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.headers.iter().map(|(name, _)| name.as_str())
    }

    /// Whether a browser asks beforehand whether it may send a request.
    pub fn is_preflight(&self) -> bool {
        self.method() == Some(b"OPTIONS")
            && self.header("origin").is_some()
            && self.header("access-control-request-method").is_some()
    }

    /// The method.
    pub fn method(&self) -> Option<&[u8]> {
        self.header(":method")
    }

    /// The path, normalised.
    pub fn path(&self) -> Option<&[u8]> {
        let read = || self.header(":path").map(|path| self.config.path.normalize(path).into_owned());
        self.path.get_or_init(read).as_deref()
    }

    /// The values of a query parameter, decoded.
    pub fn query_values(&self, name: &str) -> impl Iterator<Item = Cow<'_, [u8]>> {
        fields::query(self.header(":path").and_then(path::query).unwrap_or_default(), name)
    }

    /// The values of a cookie.
    pub fn cookies(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.header_values("cookie").flat_map(move |header| fields::cookies(header, name))
    }

    /// The host as rules compare it: see [`rules::host`].
    pub fn host(&self) -> Option<&[u8]> {
        self.authority.get_or_init(|| self.header(":authority").and_then(rules::host)).as_deref()
    }

    /// Whether the answer has to be a gRPC one. Never true for a request that Envoy takes for plain HTTP:
    /// the HTTP status of a gRPC answer is 200.
    pub fn is_grpc(&self) -> bool {
        let kind = self.header("content-type").and_then(|kind| kind.strip_prefix(b"application/grpc"));
        kind.is_some_and(|rest| rest.first().is_none_or(|&byte| byte == b'+')) && self.header(":path").is_some()
    }

    /// The client's address, found as the configuration's `client_ip` says.
    pub fn client_address(&self) -> Option<IpAddr> {
        *self.client_address.get_or_init(|| self.resolve(&self.config.client_ip))
    }

    /// The client's address or network as text, found in this way or as the configuration says.
    fn client_ip(&self, settings: Option<&ClientIpSettings>) -> Option<String> {
        let (settings, address) = match settings {
            Some(settings) => (settings, self.resolve(settings)),
            None => (&self.config.client_ip, self.client_address()),
        };
        address.map(|address| settings.group(address).to_string())
    }

    fn resolve(&self, settings: &ClientIpSettings) -> Option<IpAddr> {
        let source = self.source_address.get_or_init(|| self.host.source_address());
        settings.resolve(source.as_deref(), self.header_values("x-forwarded-for"))
    }

    /// An attribute of the host's, as it hands it over.
    fn attribute(&self, path: &[&str]) -> Option<Vec<u8>> {
        let mut attributes = self.attributes.borrow_mut();
        if let Some((_, value)) = attributes.iter().find(|(known, _)| known == path) {
            return value.clone();
        }
        let value = self.host.attribute(path);
        attributes.push((path.iter().map(|&name| name.to_owned()).collect(), value.clone()));
        value
    }

    /// The claims of a bearer token that nobody has verified.
    fn claims(&self) -> Option<&Value> {
        self.claims.get_or_init(|| self.header("authorization").and_then(jwt::claims)).as_ref()
    }
}

/// A request whose key can't be built, where that means it is denied.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyMissing {
    /// The policy of the check.
    pub policy: String,
    /// How it is denied.
    pub refusal: Refusal,
}

/// Builds one check of a request. `None` if it is left out.
///
/// # Errors
/// If a part is missing and the check says `on_missing: deny`.
pub fn build(spec: &CheckSpec, facts: &Facts<'_>) -> Result<Option<Check>, KeyMissing> {
    let mut key = Vec::with_capacity(spec.key.len());
    for part in &spec.key {
        match (part.read(facts), &spec.on_missing) {
            (Some(value), _) => key.push(value),
            (None, OnMissing::Bucket) => key.push(MISSING_PART.to_owned()),
            (None, OnMissing::Skip) => return Ok(None),
            (None, OnMissing::Deny(refusal)) => {
                return Err(KeyMissing { policy: spec.policy.clone(), refusal: refusal.clone() });
            }
        }
    }
    Ok(Some(Check { policy: spec.policy.clone(), key, cost: spec.cost.of(facts), lease: 0 }))
}
