//! What the filter's denial cache takes: Envoy's memory before and after its worker has remembered many denials.

use std::path::Path;

use serde::Serialize;
use serde_json::json;

use super::rows::policies;
use super::support::{Envoy, EnvoyOptions, Redis, Sidecar, plugin_config};
use super::wrk::{self, Plan};

/// How many denials are to be remembered.
const DENIALS: u32 = 100_000;
const CONNECTIONS: u32 = 128;
/// How long load is put on until all are known.
const RUNS_S: [u32; 4] = [3, 6, 12, 24];
/// None may be forgotten by then.
const KEPT_S: u32 = 60;

/// What remembered denials take.
#[derive(Debug, Serialize)]
pub struct Denials {
    /// How many: on a slow machine fewer than [`DENIALS`].
    pub count: u64,
    /// Envoy's resident memory.
    pub bytes: i64,
}

/// Measures it.
pub async fn denials(wrk: &Path, script: &Path) -> Result<Denials, String> {
    let redis = Redis::start().await;
    let sidecar = Sidecar::start(redis.port(), &policies()).await;
    let mut plugin = plugin_config(&json!([{"checks": [{"policy": "blocked", "key": [{"header": "x-key"}]}]}]));
    plugin["denial_cache"] = json!({"max_age": format!("{KEPT_S}s"), "entries": DENIALS});
    let options = EnvoyOptions { plugin, sidecars: vec![sidecar.port()], ..EnvoyOptions::default() };
    let envoy = Envoy::start(&options).await;
    let load = |keys, seconds| {
        let plan = Plan { port: envoy.port(), path: "/", keys, checks: None, connections: CONNECTIONS, seconds };
        let load = wrk::run(wrk, script, plan)?;
        if load.broken > 0 || load.not_2xx != load.requests {
            return Err(format!("memory: not everything was denied: {load:?}"));
        }
        Ok(load)
    };
    // What connections and their buffers take is not counted: they are there before as well.
    load(1, 1)?;
    let before = envoy.process.resident_bytes();
    let checks_before = envoy.metric("checks").await;
    // wrk begins with the same keys each time, and races through those that are known.
    let mut count = 0;
    for seconds in RUNS_S {
        load(DENIALS, seconds)?;
        count = envoy.metric("checks").await - checks_before;
        if count >= u64::from(DENIALS) {
            break;
        }
    }
    if count < u64::from(DENIALS) / 4 {
        return Err(format!("memory: only {count} denials within {} s", RUNS_S.iter().sum::<u32>()));
    }
    Ok(Denials { count: count.min(u64::from(DENIALS)), bytes: envoy.process.resident_bytes() - before })
}
