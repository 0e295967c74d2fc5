//! What the end-to-end tests stand on: real processes on ports of their own, a client, an upstream, and the
//! invariants that hold after every test.
//!
//! Everything that is started is stopped when its value is dropped, by the process id it was started with.

mod certificates;
mod client;
mod collector;
mod envoy;
mod fake_sidecar;
mod invariants;
mod metrics;
mod ports;
mod process;
mod proxy;
mod redis;
mod sidecar;
mod stack;
mod tools;
mod upstream;

pub use certificates::{Authority, Certificate};
pub use client::{Answer, Client};
pub use collector::{Collector, Told};
pub use envoy::{Envoy, EnvoyOptions};
pub use fake_sidecar::{FakeSidecar, Reply};
pub use invariants::{assert_invariants, assert_invariants_of};
pub use metrics::Metrics;
pub use ports::Port;
pub use process::{Process, eventually};
pub use proxy::{Fault, Proxy};
pub use redis::{Certificates, Redis, RedisCluster, RedisOptions, RedisTls, Sentinels, SentinelsOptions};
pub use sidecar::Sidecar;
pub use stack::{Stack, plugin_config};
pub use tools::{panicking_plugin, plugin, repository, sluice, tool};
pub use upstream::Upstream;
