//! The sidecar's configuration: YAML in which unknown fields are errors, and every error names the file,
//! the line and the field.

mod difference;
mod error;
mod file;
mod listeners;
mod plugins;
mod store;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::Path;

pub use error::ConfigError;
pub(crate) use file::read;
pub use listeners::{Auth, Tls};

use crate::policy::Policies;
use crate::store::StoreSettings;

/// Everything `sluice serve` needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen for questions, 127.0.0.1:8080 if not given.
    pub listen: SocketAddr,
    /// Where metrics are told, 127.0.0.1:8081 if not given; `None` is nowhere.
    pub admin: Option<SocketAddr>,
    /// Who may ask. Without it everybody who reaches `listen`.
    pub auth: Option<Auth>,
    /// TLS on `listen`. Without it there is none.
    pub tls: Option<Tls>,
    /// Where the counts are kept, this process's memory if not given, and how it is asked.
    pub store: StoreSettings,
    /// How many sidecars share the limits, for a store that is decided without.
    pub replicas: NonZeroU32,
    /// What a question may be.
    pub limits: Limits,
    /// The policies, by name.
    pub policies: Policies,
}

/// Bounds on what a single question may be, so that none can hold up the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Checks of a whole batch. They are decided in one script run, during which Redis serves nobody else.
    pub batch_checks: usize,
    /// Checks of one request.
    pub request_checks: usize,
    /// Bytes of a key, all its parts together.
    pub key_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { body_bytes: 1 << 20, batch_checks: 512, request_checks: 64, key_bytes: 16 << 10 }
    }
}

/// The text of a file.
///
/// # Errors
///
/// If it can't be read, or is not UTF-8.
pub fn read_file(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|source| ConfigError::Read { file: path.display().to_string(), source })
}

impl Config {
    /// Reads a configuration. `file_name` is only for messages.
    ///
    /// # Errors
    ///
    /// If the text is not YAML or not a configuration, or if a number can't be held.
    pub fn parse(text: &str, file_name: &str) -> Result<Self, ConfigError> {
        file::parse(text).map_err(|error| error.in_file(file_name))
    }

    /// Reads the filter's configuration, by itself or in a whole manifest or bootstrap, and looks whether every policy
    /// that it names is here. Returns how many checks it has.
    ///
    /// # Errors
    ///
    /// If there is no configuration of the filter in the text, or a wrong one, or if the two do not fit.
    pub fn check_filter(&self, text: &str, file_name: &str) -> Result<usize, ConfigError> {
        let plugins = plugins::read_all(text, file_name)?;
        let mut checks = 0;
        for plugin in &plugins {
            for (field, policy) in plugin.config.policies() {
                if !self.policies.contains_key(policy) {
                    let (line, field) = plugin.place(&field);
                    let (file, policy) = (file_name.to_owned(), policy.to_owned());
                    return Err(ConfigError::UnknownPolicy { file, line, field, policy });
                }
                checks += 1;
            }
        }
        Ok(checks)
    }
}
