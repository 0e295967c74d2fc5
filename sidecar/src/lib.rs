//! Sluice's sidecar: answers the filter's questions by running one Lua script in Redis.
//!
//! Modules are listed in the order a request meets them.

pub mod cli;
pub mod config;
pub mod http;
pub mod inspect;
pub mod serve;

pub mod engine;
pub mod keys;
pub mod model;
pub mod policy;
pub mod store;
