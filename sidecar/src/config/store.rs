//! `store` as it stands in the file: an address, or a map with an address and what belongs to it.

use std::fmt;
use std::path::PathBuf;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::file::from_text;
use crate::store::{OnStoreError, SentinelLogin, Share, StoreAddress, TlsFiles};

/// The store of the file.
#[derive(Debug)]
pub(super) struct StoreFile {
    pub address: StoreAddress,
    pub username: Option<String>,
    pub password_file: Option<PathBuf>,
    pub tls: TlsFiles,
    pub sentinel: SentinelLogin,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoreFields {
    #[serde(deserialize_with = "from_text")]
    url: StoreAddress,
    username: Option<String>,
    password_file: Option<PathBuf>,
    #[serde(default)]
    tls: TlsFields,
    #[serde(default)]
    sentinel: SentinelFields,
}

#[derive(Deserialize, Default)]
#[serde(try_from = "TlsText")]
struct TlsFields(TlsFiles);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsText {
    ca_file: Option<PathBuf>,
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    server_name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct SentinelFields {
    username: Option<String>,
    password_file: Option<PathBuf>,
}

/// What is decided without the store, as written.
#[derive(Deserialize, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnStoreErrorName {
    #[default]
    Fail,
    Deny,
    Allow,
    Local,
}

impl OnStoreErrorName {
    pub(super) fn with_share(self, share: Share) -> OnStoreError {
        match self {
            Self::Fail => OnStoreError::Fail,
            Self::Deny => OnStoreError::Deny,
            Self::Allow => OnStoreError::Allow,
            Self::Local => OnStoreError::Local(share),
        }
    }
}

impl From<StoreAddress> for StoreFile {
    fn from(address: StoreAddress) -> Self {
        let (tls, sentinel) = (TlsFiles::default(), SentinelLogin::default());
        Self { address, username: None, password_file: None, tls, sentinel }
    }
}

impl TryFrom<TlsText> for TlsFields {
    type Error = &'static str;

    fn try_from(text: TlsText) -> Result<Self, &'static str> {
        let identity = match (text.cert_file, text.key_file) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err("cert_file and key_file belong together: give both, or none"),
        };
        Ok(Self(TlsFiles { ca_file: text.ca_file, identity, server_name: text.server_name }))
    }
}

impl<'de> Deserialize<'de> for StoreFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrMap;

        impl<'de> Visitor<'de> for TextOrMap {
            type Value = StoreFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address such as redis://127.0.0.1:6379, or a map with one as its url")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<StoreFile, E> {
                text.parse::<StoreAddress>().map(StoreFile::from).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<StoreFile, A::Error> {
                let fields = StoreFields::deserialize(MapAccessDeserializer::new(map))?;
                StoreFile::checked(fields).map_err(A::Error::custom)
            }
        }

        deserializer.deserialize_any(TextOrMap)
    }
}

impl StoreFile {
    fn checked(fields: StoreFields) -> Result<Self, &'static str> {
        let StoreFields { url: address, username, password_file, tls: TlsFields(tls), sentinel } = fields;
        let shown = address.to_string();
        if tls != TlsFiles::default() && !shown.starts_with("rediss") {
            return Err("tls: the address is one without TLS: write rediss:// instead of redis://");
        }
        let sentinel = SentinelLogin { username: sentinel.username, password_file: sentinel.password_file };
        if sentinel != SentinelLogin::default() && !shown.contains("+sentinel://") {
            return Err("sentinel: the address is none of Sentinels: write redis+sentinel://HOST/NAME");
        }
        if matches!(address, StoreAddress::Memory) && (username.is_some() || password_file.is_some()) {
            return Err("memory needs neither username nor password_file");
        }
        if let StoreAddress::Redis(redis) = &address {
            if username.is_some() && redis.username.is_some() {
                return Err("username: the address has one already: leave one of them out");
            }
            if password_file.is_some() && redis.password.is_some() {
                return Err("password_file: the address has a password already: leave one of them out");
            }
        }
        Ok(Self { address, username, password_file, tls, sentinel })
    }
}

/// A share, as a number.
pub(super) fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Share>, D::Error> {
    let share = f64::deserialize(deserializer)?;
    Share::new(share)
        .map(Some)
        .ok_or_else(|| D::Error::custom(format_args!("{share} is no share: it is more than 0 and at most 1")))
}
