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
    Plugin,
    /// Another limiter's, which `sluice import` reads.
    Foreign,
    Sidecar,
}

#[test]
fn files_in_envoy() {
    let kinds = check(yaml_files(&repository().join("envoy")));
    assert!(kinds[&Kind::Bootstrap] >= 2 && kinds[&Kind::Sidecar] >= 2, "{kinds:?}");
}

#[test]
fn examples_in_documents() {
    let documents = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "docs/filter.md",
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
        let value: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
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
        } else {
            panic!("{name} is no configuration that this test knows")
        };
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

fn check_plugin(name: &str, json: &str) {
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

fn yaml_files(directory: &Path) -> Vec<(String, String)> {
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
