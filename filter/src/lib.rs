//! Sluice's proxy-wasm filter. Modules are listed in the order a request meets them; the blank lines keep
//! rustfmt from sorting them.
//!
//! Everything but the binding to Envoy is plain Rust behind the [`host::Host`] trait, so that it runs in
//! native tests and under Node as it does in the proxy.

pub mod config;

// The only module that touches `proxy_wasm`.
#[cfg(target_os = "wasi")]
mod binding;

pub mod host;

pub mod worker;

pub mod rules;

pub mod path;

pub mod pattern;

pub mod client_ip;

pub mod cidr;

pub mod keys;

pub mod spoofed;

pub mod leases;

pub mod denials;

pub mod trace;

pub mod batch;

pub mod wire;

pub mod headers;

pub mod answer;

pub mod denied;

pub mod metrics;

pub mod throttle;

pub mod token;

mod line;

mod name;

#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzz;

pub use config::{Config, ConfigError};
