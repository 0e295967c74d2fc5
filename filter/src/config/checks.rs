//! `checks`: policies, keys and costs.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::fields::{self, CookieName, HeaderName, Name, OneOrMany};
use super::{MAX_COST, fields::Nothing};
use crate::client_ip::ClientIpSettings;
use crate::keys::{CheckSpec, Cost, CostSource, JwtClaim, KeyPart, OnMissing, Source};
use crate::path::Template;

/// The namespace and the entry of Envoy's `jwt_authn` filter.
const JWT_NAMESPACE: &str = "envoy.filters.http.jwt_authn";
const JWT_PAYLOAD: &str = "payload";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCheck {
    #[serde(deserialize_with = "fields::policy")]
    policy: String,
    key: Vec<KeyPart>,
    #[serde(default)]
    cost: Cost,
    #[serde(default)]
    on_missing: RawOnMissing,
    #[serde(default, deserialize_with = "status")]
    on_missing_status: Option<u16>,
}

#[derive(Default, Deserialize)]
#[serde(rename = "OnMissing", rename_all = "lowercase")]
enum RawOnMissing {
    #[default]
    Bucket,
    Skip,
    Deny,
}

impl<'de> Deserialize<'de> for CheckSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawCheck::deserialize(deserializer)?;
        let on_missing = match (raw.on_missing, raw.on_missing_status) {
            (RawOnMissing::Deny, status) => OnMissing::Deny(status.unwrap_or(429)),
            (_, Some(_)) => return Err(D::Error::custom("`on_missing_status` is for `on_missing: deny`")),
            (RawOnMissing::Bucket, None) => OnMissing::Bucket,
            (RawOnMissing::Skip, None) => OnMissing::Skip,
        };
        Ok(Self { policy: raw.policy, key: raw.key, cost: raw.cost, on_missing, denied: None })
    }
}

fn status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    let status = fields::whole(deserializer, 400..=599)?;
    Ok(u16::try_from(status).ok())
}

impl Default for Cost {
    fn default() -> Self {
        Self::Fixed(1)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCost {
    header: Option<HeaderName>,
    query: Option<Name>,
    #[serde(default = "max_cost", deserialize_with = "fields::cost")]
    max: u64,
    #[serde(default = "one", deserialize_with = "fields::cost")]
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKeyPart {
    client_ip: Option<ClientIpSettings>,
    header: Option<HeaderName>,
    query: Option<Name>,
    cookie: Option<CookieName>,
    path: Option<Nothing>,
    #[serde(default, deserialize_with = "segment")]
    path_segment: Option<usize>,
    template: Option<TemplatePart>,
    method: Option<Nothing>,
    host: Option<Nothing>,
    attribute: Option<Attribute>,
    metadata: Option<Vec<Name>>,
    jwt_claim: Option<OneOrMany<Name>>,
    literal: Option<String>,
    namespace: Option<Name>,
    payload: Option<Name>,
    unverified: Option<bool>,
    #[serde(default)]
    lower: bool,
    #[serde(default)]
    hash: bool,
    default: Option<Name>,
}

fn segment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let number = fields::whole(deserializer, 1..=1000)?;
    Ok(usize::try_from(number).ok())
}

struct TemplatePart(Template);

impl<'de> Deserialize<'de> for TemplatePart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let template = Template::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)?;
        if template.has_placeholder() {
            Ok(Self(template))
        } else {
            Err(D::Error::custom("a template without a placeholder, such as {id}, has no value"))
        }
    }
}

/// `connection.mtls`, or a list where a name has a dot in it.
struct Attribute(Vec<String>);

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
