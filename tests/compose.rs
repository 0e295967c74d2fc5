//! envoy/compose.yaml and what it mounts: fields that Compose knows, files that there are, names that fit, and a
//! dashboard that asks for metrics that somebody has. `config_files` has Envoy and the sidecar read their own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{Client, Stack, repository};

/// The part of Compose's format that is used, so that anything else is a slip.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compose {
    #[serde(rename = "name")]
    _name: String,
    services: BTreeMap<String, Service>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Service {
    image: String,
    build: Option<Build>,
    #[serde(default)]
    depends_on: Vec<String>,
    #[serde(default)]
    profiles: Vec<String>,
    #[serde(default)]
    ports: Vec<String>,
    #[serde(default)]
    volumes: Vec<String>,
    #[serde(default, rename = "command")]
    _command: Vec<String>,
    #[serde(default, rename = "environment")]
    _environment: BTreeMap<String, String>,
    #[serde(default, rename = "read_only")]
    _read_only: bool,
    #[serde(default, rename = "stop_grace_period")]
    _stop_grace_period: Option<String>,
    #[serde(default, rename = "cap_drop")]
    _cap_drop: Vec<String>,
    #[serde(default, rename = "security_opt")]
    _security_opt: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Build {
    context: PathBuf,
    dockerfile: PathBuf,
}

fn text(path: &str) -> String {
    let path = repository().join("envoy").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&text(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn services_and_files_that_are_named_are_there() {
    let compose: Compose = serde_saphyr::from_str(&text("compose.yaml")).unwrap_or_else(|error| panic!("{error}"));
    let envoy = repository().join("envoy");
    for (name, service) in &compose.services {
        for other in &service.depends_on {
            let other = compose.services.get(other).unwrap_or_else(|| panic!("{name} depends on {other}"));
            assert!(
                other.profiles.iter().all(|it| service.profiles.contains(it)),
                "{name}: not there without a profile"
            );
        }
        for volume in &service.volumes {
            let source = volume.split(':').next().unwrap();
            // What is built is there when it was built.
            assert!(source.contains("/target/") || envoy.join(source).is_file(), "{name}: {source} is no file");
            assert!(volume.ends_with(":ro"), "{name}: {volume} can be written");
        }
        for port in &service.ports {
            assert!(port.starts_with("127.0.0.1:"), "{name}: {port} is open to others");
        }
        if let Some(build) = &service.build {
            assert!(envoy.join(&build.context).join(&build.dockerfile).is_file(), "{name}: {build:?}");
        } else {
            assert!(service.image.contains("docker.io/") && service.image.contains(':'), "{name}: {}", service.image);
        }
    }
    let addresses = text("compose/envoy.yaml");
    for address in addresses.split("{address: ").skip(1).filter_map(|rest| rest.split(", port_value").next()) {
        let is_name = address.starts_with(|first: char| first.is_ascii_alphabetic());
        assert!(!is_name || compose.services.contains_key(address), "envoy.yaml: no service {address}");
    }
    for job in yaml("compose/prometheus.yaml")["scrape_configs"].as_array().unwrap() {
        let target = job["static_configs"][0]["targets"][0].as_str().unwrap();
        let (host, port) = target.split_once(':').unwrap();
        assert!(compose.services.contains_key(host), "prometheus.yaml: {target}");
        let listens = text(&format!("compose/{host}.yaml"));
        assert!(listens.contains(&format!("0.0.0.0:{port}")) || listens.contains(&format!("port_value: {port}")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_asks_for_metrics_that_there_are() {
    let policies = json!({"window": {"algorithm": "fixed_window", "rate": "1/1h"}});
    let rules = json!([{"checks": [{"policy": "window", "key": [{"literal": "all"}]}]}]);
    let mut stack = Stack::start(&policies, &rules).await;
    for _ in 0..2 {
        stack.envoy().get("/", &[]).await;
    }
    let sidecar = Client::new().get(stack.sidecar().admin_port(), "/metrics", &[]).await;
    let told = format!("{}{}", String::from_utf8_lossy(&sidecar.body), stack.envoy().admin("/stats/prometheus").await);
    let told: BTreeSet<&str> = told.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();

    let dashboard: Value = serde_json::from_str(&text("compose/grafana/sluice.json")).unwrap();
    let mut asked = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            asked.extend(words.filter(|word| word.starts_with("sluice_")).map(str::to_owned));
        }
    }
    assert!(asked.len() >= 10, "{asked:?}");
    for metric in asked {
        assert!(told.contains(metric.as_str()), "nobody has {metric}; there are {told:?}");
    }
    stack.assert_invariants(&[]).await;
}
