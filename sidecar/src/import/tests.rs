use std::collections::BTreeMap;

use super::file::{Amount, Descriptor, File, Value};
use super::*;
use crate::config::Config;
use crate::model::{State, decide};
use crate::policy::Algorithm;

const SAMPLE: &str = r#"
domain: edge
descriptors:
  - key: remote_address
    rate_limit: {unit: second, requests_per_unit: 10}
  - {key: remote_address, value: 50.0.0.5, rate_limit: {unit: second, requests_per_unit: 0}}
  - key: message_type
    value: marketing
    descriptors:
      - {key: to_number, rate_limit: {unit: DAY, requests_per_unit: 5}}
      - {key: to_number, value: "2061*", rate_limit: {unlimited: true}}
      - {key: to_number, value: 2061234567, rate_limit: {unit: minute, requests_per_unit: 7}}
  - key: message_type
    value: mark*
    descriptors:
      - {key: to_number, value: 1, rate_limit: {unit: hour, requests_per_unit: 3}, shadow_mode: true}
  - key: message_type
    descriptors:
      - {key: to_number, rate_limit: {unit: month, requests_per_unit: 30}}
      - {key: to_number, value: quiet}
  - key: message_type
    value: none
  - key: generic_key
    value: slow%
    rate_limit: {unit: year, requests_per_unit: 4}
  - key: generic_key
    value: fast
    descriptors:
      - {key: user, rate_limit: {unit: week, requests_per_unit: 4}}
"#;

fn imported(text: &str) -> Imported {
    import(text, "r.yaml").unwrap()
}

/// The same lookup, level by level, as it is described there.
fn looked_up<'a>(list: &'a [Spanned<Descriptor>], keys: &[String], values: &[&str]) -> Option<&'a Descriptor> {
    let ((key, keys), (value, values)) = (keys.split_first()?, values.split_first()?);
    let candidates = || list.iter().map(|spanned| &spanned.value).filter(|descriptor| descriptor.key == *key);
    let found = candidates()
        .find(|candidate| candidate.value == Value::Exact((*value).to_owned()))
        .or_else(|| candidates().find(|candidate| matches!(&candidate.value, Value::Prefix(p) if value.starts_with(p))))
        .or_else(|| candidates().find(|candidate| candidate.value == Value::Any))?;
    if keys.is_empty() { Some(found) } else { looked_up(&found.descriptors, keys, values) }
}

/// Every value of the file, values that a wildcard takes, and some other one.
fn all_values(list: &[Spanned<Descriptor>], values: &mut Vec<String>) {
    for Spanned { value: descriptor, .. } in list {
        match &descriptor.value {
            Value::Exact(text) => values.push(text.clone()),
            Value::Prefix(text) => values.extend([text.clone(), format!("{text}-more")]),
            Value::Any => {}
        }
        all_values(&descriptor.descriptors, values);
    }
}

fn combinations(values: &[String], length: usize) -> Vec<Vec<&str>> {
    let mut all = vec![Vec::new()];
    for _ in 0..length {
        all = all
            .iter()
            .flat_map(|start: &Vec<&str>| values.iter().map(move |value| [start.as_slice(), &[value]].concat()))
            .collect();
    }
    all
}

#[test]
fn every_value_has_the_limit_that_it_had() {
    let file: File = read(SAMPLE).unwrap();
    let sidecar = Config::parse(&imported(SAMPLE).sidecar, "sluice.yaml").unwrap();
    let shapes = lookup::shapes(&file.descriptors);
    let mut values = vec!["other".to_owned()];
    all_values(&file.descriptors, &mut values);
    let mut seen = BTreeMap::new();
    for shape in &shapes {
        let policies = policies(&file.domain, std::slice::from_ref(shape));
        for key in combinations(&values, shape.keys.len()) {
            let found = looked_up(&file.descriptors, &shape.keys, &key);
            let rate = found.and_then(|descriptor| descriptor.rate_limit.as_ref()).map(|limit| limit.amount);
            let rate = match rate {
                None | Some(Amount::Unlimited) => None,
                Some(Amount::Limited(rate)) => Some((rate.count, rate.period_us)),
                Some(Amount::Blocked(rate)) => Some((0, rate.period_us)),
            };
            let wanted: Vec<_> = rate.map(|(count, us)| (count, us, found.unwrap().shadow_mode)).into_iter().collect();
            let parts: Vec<_> = key.iter().map(|value| sluice_filter::keys::encode::part(value.as_bytes())).collect();
            let limits = policies.iter().filter_map(|policy| sidecar.policies[&policy.name].limit_for(&parts));
            let has: Vec<_> = limits
                .inspect(|limit| assert_eq!(limit.algorithm, Algorithm::FixedWindow { align: true }))
                .map(|limit| (limit.rate.count, limit.rate.period_us, limit.shadow))
                .collect();
            // A key that is blocked has no period that anybody could tell.
            let without = |list: &[(u64, u64, bool)]| {
                list.iter()
                    .map(|(count, us, shadow)| (*count, if *count == 0 { 0 } else { *us }, *shadow))
                    .collect::<Vec<_>>()
            };
            assert_eq!(without(&has), without(&wanted), "{:?} {key:?}", shape.keys);
            *seen.entry(wanted).or_insert(0) += 1;
        }
    }
    // None, and every limit of the file.
    assert_eq!(seen.len(), 9, "{seen:?}");
}

/// A count for each window since the epoch, as that service keeps it.
#[test]
fn decisions_are_the_same() {
    let sidecar = Config::parse(&imported(SAMPLE).sidecar, "sluice.yaml").unwrap();
    let limit = sidecar.policies["edge.remote_address"].limit_for(&["203.0.113.7".to_owned()]).unwrap();
    let mut counts = BTreeMap::new();
    let mut state: Option<State> = None;
    let mut denied = 0;
    for step in 0..1_000_u64 {
        // Slower and slower: at the end none is denied.
        let now_us = 1_796_041_503_250_000 + step * step * 100;
        let count: &mut u64 = counts.entry(now_us / limit.rate.period_us).or_default();
        *count += 1;
        let decided = decide(state.as_ref(), now_us, &limit, 1);
        assert_eq!(decided.outcome.allowed, *count <= 10, "{step}");
        denied += u64::from(!decided.outcome.allowed);
        state = decided.write.map(|(state, _)| state).or(state);
    }
    assert!(denied > 100, "{denied}");
}

#[test]
fn both_files_are_accepted_together() {
    let imported = imported(SAMPLE);
    let sidecar = Config::parse(&imported.sidecar, "sluice.yaml").unwrap();
    assert_eq!(sidecar.check_filter(&imported.filter, "plugin.yaml").unwrap(), 5);
    assert_eq!(sidecar.policies.len(), 5);
    assert!(imported.notes.iter().any(|note| note.contains("generic_key \"slow%\"")), "{:?}", imported.notes);
}

/// The lines of a text that are no comments.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn descriptors_become_policies_and_checks() {
    let one = |descriptor: &str| imported(&format!("domain: d\ndescriptors: [{descriptor}]"));
    let table = [
        (
            "{key: remote_address, rate_limit: {unit: second, requests_per_unit: 10}}",
            "rate: 10/s",
            r#"- {policy: "d.remote_address", key: [{"client_ip":{"ipv6_prefix":128}}], on_missing: skip}"#,
        ),
        (
            "{key: remote_address, rate_limit: {unit: second, requests_per_unit: 0}}",
            "rate: 1/s|overrides:|- {key: [\"*\"], blocked: true}",
            r#"- {policy: "d.remote_address", key: [{"client_ip":{"ipv6_prefix":128}}], on_missing: skip}"#,
        ),
        (
            "{key: User_ID, value: 'a*', rate_limit: {unit: week, requests_per_unit: 1}}",
            "rate: 1/7d|overrides:|- {key: [\"a*\"], rate: 1/7d}|- {key: [\"*\"], unlimited: true}",
            r#"- {policy: "d.User_ID", key: [{"header":"user-id"}], on_missing: skip}"#,
        ),
        (
            "{key: path, rate_limit: {unit: hour, requests_per_unit: 1}, shadow_mode: true}",
            "rate: 1/h|shadow: true",
            r#"- {policy: "d.path-shadow", key: [{"header":":path"}], on_missing: skip}"#,
        ),
        (
            "{key: generic_key, value: a, descriptors: [{key: method, rate_limit: {unit: day, requests_per_unit: 5}}]}",
            "rate: 5/d|overrides:|- {key: [\"a\",\"*\"], rate: 5/d}|- {key: [\"*\",\"*\"], unlimited: true}",
            r#"- {policy: "d.generic_key.method", key: [{"literal":"a"},{"header":":method"}], on_missing: skip}"#,
        ),
        (
            "{key: header_match, rate_limit: {unit: day, requests_per_unit: 4294967295}}",
            "rate: 1000000000/d",
            r#"- {policy: "d.header_match", key: [{"literal":"TODO"}], on_missing: skip}"#,
        ),
    ];
    for (descriptor, policy, check) in table {
        let imported = one(descriptor);
        let sidecar = lines(&imported.sidecar);
        assert_eq!(sidecar[6..].join("|"), policy, "{descriptor}");
        assert_eq!(lines(&imported.filter).last(), Some(&check), "{descriptor}");
        let config =
            Config::parse(&imported.sidecar, "s").unwrap_or_else(|error| panic!("{error}\n{}", imported.sidecar));
        config.check_filter(&imported.filter, "f").unwrap_or_else(|error| panic!("{error}\n{}", imported.filter));
    }
}

#[test]
fn what_has_no_equal_is_said_with_its_place() {
    let limit = "unit: second, requests_per_unit: 1";
    let table = [
        (format!("{{key: a, rate_limit: {{{limit}, replaces: [{{name: b}}]}}}}"), "rate_limit.replaces: no equal"),
        (format!("{{key: a, rate_limit: {{{limit}}}, detailed_metric: true}}"), "detailed_metric: no equal"),
        (format!("{{key: a, rate_limit: {{{limit}}}, value_to_metric: true}}"), "value_to_metric: no equal"),
        (format!("{{key: a, value: b*, rate_limit: {{{limit}}}, share_threshold: true}}"), "share_threshold: no equal"),
        (format!("{{key: a, rate_limit: {{{limit}}}, quota_mode: true}}"), "quota_mode: imported as shadow"),
        (format!("{{key: a, value: b*c, rate_limit: {{{limit}}}}}"), "value: a * that is not at the end"),
        ("{key: a, rate_limit: {unit: day, requests_per_unit: 2000000000}}".to_owned(), "lowered to 1000000000"),
    ];
    for (descriptor, message) in table {
        let imported = imported(&format!("domain: d\ndescriptors:\n  - {{key: x}}\n  - {descriptor}\n"));
        let start = "r.yaml: line 4: descriptors[1].";
        let notes = &imported.notes;
        assert!(notes.iter().any(|note| note.starts_with(start) && note.contains(message)), "{message}: {notes:?}");
        assert!(imported.sidecar.contains(message), "{}", imported.sidecar);
    }
    let plain =
        imported("domain: d\ndescriptors: [{key: remote_address, rate_limit: {unit: day, requests_per_unit: 2}}]");
    assert_eq!(plain.notes, Vec::<String>::new());
}

#[test]
fn texts_of_the_file_stay_texts() {
    let limit = "rate_limit: {unit: second, requests_per_unit: 1}";
    let text = format!(
        "domain: \"d\\npolicies: {{}}\"\ndescriptors:\n  - {{key: \"generic_key\", value: \"a\\nrules: []\\\"\\u0085\", {limit}}}\n  \
         - {{key: \"b\\nc\", {limit}}}\n  - {{key: \"b c\", {limit}}}\n  - {{key: '{}', {limit}}}\n",
        "long".repeat(40)
    );
    let imported = imported(&text);
    let config = Config::parse(&imported.sidecar, "s").unwrap();
    assert_eq!(config.check_filter(&imported.filter, "f").unwrap(), 4);
    assert!(config.policies.keys().all(|name| name.len() <= 64));
    assert!(config.policies["d-policies----.generic_key"].limit_for(&["a%0Arules: []\"%C2%85".to_owned()]).is_some());
}

#[test]
fn what_that_service_refuses_is_refused_with_its_place() {
    let one = |text: &str| format!("domain: d\ndescriptors:\n  - {text}\n");
    let table = [
        ("descriptors: []".to_owned(), "line 1, column 1: the configuration: missing field `domain`"),
        ("domain: ''".to_owned(), "line 1, column 9: domain: it is empty"),
        ("domain: d\ndescriptor: []".to_owned(), "line 2, column 1: descriptor: unknown field"),
        (one("{value: x}"), "line 3, column 6: descriptors[0]: missing field `key`"),
        (one("{key: ''}"), "line 3, column 11: descriptors[0].key: it is empty"),
        (one("{key: a, valu: b}"), "line 3, column 14: descriptors[0].valu: unknown field"),
        (one("{key: a, shadow_mode: maybe}"), "descriptors[0].shadow_mode: "),
        (one("{key: a, rate_limit: {requests_per_unit: 1}}"), "descriptors[0].rate_limit: missing field `unit`"),
        (one("{key: a, rate_limit: {unit: fortnight}}"), "descriptors[0].rate_limit.unit: \"fortnight\" is no unit"),
        (one("{key: a, rate_limit: {unit: day, unlimited: true}}"), "rate_limit: unit: an unlimited"),
        (one("{key: a, rate_limit: {unit: day, requests_per_unit: -1}}"), "rate_limit.requests_per_unit: "),
        (one("{key: a, rate_limit: {unit: day, burst: 1}}"), "descriptors[0].rate_limit.burst: unknown field"),
        (one("{key: a, rate_limit: {unit: day, name: x, replaces: [{name: x}]}}"), "own name"),
        (one("{key: a, rate_limit: {unit: day, replaces: [x]}}"), "rate_limit.replaces[0]: "),
        (
            one("{key: a, descriptors: [{key: b, ky: c}]}"),
            "line 3, column 37: descriptors[0].descriptors[0].ky: unknown",
        ),
        (one("{key: a, value: b}\n  - {key: a, value: b}"), "the key \"a\" is there twice with the same value"),
    ];
    for (text, message) in table {
        let error = import(&text, "r.yaml").unwrap_err().to_string();
        assert!(error.starts_with("r.yaml: line ") && error.contains(message), "{text}\n{error}");
    }
    let error = import(&one("{key: a}"), "r.yaml").unwrap_err().to_string();
    assert!(error.contains("no descriptor has a limit"), "{error}");
}
