//! What the manifests in envoy/ say about the plugin and the sidecar fits together: configurations, policies, names.
//! `scripts/manifests.sh` checks them against the schemas of Kubernetes, Istio and Envoy Gateway.

use std::collections::BTreeMap;

use serde_json::Value;
use sluice::config::Config;

use crate::config_files::{check_plugin, yaml_files};
use crate::support::repository;

/// Every object of a kind in envoy/, with the file that it is in.
fn objects(kind: &str) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (name, text) in yaml_files(&repository().join("envoy")) {
        if !text.contains(&format!("\nkind: {kind}\n")) {
            continue;
        }
        let values: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        found.extend(values.into_iter().filter(|value| value["kind"] == kind).map(|value| (name.clone(), value)));
    }
    assert!(!found.is_empty(), "no {kind} in envoy/");
    found
}

/// Every configuration that a manifest hands to the plugin. Istio and Envoy Gateway both hand it over as JSON.
fn plugins() -> Vec<(String, Value)> {
    let istio = objects("WasmPlugin").into_iter().map(|(name, object)| (name, object["spec"]["pluginConfig"].clone()));
    let gateway = objects("EnvoyExtensionPolicy").into_iter().flat_map(|(name, object)| {
        let wasm = object["spec"]["wasm"].as_array().unwrap().clone();
        wasm.into_iter().map(move |plugin| (name.clone(), plugin["config"].clone()))
    });
    istio.chain(gateway).collect()
}

fn sidecar(path: &str) -> Config {
    let text = std::fs::read_to_string(repository().join("envoy/kubernetes").join(path)).unwrap();
    Config::parse(&text, path).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn plugins_ask_for_policies_that_their_sidecar_has() {
    let (service, local) = (sidecar("sluice.yaml"), sidecar("pod-local/sluice.yaml"));
    let mut checked = [0, 0];
    for (name, config) in plugins() {
        check_plugin(&name, &config.to_string());
        let is_local = name.contains("pod-local");
        let sidecar = if is_local { &local } else { &service };
        let checks = sidecar.check_filter(&config.to_string(), &name).unwrap_or_else(|error| panic!("{error}"));
        assert!(checks > 0, "{name} limits nothing");
        checked[usize::from(is_local)] += 1;
    }
    assert!(checked[0] >= 3 && checked[1] >= 1, "{checked:?}");
}

/// A plugin that names a cluster that is not there gets no decision, and nobody is told but by `on_error`.
#[test]
fn plugins_name_clusters_that_there_are() {
    let mut clusters = BTreeMap::new();
    for (name, service) in objects("Service") {
        let host = format!("{0}.{0}.svc.cluster.local", service["metadata"]["name"].as_str().unwrap());
        for port in service["spec"]["ports"].as_array().unwrap() {
            clusters.insert(format!("outbound|{}||{host}", port["port"]), name.clone());
        }
    }
    for (name, entry) in objects("ServiceEntry") {
        for port in entry["spec"]["ports"].as_array().unwrap() {
            let host = entry["spec"]["hosts"][0].as_str().unwrap();
            clusters.insert(format!("outbound|{}||{host}", port["number"]), name.clone());
        }
    }
    for (name, proxy) in objects("EnvoyProxy") {
        for patch in proxy["spec"]["bootstrap"]["jsonPatches"].as_array().unwrap() {
            clusters.insert(patch["value"]["name"].as_str().unwrap().to_owned(), name.clone());
        }
    }
    for (name, config) in plugins() {
        let cluster = config["sidecar"]["cluster"].as_str().unwrap();
        assert!(clusters.contains_key(cluster), "{name}: no manifest makes {cluster}; there are {clusters:?}");
    }
}

/// Ports of the sidecar's configuration, and those that containers, probes and addresses name.
#[test]
fn ports_are_those_that_the_sidecar_listens_on() {
    for (name, deployment) in objects("Deployment") {
        let pod = &deployment["spec"]["template"]["spec"];
        let containers = [&pod["containers"], &pod["initContainers"]].into_iter().filter_map(Value::as_array).flatten();
        for container in containers.filter(|container| container["name"] == "sluice") {
            let path = if name.contains("pod-local") { "pod-local/sluice.yaml" } else { "sluice.yaml" };
            let text = std::fs::read_to_string(repository().join("envoy/kubernetes").join(path)).unwrap();
            let config: Value = serde_saphyr::from_str(&text).unwrap();
            let listens =
                [&config["listen"], &config["admin"]["listen"]].map(|address| address.as_str().unwrap().to_owned());
            let ports = container["ports"].as_array().unwrap();
            for port in ports {
                let port = format!(":{}", port["containerPort"]);
                assert!(listens.iter().any(|listen| listen.ends_with(&port)), "{name}: {port}, but {listens:?}");
            }
            for probe in ["readinessProbe", "livenessProbe", "startupProbe"] {
                let Some(wanted) = container[probe]["httpGet"].get("port") else { continue };
                let port = ports.iter().find(|port| port["name"] == *wanted);
                let port = port.unwrap_or_else(|| panic!("{name}: {probe} wants {wanted}"));
                assert!(listens[1].ends_with(&format!(":{}", port["containerPort"])), "{name}: {probe}");
                let path = container[probe]["httpGet"]["path"].as_str().unwrap();
                assert!(path == "/readyz" || path == "/livez", "{name}: {probe}");
            }
        }
    }
}
