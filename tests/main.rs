//! End-to-end tests: real Envoy, the plugin as it is released, a real sidecar, real Redis. One binary, so that what
//! they share is compiled and linked once; one file per idea:
//!
//!     cargo test -p sluice --test e2e -- hostile
//!
//! `make setup` gets the programs they need.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test, as it should"
)]

mod support;

mod admin;
mod api;
mod batching;
mod bench;
mod bodies;
mod cluster;
mod compose;
mod config_files;
mod docs;
mod documents;
mod exactness;
mod failures;
mod gateway;
mod grants;
mod ground;
mod health;
mod hostile;
mod keys;
mod leases;
mod limits;
mod logs;
mod manifests;
mod metrics;
mod oracle;
mod page;
mod reload;
mod schema;
mod script;
mod security;
mod store;
mod traces;
