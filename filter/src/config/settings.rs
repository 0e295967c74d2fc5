//! What holds for all rules: `client_ip` and `hash_key`. `path` reads itself.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::fields::{from_text, text, whole};
use crate::cidr::Cidr;
use crate::client_ip::{ClientIpSettings, Trust};
use crate::keys::{HashKey, MIN_HASH_KEY};

/// A block of addresses.
pub(super) struct Block(pub Cidr);

from_text!(Block: |text| text.parse().map(Self));

#[cfg(feature = "schema")]
super::schema::read_as!(ClientIpSettings => RawClientIp);

/// How the client's address is found, and which addresses are one client.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ClientIp", extend("not" = {"required": ["trusted_hops", "trusted_cidrs"]})))]
#[serde(deny_unknown_fields)]
struct RawClientIp {
    /// The client is the entry of `x-forwarded-for` at this place from the right, from 1.
    #[serde(default, deserialize_with = "hops")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::whole::<1, 100>"))]
    trusted_hops: Option<usize>,
    /// The client is the first entry from the right that is in none of these blocks.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    trusted_cidrs: Option<Vec<Block>>,
    /// How many bits of an IPv4 address tell clients apart.
    #[serde(default, deserialize_with = "prefix::<_, 32>")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::whole::<1, 32>"))]
    ipv4_prefix: Option<u8>,
    /// The same for IPv6.
    #[serde(default, deserialize_with = "prefix::<_, 128>")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::whole::<1, 128>"))]
    ipv6_prefix: Option<u8>,
}

impl<'de> Deserialize<'de> for ClientIpSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawClientIp::deserialize(deserializer)?;
        let trust = match (raw.trusted_hops, raw.trusted_cidrs) {
            (None, None) => None,
            (Some(hops), None) => Some(Trust::Hops(hops)),
            (None, Some(blocks)) if !blocks.is_empty() => {
                Some(Trust::Cidrs(blocks.into_iter().map(|block| block.0).collect()))
            }
            (None, Some(_)) => return Err(D::Error::custom("`trusted_cidrs` needs at least one block")),
            (Some(_), Some(_)) => {
                return Err(D::Error::custom("expected one of `trusted_hops` and `trusted_cidrs`, not both"));
            }
        };
        Ok(Self { trust, ipv4_prefix: raw.ipv4_prefix, ipv6_prefix: raw.ipv6_prefix })
    }
}

fn hops<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    whole(deserializer, 1..=100).map(Some)
}

fn prefix<'de, D: Deserializer<'de>, const BITS: u8>(deserializer: D) -> Result<Option<u8>, D::Error> {
    whole(deserializer, 1..=BITS.into()).map(Some)
}

pub(super) fn hash_key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<HashKey>, D::Error> {
    // The message must not show it.
    let too_short = || format!("a hash key has at least {MIN_HASH_KEY} bytes");
    text(deserializer, |secret| HashKey::new(secret.as_bytes()).map(Some).ok_or_else(too_short))
}
