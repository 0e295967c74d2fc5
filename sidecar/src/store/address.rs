//! The store's address, as written in the configuration.

use std::fmt;
use std::str::FromStr;

use redis::{ConnectionInfo, IntoConnectionInfo};

/// Where a store is. Its `Display` and `Debug` leave user and password out.
#[derive(Clone)]
pub enum StoreAddress {
    /// This process: nothing is shared with other sidecars, and nothing outlives it.
    Memory,
    /// A Redis server.
    Redis(Box<ConnectionInfo>),
}

/// Why a text is not an address. The text itself is not repeated: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Another scheme.
    #[error("expected the address of a Redis, such as redis://127.0.0.1:6379, or memory")]
    Scheme,
    /// Redis's own rules.
    #[error("not the address of a Redis ({0}): write redis://[user:password@]host[:port][/database]")]
    Redis(String),
}

impl FromStr for StoreAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text == "memory" {
            return Ok(Self::Memory);
        }
        if !text.starts_with("redis://") {
            return Err(AddressError::Scheme);
        }
        let info = text.into_connection_info().map_err(|error| {
            // Only the category: details may quote the address.
            AddressError::Redis(error.category().to_owned())
        })?;
        Ok(Self::Redis(Box::new(info)))
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Redis(info) => write!(f, "redis://{}/{}", info.addr(), info.redis_settings().db()),
        }
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_their_password() {
        let address: StoreAddress = "redis://user:hunter2@redis.example:6380/3".parse().unwrap();
        assert_eq!(address.to_string(), "redis://redis.example:6380/3");
        assert_eq!(format!("{address:?}"), "redis://redis.example:6380/3");
    }

    #[test]
    fn other_addresses_are_refused_without_repeating_them() {
        for text in [
            "",
            "127.0.0.1:6379",
            "http://u:hunter2@x",
            "redis://u:hunter2@x:port",
            "redis://",
            "redis://u:hunter2@x/db",
        ] {
            let error = text.parse::<StoreAddress>().unwrap_err().to_string();
            assert!(error.contains("redis://") && !error.contains("hunter2"), "{text}: {error}");
        }
    }
}
