//! `checks`: policies, keys and costs.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::fields::{self, CookieName, HeaderName, Name, OneOrMany, from_text};
use super::{MAX_COST, fields::Nothing};
use crate::client_ip::ClientIpSettings;
use crate::keys::{CheckSpec, Cost, CostSource, JwtClaim, KeyPart, OnMissing, Refusal, Source};
use crate::path::Template;

/// The namespace and the entry of Envoy's `jwt_authn` filter.
const JWT_NAMESPACE: &str = "envoy.filters.http.jwt_authn";
const JWT_PAYLOAD: &str = "payload";

#[cfg(feature = "schema")]
super::schema::read_as!(CheckSpec => RawCheck);

/// What a request is charged to.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "schema",
    schemars(
        rename = "Check",
        extend("dependencies" = {
            "on_missing_status": {
                "required": ["on_missing"],
                "properties": {"on_missing": {"const": "deny"}},
                "anyOf": [
                    {"required": ["on_missing_challenge"]},
                    {"properties": {"on_missing_status": {"not": {"enum": [401, 407]}}}},
                ],
            },
            "on_missing_challenge": {
                "required": ["on_missing_status"],
                "properties": {"on_missing_status": {"enum": [401, 407]}},
            },
        })
    )
)]
#[serde(deny_unknown_fields)]
struct RawCheck {
    /// The name of a policy of the sidecar's.
    #[serde(deserialize_with = "fields::policy")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::policy"))]
    policy: String,
    /// Whose limit it is. An empty list is one bucket for everybody.
    key: Vec<KeyPart>,
    /// How much is taken, 0 to 1,000,000,000; 0 only looks.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("default" = 1)))]
    cost: Cost,
    /// What happens to a request without a value for the key.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "bucket")))]
    on_missing: RawOnMissing,
    /// The status for `on_missing: deny`, 400 to 599 but for 405 and 426; without it, 429.
    #[serde(default, deserialize_with = "status")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::missing_status"))]
    on_missing_status: Option<u16>,
    /// What `WWW-Authenticate` says with a status of 401, or `Proxy-Authenticate` with 407, such as `Bearer`.
    #[serde(default, deserialize_with = "challenge")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::challenge"))]
    on_missing_challenge: Option<String>,
}

#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename = "OnMissing", rename_all = "lowercase")]
enum RawOnMissing {
    /// All of them share a bucket.
    #[default]
    Bucket,
    /// This check is left out.
    Skip,
    /// It is denied.
    Deny,
}

impl<'de> Deserialize<'de> for CheckSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawCheck::deserialize(deserializer)?;
        let (status, challenge) = (raw.on_missing_status, raw.on_missing_challenge);
        if matches!(status, Some(401 | 407)) != challenge.is_some() {
            let message = "HTTP demands `on_missing_challenge` of `on_missing_status: 401` and 407, and of no other";
            return Err(D::Error::custom(message));
        }
        let on_missing = match (raw.on_missing, status) {
            (RawOnMissing::Deny, status) => OnMissing::Deny(Refusal { status: status.unwrap_or(429), challenge }),
            (_, Some(_)) => return Err(D::Error::custom("`on_missing_status` is for `on_missing: deny`")),
            (RawOnMissing::Bucket, None) => OnMissing::Bucket,
            (RawOnMissing::Skip, None) => OnMissing::Skip,
        };
        Ok(Self { policy: raw.policy, key: raw.key, cost: raw.cost, on_missing, denied: None })
    }
}

fn status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    match fields::whole(deserializer, 400..=599)? {
        // HTTP has them say which method, or which protocol, would do.
        405 | 426 => Err(D::Error::custom("another method or protocol brings no key: 405 and 426 are not for this")),
        status => Ok(Some(status)),
    }
}

/// A challenge, RFC 9110 section 11.3: a scheme, and perhaps parameters.
fn challenge<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    fields::text(deserializer, |text| {
        let scheme = text.split(' ').next().unwrap_or_default();
        if fields::is_token(scheme) && fields::is_printable(&text) {
            Ok(Some(text))
        } else {
            Err("expected a challenge, such as \"Bearer\" or \"Bearer realm=\\\"api\\\"\"")
        }
    })
}

impl Default for Cost {
    fn default() -> Self {
        Self::Fixed(1)
    }
}

/// A cost that requests tell.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ToldCost", extend("oneOf" = super::schema::one_of(&["header", "query"]))))]
#[serde(deny_unknown_fields)]
pub(super) struct RawCost {
    /// In this header.
    header: Option<HeaderName>,
    /// In this query parameter.
    query: Option<Name>,
    /// More than this is this.
    #[serde(default = "max_cost", deserialize_with = "fields::cost")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::whole::<0, MAX_COST>"))]
    max: u64,
    /// What is missing, there twice or no whole number is this.
    #[serde(default = "one", deserialize_with = "fields::cost")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::whole::<0, MAX_COST>"))]
    default: u64,
}

fn max_cost() -> u64 {
    MAX_COST
}

fn one() -> u64 {
    1
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Cost;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from 0 to {MAX_COST}, {{\"header\": name}} or {{\"query\": name}}")
            }

            fn visit_u64<E: Error>(self, cost: u64) -> Result<Cost, E> {
                let in_range = Some(cost).filter(|&cost| cost <= MAX_COST);
                in_range.map(Cost::Fixed).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(cost), &self))
            }

            fn visit_f64<E: Error>(self, cost: f64) -> Result<Cost, E> {
                let whole = fields::from_double(cost).filter(|&cost| cost <= MAX_COST);
                whole.map(Cost::Fixed).ok_or_else(|| E::invalid_value(Unexpected::Float(cost), &self))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Cost, A::Error> {
                let raw = RawCost::deserialize(MapAccessDeserializer::new(map))?;
                let by = match (raw.header, raw.query) {
                    (Some(name), None) => CostSource::Header(name.0),
                    (None, Some(name)) => CostSource::Query(name.0),
                    _ => return Err(A::Error::custom("expected one of `header` and `query`")),
                };
                if raw.default > raw.max {
                    return Err(A::Error::custom("`default` is above `max`"));
                }
                Ok(Cost::Told { by, max: raw.max, default: raw.default })
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// The fields of which a part of a key has one.
#[cfg(feature = "schema")]
const SOURCES: [&str; 13] = [
    "client_ip",
    "header",
    "query",
    "cookie",
    "path",
    "path_segment",
    "template",
    "method",
    "host",
    "attribute",
    "metadata",
    "jwt_claim",
    "literal",
];

/// One part of a key: where it comes from, and what is done with it.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "schema",
    schemars(
        rename = "KeyPartObject",
        extend("oneOf" = super::schema::one_of(&SOURCES)),
        extend("dependencies" = {
            "namespace": {"required": ["jwt_claim"], "properties": {"unverified": {"const": false}}},
            "payload": {"required": ["jwt_claim"], "properties": {"unverified": {"const": false}}},
            "unverified": ["jwt_claim"],
        })
    )
)]
#[serde(deny_unknown_fields)]
pub(super) struct RawKeyPart {
    /// The client's address, found in another way than the configuration's `client_ip` says.
    client_ip: Option<ClientIpSettings>,
    /// A header.
    header: Option<HeaderName>,
    /// A query parameter.
    query: Option<Name>,
    /// A cookie.
    cookie: Option<CookieName>,
    /// The path, as rules see it.
    path: Option<Nothing>,
    /// One segment of the path, from 1.
    #[serde(default, deserialize_with = "segment")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::whole::<1, 1000>"))]
    path_segment: Option<usize>,
    /// What stands at the placeholders of a path of this form, such as `/users/{id}/...`.
    template: Option<TemplatePart>,
    /// The method.
    method: Option<Nothing>,
    /// The host, without a port.
    host: Option<Nothing>,
    /// An attribute of Envoy's, such as `connection.mtls`; a list where a name has a dot in it.
    attribute: Option<Attribute>,
    /// Dynamic metadata: the namespace, and the names below it.
    #[cfg_attr(feature = "schema", schemars(length(min = 2)))]
    metadata: Option<Vec<Name>>,
    /// A claim of a JSON Web Token; a list for one inside another.
    jwt_claim: Option<OneOrMany<Name>>,
    /// A constant.
    literal: Option<String>,
    /// Of `jwt_claim`: the metadata namespace of verified tokens, if not that of Envoy's `jwt_authn`.
    namespace: Option<Name>,
    /// Of `jwt_claim`: the name of the payload there, if not `payload`.
    payload: Option<Name>,
    /// Of `jwt_claim`: take the token from the request, whoever signed it.
    unverified: Option<bool>,
    /// Bring it into lower case.
    #[serde(default)]
    lower: bool,
    /// Let it leave the proxy only as a keyed digest; needs `hash_key`.
    #[serde(default)]
    hash: bool,
    /// What a request without a value is taken to have.
    default: Option<Name>,
}

fn segment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    fields::whole(deserializer, 1..=1000).map(Some)
}

pub(super) struct TemplatePart(Template);

from_text!(TemplatePart: |text| match Template::parse(&text) {
    Ok(template) if template.has_placeholder() => Ok(Self(template)),
    Ok(_) => Err("a template without a placeholder, such as {id}, has no value"),
    Err(error) => Err(error),
});

/// `connection.mtls`, or a list where a name has a dot in it.
pub(super) struct Attribute(Vec<String>);

impl<'de> Deserialize<'de> for Attribute {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names: Vec<_> = OneOrMany::<Name>::deserialize(deserializer)?.0.into_iter().map(|name| name.0).collect();
        match names.as_slice() {
            [path] if path.split('.').any(str::is_empty) => Err(D::Error::custom("this is no attribute")),
            [path] => Ok(Self(path.split('.').map(str::to_owned).collect())),
            _ => Ok(Self(names)),
        }
    }
}

impl RawKeyPart {
    fn source(self) -> Result<Source, &'static str> {
        const EXPECTED: &str = "expected one of `client_ip`, `header`, `query`, `cookie`, `path`, `path_segment`, \
            `template`, `method`, `host`, `attribute`, `metadata`, `jwt_claim` and `literal`";
        let names = |names: Vec<Name>| names.into_iter().map(|name| name.0).collect::<Vec<_>>();
        let is_claim = self.jwt_claim.is_some();
        let is_token_field = self.namespace.is_some() || self.payload.is_some() || self.unverified.is_some();
        let in_metadata = self.namespace.is_some() || self.payload.is_some();
        let claim = self.jwt_claim.map(|claim| {
            let path = names(claim.0);
            if self.unverified == Some(true) {
                return Source::JwtClaim(JwtClaim::Unverified(path));
            }
            let mut full = vec![self.namespace.map_or_else(|| JWT_NAMESPACE.to_owned(), |name| name.0)];
            full.push(self.payload.map_or_else(|| JWT_PAYLOAD.to_owned(), |name| name.0));
            full.extend(path);
            Source::JwtClaim(JwtClaim::Verified(full))
        });
        if self.metadata.as_ref().is_some_and(|path| path.len() < 2) {
            return Err("`metadata` is a namespace and at least one name below it");
        }
        let candidates = [
            self.client_ip.map(|settings| {
                Source::ClientIp((settings != ClientIpSettings::default()).then(|| Box::new(settings)))
            }),
            self.header.map(|name| Source::Header(name.0)),
            self.query.map(|name| Source::Query(name.0)),
            self.cookie.map(|name| Source::Cookie(name.0)),
            self.path.map(|_| Source::Path),
            self.path_segment.map(Source::PathSegment),
            self.template.map(|template| Source::Template(template.0)),
            self.method.map(|_| Source::Method),
            self.host.map(|_| Source::Host),
            self.attribute.map(|path| Source::Attribute(path.0)),
            self.metadata.map(|path| Source::Metadata(names(path))),
            claim,
            self.literal.map(Source::Literal),
        ];
        let mut sources = candidates.into_iter().flatten();
        let (Some(source), None) = (sources.next(), sources.next()) else { return Err(EXPECTED) };
        if is_token_field && !is_claim {
            return Err("`namespace`, `payload` and `unverified` are for `jwt_claim`");
        }
        if in_metadata && self.unverified == Some(true) {
            return Err("`namespace` and `payload` are where a verified token is: `unverified` does not look there");
        }
        Ok(source)
    }
}

impl<'de> Deserialize<'de> for KeyPart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Part;

        impl<'de> Visitor<'de> for Part {
            type Value = KeyPart;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"client_ip\", \"path\", \"method\", \"host\" or an object such as {\"header\": name}")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<KeyPart, E> {
                let source = match text {
                    "client_ip" => Source::ClientIp(None),
                    "path" => Source::Path,
                    "method" => Source::Method,
                    "host" => Source::Host,
                    _ => return Err(E::invalid_value(Unexpected::Str(text), &self)),
                };
                Ok(source.into())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<KeyPart, A::Error> {
                let mut raw = RawKeyPart::deserialize(MapAccessDeserializer::new(map))?;
                let (lower, hash) = (raw.lower, raw.hash);
                let default = raw.default.take().map(|text| text.0);
                let source = raw.source().map_err(A::Error::custom)?;
                Ok(KeyPart { source, lower, default, hash })
            }
        }

        deserializer.deserialize_any(Part)
    }
}
