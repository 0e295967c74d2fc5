//! Sluice's proxy-wasm filter. Modules are listed in the order a request meets them.

pub mod wire;
