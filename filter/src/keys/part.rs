//! Where one part of a key comes from, and what is done with it.

use std::borrow::Cow;

use super::jwt::JwtClaim;
use super::{Facts, attributes, encode};
use crate::client_ip::ClientIpSettings;
use crate::path::Template;

/// One part of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPart {
    /// Where it comes from.
    pub source: Source,
    /// Whether it is brought into lower case.
    pub lower: bool,
    /// What a request without a value is taken to have.
    pub default: Option<String>,
    /// Whether it leaves the filter only as a keyed digest.
    pub hash: bool,
}

/// Where a part comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The client's address, or its network; how it is found, where it differs from the configuration's
    /// `client_ip`.
    ClientIp(Option<Box<ClientIpSettings>>),
    /// A header, by its name in lower case. `:authority` is taken as rules compare it: see
    /// [`rules::host`](crate::rules::host).
    Header(String),
    /// A query parameter, by its name, decoded.
    Query(String),
    /// A cookie.
    Cookie(String),
    /// The path, normalised.
    Path,
    /// One segment of it, from 1.
    PathSegment(usize),
    /// What stands at a template's placeholders.
    Template(Template),
    /// The method.
    Method,
    /// The host as rules compare it: see [`rules::host`](crate::rules::host).
    Host,
    /// An attribute of Envoy's, by its path.
    Attribute(Vec<String>),
    /// Dynamic metadata of the request: the namespace and the path below it.
    Metadata(Vec<String>),
    /// A claim of a JSON Web Token.
    JwtClaim(JwtClaim),
    /// A constant.
    Literal(String),
}

impl From<Source> for KeyPart {
    fn from(source: Source) -> Self {
        Self { source, lower: false, default: None, hash: false }
    }
}

impl KeyPart {
    /// The part as it is sent. `None` if it is missing, empty or ambiguous.
    pub(super) fn read(&self, facts: &Facts<'_>) -> Option<String> {
        let value = self.source.read(facts).filter(|value| !value.is_empty());
        let value = value.or_else(|| self.default.as_deref().map(|text| Cow::Borrowed(text.as_bytes())))?;
        let value = if self.lower { Cow::Owned(lower(&value)) } else { value };
        if !self.hash {
            return Some(encode::part(&value));
        }
        // A configuration without the key is refused.
        facts.config.hash_key.as_ref().map(|key| key.digest(&value))
    }
}

impl Source {
    fn read<'a>(&'a self, facts: &'a Facts<'_>) -> Option<Cow<'a, [u8]>> {
        let owned = |text: String| Cow::Owned(text.into_bytes());
        match self {
            Self::ClientIp(settings) => facts.client_ip(settings.as_deref()).map(owned),
            // Spelt in another way, or with another port, it would be another bucket of the client's choice.
            Self::Header(name) if name == ":authority" => facts.host().map(Cow::Borrowed),
            Self::Header(name) => facts.header(name).map(Cow::Borrowed),
            Self::Query(name) => only(facts.query_values(name)),
            Self::Cookie(name) => only(facts.cookies(name)).map(Cow::Borrowed),
            Self::Path => facts.path().map(Cow::Borrowed),
            Self::PathSegment(number) => facts
                .path()?
                .strip_prefix(b"/")?
                .split(|&byte| byte == b'/')
                .nth(number.saturating_sub(1))
                .map(Cow::Borrowed),
            Self::Template(template) => template.values(facts.path()?).map(Cow::Owned),
            Self::Method => facts.method().map(Cow::Borrowed),
            Self::Host => facts.host().map(Cow::Borrowed),
            Self::Attribute(path) => attributes::read(facts, path).map(Cow::Owned),
            Self::Metadata(path) => attributes::metadata(facts, path).map(Cow::Owned),
            Self::JwtClaim(claim) => claim.read(facts).map(Cow::Owned),
            Self::Literal(text) => Some(Cow::Borrowed(text.as_bytes())),
        }
    }
}

/// The one value; with several it is nobody's to say which one counts.
pub(super) fn only<T>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let value = values.next();
    if values.next().is_some() { None } else { value }
}

/// In lower case, as far as it is text.
fn lower(value: &[u8]) -> Vec<u8> {
    let mut lower = Vec::with_capacity(value.len());
    for chunk in value.utf8_chunks() {
        lower.extend_from_slice(chunk.valid().to_lowercase().as_bytes());
        lower.extend_from_slice(chunk.invalid());
    }
    lower
}
