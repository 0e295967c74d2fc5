//! Both files as text, with comments.

use std::fmt::Write;

use serde_json::{Value as Json, json};

use super::Policy;
use super::file::{Amount, Value};
use super::lookup::Row;
use super::parts::{Source, hint, source};
use crate::policy::Rate;

/// The sidecar's configuration.
pub(super) fn sidecar(head: &str, notes: &[String], policies: &[Policy]) -> String {
    let mut text = format!("# {}\n", comment(head));
    for note in notes {
        line(&mut text, &format!("# {}", comment(note)));
    }
    line(&mut text, "listen: 127.0.0.1:8080");
    line(&mut text, "store: redis://127.0.0.1:6379");
    line(&mut text, "policies:");
    for policy in policies {
        line(&mut text, &format!("  # {}", comment(&policy.keys.join(", "))));
        line(&mut text, &format!("  {}:", Json::from(policy.name.as_str())));
        line(&mut text, "    algorithm: fixed_window");
        line(&mut text, "    align: true");
        line(&mut text, &format!("    rate: {}", base_rate(policy)));
        if policy.shadow {
            line(&mut text, "    shadow: true");
        }
        let last = Some(&policy.last).filter(|last| !matches!(last.amount, Amount::Limited(_)));
        if !policy.rows.is_empty() || last.is_some() {
            line(&mut text, "    overrides:");
        }
        for row in policy.rows.iter().chain(last) {
            line(&mut text, &format!("      - {{key: {}, {}}}", pattern(row), effect(row.amount)));
        }
    }
    text
}

/// A policy has a rate even if an override takes all keys that no other one names: the next best is shown.
fn base_rate(policy: &Policy) -> Rate {
    let rate = |row: &Row| match row.amount {
        Amount::Limited(rate) | Amount::Blocked(rate) => Some(rate),
        Amount::Unlimited => None,
    };
    let found = rate(&policy.last).or_else(|| policy.rows.iter().find_map(rate));
    found.unwrap_or(Rate { count: 1, period_us: 1_000_000 })
}

fn effect(amount: Amount) -> String {
    match amount {
        Amount::Unlimited => "unlimited: true".to_owned(),
        Amount::Blocked(_) => "blocked: true".to_owned(),
        Amount::Limited(rate) => format!("rate: {rate}"),
    }
}

fn pattern(row: &Row) -> Json {
    // The filter sends parts in its encoding.
    let encoded = |text: &str| sluice_filter::keys::encode::part(text.as_bytes());
    row.values
        .iter()
        .map(|value| match value {
            Value::Exact(text) => encoded(text),
            Value::Prefix(text) => format!("{}*", encoded(text)),
            Value::Any => "*".to_owned(),
        })
        .collect::<Vec<_>>()
        .into()
}

/// The checks of requests for which Envoy's route configuration has the same texts.
struct Rule<'a> {
    /// With their keys.
    literals: Vec<(&'a str, String)>,
    checks: Vec<&'a Policy<'a>>,
}

fn rules<'a>(policies: &'a [Policy<'a>]) -> Vec<Rule<'a>> {
    let mut rules: Vec<Rule> = Vec::new();
    for policy in policies {
        for row in policy.rows.iter().chain([&policy.last]).filter(|row| row.amount != Amount::Unlimited) {
            let literals: Vec<_> = policy
                .keys
                .iter()
                .zip(&row.values)
                .filter(|(key, _)| matches!(source(key), Source::Literal))
                .map(|(key, value)| (key.as_str(), literal(value)))
                .collect();
            match rules.iter_mut().find(|rule| rule.literals == literals) {
                Some(rule) if rule.checks.iter().any(|check| check.name == policy.name) => {}
                Some(rule) => rule.checks.push(policy),
                None => rules.push(Rule { literals, checks: vec![policy] }),
            }
        }
    }
    rules
}

fn literal(value: &Value) -> String {
    match value {
        Value::Exact(text) => text.clone(),
        Value::Prefix(text) => format!("{text}TODO"),
        Value::Any => "TODO".to_owned(),
    }
}

/// The filter's configuration, and what is left to do in it.
pub(super) fn filter(head: &str, policies: &[Policy]) -> (String, Vec<String>) {
    let mut text = format!("# {}\n", comment(head));
    let mut todos = Vec::new();
    line(
        &mut text,
        "# Which requests have which descriptors is in Envoy's route configuration (rate_limits), not in that",
    );
    line(
        &mut text,
        "# file: each rule is for every request until you give it a match. A descriptor of which an entry is",
    );
    line(&mut text, "# missing is not sent there, hence on_missing: skip; without it, such requests share a bucket.");
    line(&mut text, "sidecar: {cluster: sluice, timeout: 50ms}");
    line(&mut text, "on_error: allow");
    line(&mut text, "rules:");
    for Rule { literals, checks } in rules(policies) {
        for (key, value) in &literals {
            let todo = format!("the rule for {key} {value:?} is for {}: narrow its match", hint(key));
            line(&mut text, &format!("  # TODO: {}", comment(&todo)));
            todos.push(todo);
        }
        line(&mut text, "  - match: {path: {prefix: /}}");
        line(&mut text, "    checks:");
        for policy in checks {
            let mut literals = literals.iter();
            let mut key = Vec::new();
            for name in policy.keys {
                key.push(match source(name) {
                    Source::Known(part) => part,
                    Source::Likely(part, todo) => {
                        line(&mut text, &format!("      # TODO: {}", comment(&todo)));
                        if !todos.contains(&todo) {
                            todos.push(todo);
                        }
                        part
                    }
                    Source::Literal => json!({"literal": literals.next().map(|(_, value)| value)}),
                });
            }
            let (name, key) = (Json::from(policy.name.as_str()), Json::from(key));
            line(&mut text, &format!("      - {{policy: {name}, key: {key}, on_missing: skip}}"));
        }
    }
    (text, todos)
}

fn line(text: &mut String, line: &str) {
    // Writing into a String never fails.
    let _ = writeln!(text, "{line}");
}

/// Nothing of a file may end its comment.
fn comment(text: &str) -> String {
    text.chars()
        .map(|char| if char.is_control() || "\u{85}\u{2028}\u{2029}".contains(char) { ' ' } else { char })
        .collect()
}
