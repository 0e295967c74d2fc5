//! The way of a request: wrk, Envoy with the plugin, the sidecar, Redis. One Envoy per setup, and all of them run all
//! the time, so that rows can be measured in turns and share whatever else the machine does.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::counters::Commands;
use super::figures::{Figure, Figures};
use super::rows::{MANY_KEYS, Row, Setup, policies};
use super::snapshot::{Snapshot, figures, verify};
use super::support::{Client, Envoy, EnvoyOptions, Redis, Sidecar};
use super::wrk::{self, Plan};

/// How many checks of one policy are asked at once to use limits up.
const BATCH: u32 = 250;

/// The running programs.
pub struct Gateway {
    pub redis: Redis,
    pub sidecar: Sidecar,
    envoys: BTreeMap<Setup, Envoy>,
    /// What answers the callouts of [`Setup::Callout`].
    always_the_same: Option<Envoy>,
    wrk: PathBuf,
    script: PathBuf,
}

impl Gateway {
    /// Starts what these setups need, and uses every limit up that is to be.
    pub async fn start(setups: &[Setup], wrk: PathBuf, script: PathBuf) -> Result<Self, String> {
        let redis = Redis::start().await;
        let sidecar = Sidecar::start(redis.port(), &policies()).await;
        let mut gateway = Self { redis, sidecar, envoys: BTreeMap::new(), always_the_same: None, wrk, script };
        for &setup in setups {
            let mut options = EnvoyOptions { plugin: setup.plugin(), ..EnvoyOptions::default() };
            options.sidecars = match setup {
                Setup::Callout => vec![gateway.start_always_the_same().await?],
                _ => vec![gateway.sidecar.port()],
            };
            if setup == Setup::NoFilter {
                options.manager = json!({"http_filters": [router()]});
            }
            gateway.envoys.insert(setup, Envoy::start(&options).await);
        }
        if setups.contains(&Setup::Denied) {
            use_up(&gateway.sidecar, "once-a-day", MANY_KEYS).await?;
        }
        Ok(gateway)
    }

    /// An Envoy that answers everything as the sidecar answers one allowed check. Returns its port.
    async fn start_always_the_same(&mut self) -> Result<u16, String> {
        let question = json!({"requests": [{"checks": [{"policy": "token-bucket", "key": ["key-0000000"]}]}]});
        let answer = Client::new().post(self.sidecar.port(), "/v1/check", question.to_string()).await;
        if answer.json()["decisions"][0]["allowed"] != true {
            return Err(format!("the sidecar does not allow the first check: {answer:?}"));
        }
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        let response = json!({"status": 200, "body": {"inline_string": body}});
        let host = json!({"name": "all", "domains": ["*"],
            "routes": [{"match": {"prefix": "/"}, "direct_response": response}]});
        let options = EnvoyOptions {
            manager: json!({"http_filters": [router()], "route_config": {"virtual_hosts": [host]}}),
            // Never called. Without one, Envoy would answer as upstreams do here.
            upstream: Some(1),
            ..EnvoyOptions::default()
        };
        let envoy = self.always_the_same.insert(Envoy::start(&options).await);
        Ok(envoy.port())
    }

    /// Measures one cell, and fails if any request went another way than the row says.
    pub async fn measure(&self, row: Row, connections: u32, seconds: u32) -> Result<Figures, String> {
        let envoy = &self.envoys[&row.setup];
        let before = self.snapshot(envoy).await?;
        let plan = Plan { port: envoy.port(), path: "/api/", keys: row.keys, checks: None, connections, seconds };
        let load = wrk::run(&self.wrk, &self.script, plan)?;
        let after = self.snapshot(envoy).await?;
        let spent = after.since(&before);
        verify(row.setup, connections, &load, &spent)
            .map_err(|error| format!("{}, {connections} connections: {error}", row.name()))?;
        Ok(figures(&load, &spent, load.requests as f64))
    }

    /// The sidecar without Envoy: batches of this many checks. The figures are per check.
    pub fn measure_sidecar(&self, checks: u32, connections: u32, seconds: u32) -> Result<Figures, String> {
        let before = self.snapshot_without_envoy()?;
        let plan = Plan {
            port: self.sidecar.port(),
            path: "/v1/check",
            keys: MANY_KEYS,
            checks: Some(checks),
            connections,
            seconds,
        };
        let load = wrk::run(&self.wrk, &self.script, plan)?;
        let spent = self.snapshot_without_envoy()?.since(&before);
        if load.broken > 0 || load.not_2xx > 0 {
            return Err(format!("the sidecar alone: {load:?}"));
        }
        // Every check of a batch has a key of its own, and is charged only if it is allowed.
        let decided = load.requests * u64::from(checks);
        if !(decided..=decided + u64::from(connections * checks)).contains(&spent.writes) {
            return Err(format!("the sidecar alone: {decided} checks, but {} charges", spent.writes));
        }
        let mut figures = figures(&load, &spent, decided as f64);
        figures.insert(Figure::RequestsPerSecond, load.per_second() * f64::from(checks));
        figures.remove(&Figure::EnvoyCpuUs);
        Ok(figures)
    }

    fn snapshot_without_envoy(&self) -> Result<Snapshot, String> {
        // What wrk left behind when its time was up is decided all the same.
        std::thread::sleep(Duration::from_millis(100));
        Snapshot::take(
            &[None, Some(&self.sidecar.process), Some(&self.redis.process)],
            self.commands(),
            BTreeMap::new(),
        )
    }

    async fn snapshot(&self, envoy: &Envoy) -> Result<Snapshot, String> {
        // What leases decide is counted at the plugin's next tick, 10 ms later.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut stats = BTreeMap::new();
        for prefix in ["^http.ingress.downstream_rq_.xx", "^wasmcustom.sluice_", "^wasm.sluice.vm_reload"] {
            stats.extend(envoy.stats(prefix).await);
        }
        let processes = [Some(&envoy.process), Some(&self.sidecar.process), Some(&self.redis.process)];
        Snapshot::take(&processes, self.commands(), stats)
    }

    fn commands(&self) -> Commands {
        Commands::parse(&self.redis.command::<String>(&["INFO", "commandstats"]))
    }
}

/// Takes one from every key, as `load.lua` names them.
pub async fn use_up(sidecar: &Sidecar, policy: &str, keys: u32) -> Result<(), String> {
    let client = Client::new();
    for first in (0..keys).step_by(BATCH as usize) {
        let check = |number| json!({"checks": [{"policy": policy, "key": [format!("key-{number:07}")]}]});
        let requests: Vec<Value> = (first..keys.min(first + BATCH)).map(check).collect();
        let answer = client.post(sidecar.port(), "/v1/check", json!({"requests": requests}).to_string()).await;
        if !answer.is_allowed() {
            return Err(format!("{policy} can't be used up: {answer:?}"));
        }
    }
    Ok(())
}

fn router() -> Value {
    json!({"name": "envoy.filters.http.router",
        "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}})
}
