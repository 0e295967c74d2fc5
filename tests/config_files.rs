//! Every configuration in the repository is one that its reader accepts: files in envoy/, and what the documents show.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::schema;
use crate::support::{plugin, repository, tool};

/// What a piece of YAML is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Bootstrap,
    /// One of Kubernetes: `scripts/manifests.sh` checks it, and `manifests` the plugin's configuration in it.
    Object,
    Plugin,
    /// Another limiter's, which `sluice import` reads.
    Foreign,
    Sidecar,
    /// Fields of the cluster `sluice`, which `reload` hands to Envoy.
    Cluster,
    /// Read by what it is for, and tried out in `compose`.
    Tool,
}

#[test]
fn files_in_envoy() {
    let kinds = check(yaml_files(&repository().join("envoy")));
    assert!(kinds[&Kind::Bootstrap] >= 2 && kinds[&Kind::Sidecar] >= 2 && kinds[&Kind::Object] >= 10, "{kinds:?}");
}

#[test]
fn examples_in_documents() {
    let documents = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "docs/algorithms.md",
        "docs/filter.md",
        "docs/kubernetes.md",
        "docs/migrating.md",
        "docs/redis.md",
        "docs/security.md",
        "docs/sidecar.md",
        "envoy/README.md",
        "lua/README.md",
    ];
    let mut blocks = Vec::new();
    for name in documents {
        let Ok(text) = std::fs::read_to_string(repository().join(name)) else { continue };
        blocks.extend(code_blocks(&text).map(|(line, block)| (format!("{name}:{line}"), block)));
    }
    let kinds = check(blocks);
    assert!(kinds.contains_key(&Kind::Plugin) && kinds.contains_key(&Kind::Sidecar), "{kinds:?}");
}

/// By the command as it is shown: both files are the ones in the document, and fit together.
#[test]
fn what_migrating_shows_is_what_import_prints() {
    let text = std::fs::read_to_string(repository().join("docs/migrating.md")).unwrap();
    let blocks: Vec<_> = code_blocks(&text).map(|(_, block)| block + "\n").collect();
    let [foreign, shown @ ..] = blocks.as_slice() else { panic!("no block") };
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("ratelimit.yaml"), foreign).unwrap();
    let sluice = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_sluice")).args(args).current_dir(&directory).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {said}");
        (String::from_utf8(output.stdout).unwrap(), said)
    };
    let (both, said) = sluice(&["import", "ratelimit.yaml"]);
    assert_eq!(both, shown.join("---\n"));
    assert!(said.lines().count() == 2 && said.contains("TODO"), "{said}");
    for (part, shown) in ["sidecar", "filter"].iter().zip(shown) {
        let (file, _) = sluice(&["import", "ratelimit.yaml", "--only", part]);
        assert_eq!(file, *shown);
        std::fs::write(directory.path().join(part), file).unwrap();
    }
    sluice(&["validate", "--config", "sidecar", "--filter", "filter"]);
}

/// Reads each text as what it is, and counts the kinds.
fn check(texts: Vec<(String, String)>) -> BTreeMap<Kind, usize> {
    let mut kinds = BTreeMap::new();
    for (name, text) in texts {
        // The demo's files have names in place of ports.
        let text = with_ports(&text);
        let values: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        // Several documents are Kubernetes's way, and only its.
        if values.iter().all(|value| value.get("kind").is_some()) {
            *kinds.entry(Kind::Object).or_default() += values.len();
            continue;
        }
        let [value] = <[Value; 1]>::try_from(values).unwrap_or_else(|_| panic!("{name} has several documents"));
        let kind = if value.get("static_resources").is_some() {
            check_bootstrap(&name, value);
            Kind::Bootstrap
        } else if value.get("rules").is_some() {
            check_plugin(&name, &value.to_string());
            Kind::Plugin
        } else if value.get("descriptors").is_some() {
            sluice::import::import(&text, &name).unwrap_or_else(|error| panic!("{error}"));
            Kind::Foreign
        } else if value.get("policies").is_some() {
            sluice::config::Config::parse(&text, &name).unwrap_or_else(|error| panic!("{error}"));
            Kind::Sidecar
        } else if ["health_checks", "typed_extension_protocol_options"].iter().any(|field| value.get(field).is_some()) {
            Kind::Cluster
        } else if ["services", "scrape_configs", "datasources", "providers"]
            .iter()
            .any(|field| value.get(field).is_some())
        {
            Kind::Tool
        } else {
            panic!("{name} is no configuration that this test knows")
        };
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

/// Runs `sluice validate` on a file's text, with the policies that envoy/sluice.yaml has. Returns the exit code and what
/// was said.
fn validate(text: &str) -> (Option<i32>, String) {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("f.yaml"), text).unwrap();
    let config = repository().join("envoy/sluice.yaml");
    let output = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(["validate", "--filter", "f.yaml", "--config"])
        .arg(config)
        .current_dir(&directory)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

const MANIFESTS: &str = r#"# Two, and one that is another's.
apiVersion: v1
kind: ConfigMap
data: {rules: "---"}
---
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
spec:
  pluginConfig: {rules: [SecRuleEngine On]}
--- # ours
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
spec:
  pluginConfig:
    sidecar: {cluster: a}
    rules:
      - checks:
          - {policy: per-ip, key: [client_ip]}
---
kind: EnvoyExtensionPolicy
spec:
  wasm:
    - name: sluice
      config:
        sidecar: {cluster: a}
        rules:
          - checks: [{policy: per-ip, key: [client_ip]}, {policy: per-tenant, key: []}]
---
"#;

#[test]
fn whole_files_are_validated() {
    let bootstrap = std::fs::read_to_string(repository().join("envoy/envoy.yaml")).unwrap();
    let line = |text: &str, part: &str| 1 + text.lines().position(|line| line.contains(part)).unwrap();
    let wrong = |text: &str, from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        (text.replacen(from, to, 1), format!("f.yaml: line {}", line(text, from)))
    };
    for (text, checks) in [(bootstrap.as_str(), 2), (MANIFESTS, 3)] {
        let (code, said) = validate(text);
        assert!(code == Some(0) && said.contains(&format!("f.yaml: ok, {checks} checks")), "{said}");
    }
    let http = "static_resources.listeners[0].filter_chains[0].filters[0].typed_config.http_filters[0]";
    let value = format!("{http}.typed_config.config.configuration.value");
    let table = [
        (
            wrong(&bootstrap, r#""policy": "per-tenant""#, r#""polcy": "per-tenant""#),
            format!("{value}.rules[2].checks[0].polcy: unknown field"),
        ),
        (
            wrong(&bootstrap, r#""policy": "per-tenant""#, r#""policy": "other""#),
            format!("{value}.rules[2].checks[0].policy: there is no policy \"other\""),
        ),
        (wrong(&bootstrap, r#""on_error": "allow","#, r#""on_error": "allow";"#), format!("{value}: expected")),
        (wrong(&bootstrap, r#""50ms""#, r#""50h""#), format!("{value}.sidecar.timeout: ")),
        (
            wrong(MANIFESTS, "- {policy: per-ip", "- {polcy: per-ip"),
            "spec.pluginConfig.rules[0].checks[0].polcy: unknown field".into(),
        ),
        (
            wrong(MANIFESTS, "- {policy: per-ip", "- {policy: other"),
            "spec.pluginConfig.rules[0].checks[0].policy: there is no policy".into(),
        ),
        (
            wrong(MANIFESTS, "- checks: [{policy: per-ip", "- checks: [{policy: other"),
            "spec.wasm[0].config.rules[0].checks[0].policy: there is".into(),
        ),
        (wrong(MANIFESTS, "kind: EnvoyExtensionPolicy", "kind: [Envoy"), String::new()),
    ];
    for ((text, place), message) in table {
        let (code, said) = validate(&text);
        let is_place = message.is_empty() || said.contains(&place);
        assert!(
            code == Some(1) && is_place && said.contains(&message),
            "{place} {message}
{said}"
        );
    }
    let structure = r#"{static_resources: [{vm_config: {}, configuration: {"@type": type.googleapis.com/google.protobuf.Struct,
        value: {sidecar: {cluster: a}, rules: []}}}]}"#;
    let quoted = r#"a: {vm_config: {}, configuration: {value: '{"sidecar": {"cluster": ""}}'}}"#;
    for (text, message) in [
        (structure, "f.yaml: line 2, column 16: static_resources[0].configuration.value: Envoy hands a Struct over"),
        (quoted, "f.yaml: line 1, column 43: a.configuration.value.sidecar.cluster: the cluster's name is empty"),
        (
            "kind: Deployment
",
            "f.yaml: no plugin configuration of Sluice is in it",
        ),
        (
            "sidecar: {cluster: a}
rules: []
",
            "f.yaml: line 2, column 8: rules: at least one rule",
        ),
    ] {
        let (code, said) = validate(text);
        assert!(
            code == Some(1) && said.contains(message),
            "{message}
{said}"
        );
    }
}

#[test]
fn exit_codes_tell_what_is_wrong() {
    let code = |args: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_sluice")).arg("validate").args(args).current_dir(repository()).output();
        output.unwrap().status.code()
    };
    assert_eq!(code(&["--config", "envoy/sluice.yaml"]), Some(0));
    assert_eq!(code(&["--config", "envoy/envoy.yaml"]), Some(1));
    assert_eq!(code(&["--config", "envoy/nowhere.yaml"]), Some(2));
    assert_eq!(code(&["--config", "envoy/sluice.yaml", "--filter", "nowhere.yaml"]), Some(2));
    assert_eq!(code(&["--confg", "envoy/sluice.yaml"]), Some(2));
}

const WITH_EXAMPLES: [&str; 10] =
    ["serve", "validate", "policies", "top", "peek", "inspect", "reset", "reload", "import", "completions"];

/// And help shows every command at work.
#[test]
fn completions_know_every_command() {
    let sluice = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_sluice")).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for shell in ["bash", "zsh", "fish"] {
        let script = sluice(&["completions", shell]);
        for word in ["script", "schema", "log-format", "token-file"].into_iter().chain(WITH_EXAMPLES) {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    for command in WITH_EXAMPLES {
        assert!(sluice(&[command, "--help"]).contains(&format!("sluice {command} ")), "{command}");
    }
}

pub fn check_plugin(name: &str, json: &str) {
    sluice_filter::config::Config::parse(json.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
    schema::check(name, &serde_json::from_str(json).unwrap());
}

/// By Envoy itself, which also starts the plugin with its configuration, and by the plugin's parser, whose message is
/// the better one.
fn check_bootstrap(name: &str, mut bootstrap: Value) {
    let mut plugins = 0;
    each_plugin(&mut bootstrap, &mut |config| {
        check_plugin(name, config["configuration"]["value"].as_str().expect("a StringValue"));
        config["vm_config"]["code"]["local"]["filename"] = plugin().to_str().unwrap().into();
        plugins += 1;
    });
    assert!(plugins > 0, "{name} has no plugin");
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("envoy.json");
    std::fs::write(&file, bootstrap.to_string()).unwrap();
    let output = Command::new(tool("envoy")).args(["--mode", "validate", "--config-path"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

fn each_plugin(value: &mut Value, call: &mut impl FnMut(&mut Value)) {
    match value {
        Value::Object(map) if map.contains_key("vm_config") => call(value),
        Value::Object(map) => map.values_mut().for_each(|value| each_plugin(value, call)),
        Value::Array(list) => list.iter_mut().for_each(|value| each_plugin(value, call)),
        _ => {}
    }
}

pub fn yaml_files(directory: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        if path.is_dir() {
            files.extend(yaml_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
        }
    }
    files
}

/// The YAML blocks of a Markdown text, with the line each starts at.
pub fn code_blocks(markdown: &str) -> impl Iterator<Item = (usize, String)> {
    let mut lines = (1..).zip(markdown.lines());
    std::iter::from_fn(move || {
        let (number, _) = lines.find(|(_, line)| line.trim() == "```yaml")?;
        let block: Vec<_> = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```").collect();
        Some((number, block.join("\n")))
    })
}

/// With a number for each `@NAME@`.
fn with_ports(text: &str) -> String {
    let mut pieces = text.split('@');
    let mut result = pieces.next().unwrap_or_default().to_owned();
    let mut rest = pieces.peekable();
    while let Some(piece) = rest.next() {
        let is_name = !piece.is_empty() && piece.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        if is_name && rest.peek().is_some() {
            result += "1024";
            result += rest.next().unwrap_or_default();
        } else {
            result += "@";
            result += piece;
        }
    }
    result
}
