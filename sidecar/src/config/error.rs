//! What can be wrong with a configuration.

use crate::policy::RateError;

/// What is wrong, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("{file}: cannot be read: {source}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// A field is not as it must be.
    #[error("{file}: line {line}, column {column}: {field}: {message}")]
    Field {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        column: u64,
        /// The path of the field, such as `policies.per-ip.rate`.
        field: String,
        /// What is wrong with it.
        message: String,
    },
    /// The filter refuses its configuration.
    #[error("{file}: {message}")]
    Filter {
        /// The file.
        file: String,
        /// What the filter says.
        message: String,
    },
    /// A file of Envoy or Kubernetes in which Sluice's filter is not.
    #[error(
        "{file}: no plugin configuration of Sluice is in it: it would be the pluginConfig of a WasmPlugin, the config of \
         an EnvoyExtensionPolicy's wasm, or the configuration of a Wasm filter, and have `sidecar` and `rules`"
    )]
    NoPlugin {
        /// The file.
        file: String,
    },
    /// The filter names a policy that the sidecar doesn't have.
    #[error("{file}: line {line}: {field}: there is no policy {policy:?} in the sidecar's configuration")]
    UnknownPolicy {
        /// The filter's file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The path of the field.
        field: String,
        /// The name.
        policy: String,
    },
}

/// A field's error before it is known which file it is in.
#[derive(Debug)]
pub(crate) struct FieldError {
    pub line: u64,
    pub column: u64,
    pub field: String,
    pub message: String,
}

impl FieldError {
    pub(crate) fn in_file(self, file: &str) -> ConfigError {
        let Self { line, column, field, message } = self;
        ConfigError::Field { file: file.to_owned(), line, column, field, message }
    }
}

/// What is wrong with a policy as a whole.
#[derive(Debug, thiserror::Error)]
pub(super) enum PolicyError {
    #[error(transparent)]
    Rate(#[from] RateError),
    #[error("burst: only a token_bucket has one")]
    BurstWithoutBucket,
    #[error("burst: {0} is out of range, it can be 1 to 1000000000")]
    Burst(u64),
    #[error("lease: a shadow policy denies nobody, so that there is nothing to take ahead: leave one of them out")]
    LeaseOfShadow,
    #[error("align: only a fixed_window can be aligned")]
    AlignWithoutWindow,
    #[error(
        "burst: a bucket of {burst} takes more than 100 years to refill at {rate}: make the burst smaller or the rate higher"
    )]
    Refill { burst: u64, rate: String },
    #[error("an override is one of rate (with or without burst), unlimited: true and blocked: true")]
    Override,
    #[error("overrides: burst without rate: give both")]
    BurstWithoutRate,
}
