//! Sluice's sidecar: answers the filter's questions by running one Lua script in Redis.
//!
//! Modules are listed in the order a request meets them.

pub mod admin;
pub mod cli;
pub mod config;
pub mod config_file;
pub mod health;
pub mod http;
pub mod import;
pub mod inspect;
pub mod reload;
pub mod serve;
pub mod tls;
pub mod traces;
pub mod trust;

pub mod engine;
pub mod keys;
pub mod metrics;
pub mod model;
pub mod policy;
pub mod store;
pub mod top;
