//! The sidecar's configuration: YAML in which unknown fields are errors, and every error names the file,
//! the line and the field.

mod error;
mod file;
mod listeners;
mod store;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

pub use error::ConfigError;
pub(crate) use file::read;
pub use listeners::{Auth, Tls};
use sluice_filter::config::Config as FilterConfig;

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

impl Config {
    /// Reads a configuration. `file_name` is only for messages.
    ///
    /// # Errors
    ///
    /// If the text is not YAML or not a configuration, or if a number can't be held.
    pub fn parse(text: &str, file_name: &str) -> Result<Self, ConfigError> {
        file::parse(text).map_err(|error| error.in_file(file_name))
    }

    /// Reads the filter's configuration, and looks whether every policy that it names is here and none of
    /// its requests is larger than [`Limits`] allow. Returns how many checks it has.
    ///
    /// # Errors
    ///
    /// If the text is not a configuration of the filter, or if the two do not fit.
    pub fn check_filter(&self, text: &str, file_name: &str) -> Result<usize, ConfigError> {
        // First as YAML, for errors that know the line; then as the JSON that Envoy makes of it, by the filter's
        // own reader.
        read::<FilterConfig>(text).map_err(|error| error.in_file(file_name))?;
        let value: serde_json::Value = read(text).map_err(|error| error.in_file(file_name))?;
        let filter = FilterConfig::parse(value.to_string().as_bytes())
            .map_err(|error| ConfigError::Filter { file: file_name.to_owned(), message: error.to_string() })?;
        let mut checks = 0;
        for (field, policy) in filter.policies() {
            if !self.policies.contains_key(policy) {
                return Err(ConfigError::UnknownPolicy {
                    file: file_name.to_owned(),
                    field,
                    policy: policy.to_owned(),
                });
            }
            checks += 1;
        }
        Ok(checks)
    }
}
