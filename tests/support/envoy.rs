//! An Envoy of one test, started from the bootstrap that users start from.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Answer, Client, Port, Process, plugin, repository, tool};

/// What differs from test to test.
#[derive(Debug, Clone)]
pub struct EnvoyOptions {
    pub workers: u32,
    /// The plugin's configuration.
    pub plugin: Value,
    /// The ports of the sidecars in the cluster `sluice`; none is an empty cluster.
    pub sidecars: Vec<u16>,
    /// The upstream's port. Without one Envoy itself answers 200.
    pub upstream: Option<u16>,
    /// Envoy's own limit is 60 KiB for all headers together.
    pub max_request_headers_kb: u32,
    /// HTTP filters in front of Sluice.
    pub filters: Vec<Value>,
    /// Fields of the HTTP connection manager that are to be others.
    pub manager: Value,
}

impl Default for EnvoyOptions {
    /// One worker, and no more than what Envoy itself does.
    fn default() -> Self {
        Self {
            workers: 1,
            plugin: Value::Null,
            sidecars: Vec::new(),
            upstream: None,
            max_request_headers_kb: 60,
            filters: Vec::new(),
            manager: json!({}),
        }
    }
}

/// A running Envoy.
#[derive(Debug)]
pub struct Envoy {
    pub process: Process,
    port: Port,
    admin: Port,
    client: Client,
    _directory: TempDir,
}

impl Envoy {
    /// Starts one that must not start, with this plugin configuration, and returns its log.
    pub async fn refuses(plugin: &Value) -> String {
        let options = EnvoyOptions { plugin: plugin.clone(), ..EnvoyOptions::default() };
        let mut envoy = Self::launch(&options);
        let status = envoy.process.ended().await;
        assert!(!status.success());
        envoy.process.log()
    }

    pub async fn start(options: &EnvoyOptions) -> Self {
        let mut envoy = Self::launch(options);
        let (client, admin) = (envoy.client.clone(), envoy.admin.number());
        envoy.process.until_ready(async || client.is_ready(admin, "/ready").await).await;
        envoy
    }

    fn launch(options: &EnvoyOptions) -> Self {
        let (port, admin, directory) = (Port::free(), Port::free(), TempDir::new().unwrap());
        let config = directory.path().join("envoy.json");
        std::fs::write(&config, configure(options, port.number(), admin.number()).to_string()).unwrap();
        let mut command = Command::new(tool("envoy"));
        command.arg("--config-path").arg(config).args(["--concurrency", &options.workers.to_string()]);
        // No shared memory, which Envoys on one machine would otherwise fight over.
        command.args(["--disable-hot-restart", "--log-level", "info"]);
        let process = Process::start("envoy", &mut command, directory.path().join("envoy.log"));
        Self { process, port, admin, client: Client::new(), _directory: directory }
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    pub async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.client.get(self.port(), path, headers).await
    }

    pub async fn get_bytes(&self, path: &str, headers: &[(&str, &[u8])]) -> Answer {
        self.client.get_bytes(self.port(), path, headers).await
    }

    /// A counter or gauge of Envoy's. One that Envoy doesn't know fails the test: a misspelt name is not 0.
    pub async fn stat(&self, name: &str) -> u64 {
        let stats = self.stats(&format!("^{}$", name.replace('.', "\\."))).await;
        stats.first().unwrap_or_else(|| panic!("Envoy has no stat {name}")).1
    }

    /// All counters and gauges that match a regular expression.
    pub async fn stats(&self, filter: &str) -> Vec<(String, u64)> {
        let path = format!("/stats?filter={}", filter.replace('^', "%5E").replace('\\', "%5C"));
        let answer = self.client.get(self.admin.number(), &path, &[]).await;
        let text = std::str::from_utf8(&answer.body).unwrap();
        let counts = text.lines().filter_map(|line| line.split_once(": "));
        // A histogram's line has no number.
        counts.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
    }

    /// One of the plugin's metrics, without its prefix.
    pub async fn metric(&self, name: &str) -> u64 {
        self.stat(&format!("wasmcustom.sluice_{name}")).await
    }
}

/// The bootstrap of the repository's file, whose relative paths are made absolute.
pub fn bootstrap(file: &str, plugin: &Path) -> Value {
    let text = std::fs::read_to_string(repository().join(file)).unwrap();
    let mut config: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    filter(&mut config)["vm_config"]["code"] = json!({"local": {"filename": plugin}});
    config
}

/// The connection manager of the first listener.
pub fn manager(bootstrap: &mut Value) -> &mut Value {
    &mut bootstrap["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
}

/// The plugin's own part of a bootstrap: Sluice is the first of the HTTP filters.
pub fn filter(bootstrap: &mut Value) -> &mut Value {
    &mut manager(bootstrap)["http_filters"][0]["typed_config"]["config"]
}

fn configure(options: &EnvoyOptions, port: u16, admin: u16) -> Value {
    let mut config = bootstrap("envoy/envoy.yaml", plugin());
    config["admin"]["address"] = address(admin);
    config["static_resources"]["listeners"][0]["address"] = address(port);
    filter(&mut config)["configuration"]["value"] = options.plugin.to_string().into();
    let manager = manager(&mut config);
    manager["max_request_headers_kb"] = options.max_request_headers_kb.into();
    if options.upstream.is_none() {
        let route = &mut manager["route_config"]["virtual_hosts"][0]["routes"][0];
        *route = json!({
            "match": {"prefix": "/"},
            "direct_response": {"status": 200, "body": {"inline_string": "hello"}},
        });
    }
    for (name, value) in options.manager.as_object().unwrap() {
        manager[name] = value.clone();
    }
    // In front of Sluice, so from here on it is no longer the first.
    manager["http_filters"].as_array_mut().unwrap().splice(..0, options.filters.iter().cloned());
    for cluster in config["static_resources"]["clusters"].as_array_mut().unwrap() {
        let ports = match cluster["name"].as_str().unwrap() {
            "sluice" => options.sidecars.clone(),
            "upstream" => options.upstream.into_iter().collect(),
            other => panic!("what is cluster {other} for?"),
        };
        let endpoints: Vec<_> = ports.iter().map(|&port| json!({"endpoint": {"address": address(port)}})).collect();
        cluster["load_assignment"]["endpoints"] = json!([{"lb_endpoints": endpoints}]);
    }
    config
}

fn address(port: u16) -> Value {
    json!({"socket_address": {"address": "127.0.0.1", "port_value": port}})
}
