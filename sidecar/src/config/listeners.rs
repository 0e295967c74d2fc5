//! Who may ask, and how: `admin`, `auth` and `tls`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Who may ask on the check listener.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// A file with one bearer token a line: whoever sends one of them is answered.
    #[serde(deserialize_with = "path")]
    pub token_file: PathBuf,
}

/// How the check listener speaks TLS. All files are PEM.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate, and those between it and the root.
    #[serde(deserialize_with = "path")]
    pub cert_file: PathBuf,
    /// Its private key.
    #[serde(deserialize_with = "path")]
    pub key_file: PathBuf,
    /// Whose certificates clients have to show. Without it they need none.
    #[serde(default, deserialize_with = "some_path")]
    pub client_ca_file: Option<PathBuf>,
}

/// The admin listener.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admin {
    /// Where it listens.
    pub listen: SocketAddr,
    /// A file with one bearer token a line: whoever sends one of them may use more than probes and metrics. Without it
    /// everybody on this machine may, and nobody else.
    #[serde(default, deserialize_with = "some_path")]
    pub token_file: Option<PathBuf>,
}

/// [`Admin`], or `off`.
pub(super) struct AdminFile(pub Option<Admin>);

impl Default for AdminFile {
    fn default() -> Self {
        Self(Some(Admin { listen: SocketAddr::from(([127, 0, 0, 1], 8081)), token_file: None }))
    }
}

impl<'de> Deserialize<'de> for AdminFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = AdminFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("{listen: address, token_file: file}, or off")
            }

            /// `off` is a truth value in YAML 1.1, and a text in 1.2.
            fn visit_bool<E: Error>(self, on: bool) -> Result<AdminFile, E> {
                if on { Err(E::invalid_value(serde::de::Unexpected::Bool(on), &self)) } else { Ok(AdminFile(None)) }
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<AdminFile, E> {
                if text == "off" {
                    Ok(AdminFile(None))
                } else {
                    Err(E::invalid_value(serde::de::Unexpected::Str(text), &self))
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AdminFile, A::Error> {
                Admin::deserialize(MapAccessDeserializer::new(map)).map(|admin| AdminFile(Some(admin)))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let path = PathBuf::deserialize(deserializer)?;
    if path.as_os_str().is_empty() { Err(D::Error::custom("the name of the file is empty")) } else { Ok(path) }
}

fn some_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    path(deserializer).map(Some)
}
