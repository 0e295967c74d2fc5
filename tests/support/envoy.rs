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
    /// Further instances of the plugin behind the first, in the same VM, each with its own configuration.
    pub more_plugins: Vec<Value>,
    /// HTTP filters behind the plugin.
    pub filters: Vec<Value>,
    /// Fields of the connection manager.
    pub manager: Value,
    /// Whether the listener comes from a file that [`Envoy::push`] replaces.
    pub dynamic: bool,
    /// How long a listener, or filter chain, that was replaced is kept for those who still use it.
    pub drain_time_s: u32,
    /// The ports of the sidecars in the cluster `sluice`; none is an empty cluster.
    pub sidecars: Vec<u16>,
    /// More fields of that cluster.
    pub sidecar_cluster: Value,
    /// The upstream's port. Without one Envoy itself answers 200.
    pub upstream: Option<u16>,
    /// Whether the upstream speaks HTTP/2 without TLS, as servers of gRPC do.
    pub upstream_http2: bool,
    /// Envoy's own limit is 60 KiB for all headers together.
    pub max_request_headers_kb: u32,
    /// HTTP filters in front of Sluice.
    pub filters_before: Vec<Value>,
    /// The plugin itself.
    pub plugin_file: &'static Path,
    /// Fields of Envoy's own configuration of the plugin, such as `failure_policy`.
    pub wasm: Value,
    /// Variables of Envoy's environment, which the plugin's VM is given.
    pub environment: Vec<(String, String)>,
    /// The `transport_socket` of the cluster `sluice`.
    pub sidecar_tls: Option<Value>,
}

impl Default for EnvoyOptions {
    /// One worker, and no more than what Envoy itself does.
    fn default() -> Self {
        Self {
            workers: 1,
            plugin: Value::Null,
            more_plugins: Vec::new(),
            filters: Vec::new(),
            filters_before: Vec::new(),
            manager: json!({}),
            dynamic: false,
            // Not the ten minutes that are Envoy's default.
            drain_time_s: 10,
            sidecars: Vec::new(),
            sidecar_cluster: json!({}),
            upstream: None,
            upstream_http2: false,
            max_request_headers_kb: 60,
            plugin_file: plugin(),
            wasm: json!({}),
            environment: Vec::new(),
            sidecar_tls: None,
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
    options: EnvoyOptions,
    directory: TempDir,
}

impl Envoy {
    /// Starts one that must not start, with this plugin configuration, and returns its log.
    pub async fn refuses(plugin: &Value) -> String {
        Self::refuses_with(&EnvoyOptions { plugin: plugin.clone(), ..EnvoyOptions::default() }).await
    }

    /// As [`refuses`](Self::refuses), with other options too.
    pub async fn refuses_with(options: &EnvoyOptions) -> String {
        let mut envoy = Self::launch(options);
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
        let file = directory.path().join("envoy.json");
        let mut config = configure(options, port.number(), admin.number());
        if options.dynamic {
            let lds = move_listener_out(&mut config, directory.path());
            std::fs::write(directory.path().join(LISTENERS), lds.to_string()).unwrap();
        }
        std::fs::write(&file, config.to_string()).unwrap();
        let mut command = Command::new(tool("envoy"));
        command.arg("--config-path").arg(file).args(["--concurrency", &options.workers.to_string()]);
        // No shared memory, which Envoys on one machine would otherwise fight over.
        command.args(["--disable-hot-restart", "--log-level", "info"]);
        command.args(["--drain-time-s", &options.drain_time_s.to_string()]);
        // Tests read access logs.
        command.args(["--file-flush-interval-msec", "10"]);
        command.envs(options.environment.iter().cloned());
        let process = Process::start("envoy", &mut command, directory.path().join("envoy.log"));
        Self { process, port, admin, client: Client::new(), options: options.clone(), directory }
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Replaces the listener by one with another plugin configuration, as a control plane does.
    pub fn push(&self, plugin: &Value) {
        assert!(self.options.dynamic, "the listener is fixed");
        let options = EnvoyOptions { plugin: plugin.clone(), ..self.options.clone() };
        let mut config = configure(&options, self.port(), self.admin.number());
        let lds = move_listener_out(&mut config, self.directory.path());
        let new = self.directory.path().join("listeners.new");
        std::fs::write(&new, lds.to_string()).unwrap();
        std::fs::rename(new, self.directory.path().join(LISTENERS)).unwrap(); // at once, as Envoy wants it
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

    /// What Envoy has allocated at the moment, in bytes. The memory of VMs is not in it.
    pub async fn allocated_bytes(&self) -> i64 {
        let answer = self.client.get(self.admin.number(), "/memory", &[]).await;
        answer.json()["allocated"].as_str().unwrap().parse().unwrap()
    }

    /// What a path of the admin interface shows, such as `/config_dump`.
    pub async fn admin(&self, path: &str) -> String {
        let answer = self.client.get(self.admin.number(), path, &[]).await;
        assert!(answer.is_allowed(), "{answer:?}");
        String::from_utf8_lossy(&answer.body).into_owned()
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

/// The file of a dynamic listener.
const LISTENERS: &str = "listeners.json";

/// Makes the listener one that Envoy finds in a file, and returns what is in it.
fn move_listener_out(bootstrap: &mut Value, directory: &Path) -> Value {
    let mut listener = bootstrap["static_resources"]["listeners"][0].take();
    bootstrap["static_resources"]["listeners"] = json!([]);
    bootstrap["node"] = json!({"id": "test", "cluster": "test"});
    let path = directory.join(LISTENERS);
    bootstrap["dynamic_resources"] =
        json!({"lds_config": {"resource_api_version": "V3", "path_config_source": {"path": path}}});
    listener["@type"] = "type.googleapis.com/envoy.config.listener.v3.Listener".into();
    json!({"resources": [listener]})
}

fn configure(options: &EnvoyOptions, port: u16, admin: u16) -> Value {
    let mut config = bootstrap("envoy/envoy.yaml", options.plugin_file);
    config["admin"]["address"] = address(admin);
    config["static_resources"]["listeners"][0]["address"] = address(port);
    filter(&mut config)["configuration"]["value"] = options.plugin.to_string().into();
    for (field, value) in options.wasm.as_object().unwrap() {
        filter(&mut config)[field.as_str()] = value.clone();
    }
    if !options.environment.is_empty() {
        let keys: Vec<_> = options.environment.iter().map(|(name, _)| name).collect();
        filter(&mut config)["vm_config"]["environment_variables"] = json!({"host_env_keys": keys});
    }
    let first = manager(&mut config)["http_filters"][0].clone();
    let manager = manager(&mut config);
    let filters = manager["http_filters"].as_array_mut().unwrap();
    for (index, filter) in options.filters.iter().enumerate() {
        filters.insert(1 + index, filter.clone());
    }
    for (index, plugin) in options.more_plugins.iter().enumerate() {
        let (mut another, name) = (first.clone(), format!("sluice-{index}"));
        let config = &mut another["typed_config"]["config"];
        config["configuration"]["value"] = plugin.to_string().into();
        config["name"] = name.as_str().into();
        config["root_id"] = name.as_str().into();
        another["name"] = name.into();
        filters.insert(1 + index, another);
    }
    for (field, value) in options.manager.as_object().unwrap() {
        manager[field.as_str()] = value.clone();
    }
    manager["max_request_headers_kb"] = options.max_request_headers_kb.into();
    if options.upstream.is_none() {
        let route = &mut manager["route_config"]["virtual_hosts"][0]["routes"][0];
        *route = json!({
            "match": {"prefix": "/"},
            "direct_response": {"status": 200, "body": {"inline_string": "hello"}},
        });
    }
    // In front of Sluice, so from here on it is no longer the first.
    manager["http_filters"].as_array_mut().unwrap().splice(..0, options.filters_before.iter().cloned());
    for cluster in config["static_resources"]["clusters"].as_array_mut().unwrap() {
        let ports = match cluster["name"].as_str().unwrap() {
            "sluice" => options.sidecars.clone(),
            "upstream" => options.upstream.into_iter().collect(),
            other => panic!("what is cluster {other} for?"),
        };
        if let (Some("sluice"), Some(tls)) = (cluster["name"].as_str(), &options.sidecar_tls) {
            cluster["transport_socket"] = tls.clone();
        }
        if cluster["name"] == "sluice" {
            cluster.as_object_mut().unwrap().extend(options.sidecar_cluster.as_object().unwrap().clone());
        }
        let endpoints: Vec<_> = ports.iter().map(|&port| json!({"endpoint": {"address": address(port)}})).collect();
        cluster["load_assignment"]["endpoints"] = json!([{"lb_endpoints": endpoints}]);
        if cluster["name"] == "upstream" && options.upstream_http2 {
            let kind = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
            cluster["typed_extension_protocol_options"] = json!({kind: {
                "@type": format!("type.googleapis.com/{kind}"),
                "explicit_http_config": {"http2_protocol_options": {}},
            }});
        }
    }
    config
}

fn address(port: u16) -> Value {
    json!({"socket_address": {"address": "127.0.0.1", "port_value": port}})
}
