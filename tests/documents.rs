//! Documents: what they link to is there, and what they list is all there is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::repository;

/// Every fault that docs/redis.md tells of has its test.
#[test]
fn the_faults_of_redis_name_tests_that_are_there() {
    let text = fs::read_to_string(repository().join("docs/redis.md")).unwrap();
    let names = text.split('`').skip(1).step_by(2).filter(|code| code.contains("::"));
    let mut count = 0;
    for name in names {
        let (module, function) = name.rsplit_once("::").unwrap();
        let file = repository().join("tests").join(module.replace("::", "/")).with_extension("rs");
        let source = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(source.contains(&format!("fn {function}(")), "there is no test {name}");
        count += 1;
    }
    assert!(count >= 25, "{count}");
}

/// What documents link to, and what looks like a path in this project, is there.
#[test]
fn documents_name_files_that_are_there() {
    let mut missing = Vec::new();
    for document in documents(repository()) {
        let text = fs::read_to_string(&document).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let links = links.filter(|link| !link.is_empty() && !link.contains("://")).map(|link| (link, false));
        let is_path = |code: &&str| {
            let file = Path::new(*code);
            let is_file = file
                .extension()
                .is_some_and(|end| ["rs", "lua", "md", "sh", "yaml", "json"].iter().any(|known| end == *known));
            is_file && code.contains('/') && !code.starts_with(['/', '.', '~']) && !code.contains([' ', '*', '$', ':'])
        };
        let paths = text.split('`').skip(1).step_by(2).filter(is_path).map(|path| (path, true));
        for (name, is_path) in links.chain(paths) {
            let beside = document.parent().unwrap().join(name);
            // In the text of a link, a path may leave out what the link says.
            let roots = ["", "sidecar/src", "filter/src", "envoy"].map(|root| repository().join(root).join(name));
            let is_there = beside.exists() || is_path && roots.iter().any(|path| path.exists());
            if !is_there {
                missing.push(format!("{}: {name}", document.display()));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

/// The project's documents: not those of what it was built with.
pub fn documents(folder: &Path) -> Vec<PathBuf> {
    let mut documents = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && !["target", "node_modules"].contains(&name.as_str()) {
            documents.extend(self::documents(&path));
        } else if path.extension().is_some_and(|end| end == "md") {
            documents.push(path);
        }
    }
    documents
}

/// The places of a document that links can lead to: its headings, as GitHub and most others write them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut in_code = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        in_code ^= line.starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !in_code) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
        anchors.insert(kept.map(|char| if char == ' ' { '-' } else { char }).collect());
    }
    anchors
}

#[test]
fn links_lead_to_headings_that_are_there() {
    let (mut missing, mut count) = (Vec::new(), 0);
    for document in documents(repository()) {
        let text = fs::read_to_string(&document).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let Some((file, anchor)) = link.split_once('#').filter(|_| !link.contains("://")) else { continue };
            let target = if file.is_empty() { document.clone() } else { document.parent().unwrap().join(file) };
            // Whether the file is there, the other test says.
            let Ok(target) = fs::read_to_string(&target) else { continue };
            count += 1;
            if !anchors(&target).contains(anchor) {
                missing.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
    assert!(count >= 80, "{count}");
}

#[test]
fn every_alert_is_explained() {
    let read = |path: &str| fs::read_to_string(repository().join(path)).unwrap();
    let alerts: Value = serde_saphyr::from_str(&read("charts/sluice/alerts.yaml")).unwrap();
    let rules = alerts["groups"][0]["rules"].as_array().unwrap().iter();
    let there: BTreeSet<_> = rules.map(|rule| rule["alert"].as_str().unwrap().to_owned()).collect();
    let document = read("docs/operations.md");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `Sluice")?.split_once('`'));
    let explained: BTreeSet<_> = rows.map(|(name, _)| format!("Sluice{name}")).collect();
    assert_eq!(there, explained);
    // And tried out: `scripts/alerts.sh` runs what is written there.
    let tried = read("tests/alerts.yaml");
    for alert in there {
        let name = format!("alertname: {alert}\n");
        let mut found = tried.split(&name).skip(1);
        assert!(found.any(|rest| rest.trim_start().starts_with("exp_alerts")), "{alert} is not tried out");
    }
}

/// Of the plugin's configuration and of a rule, whatever the schema has.
#[test]
fn every_field_is_in_the_table() {
    let read = |path: &str| fs::read_to_string(repository().join(path)).unwrap();
    let schema: Value = serde_json::from_str(&read("envoy/plugin.schema.json")).unwrap();
    let document = read("docs/filter.md");
    let (_, table) = document.split_once("## Fields\n").unwrap();
    let table = table.split("\n## ").next().unwrap();
    let fields = schema["properties"].as_object().unwrap().keys().filter(|field| *field != "rules");
    let missing: Vec<_> = fields
        .filter(|field| !table.contains(&format!("`{field}`")) && !table.contains(&format!("`{field}.")))
        .collect();
    assert_eq!(missing, Vec::<&String>::new());
}
