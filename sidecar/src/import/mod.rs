//! `sluice import`: a configuration of envoyproxy/ratelimit as Sluice's two files, and what has no equal.
//!
//! Descriptors whose entries have the same keys become one policy, and what is said of single values its overrides.
//! Windows there begin at multiples of the unit, so all policies are aligned fixed windows.

mod file;
mod lookup;
mod parts;
#[cfg(test)]
mod tests;
mod write;

use serde_saphyr::Spanned;

use crate::config::{ConfigError, read};
use file::{Descriptor, Value};
use lookup::Shape;

/// What an import comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The sidecar's configuration, YAML.
    pub sidecar: String,
    /// The filter's plugin configuration, YAML.
    pub filter: String,
    /// What has no equal and what is left to do, a line each.
    pub notes: Vec<String>,
}

/// Why there is nothing to print.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file is not one of envoyproxy/ratelimit's.
    #[error(transparent)]
    File(#[from] ConfigError),
    /// The file limits nothing.
    #[error("{0}: no descriptor has a limit, so there is no policy to make of it")]
    NoLimit(String),
}

/// Reads a configuration of envoyproxy/ratelimit. `file_name` is for messages and comments.
///
/// # Errors
///
/// If that service would not take it either, or if nothing in it is limited.
pub fn import(text: &str, file_name: &str) -> Result<Imported, ImportError> {
    let file: file::File = read(text).map_err(|mut error| {
        error.field = without_wrapper(&error.field);
        error.in_file(file_name)
    })?;
    let mut notes = Vec::new();
    without_equal(&file.descriptors, "descriptors", &mut |line, field, message| {
        notes.push(format!("{file_name}: line {line}: {field}: {message}"));
    });
    let shapes = lookup::shapes(&file.descriptors);
    if shapes.is_empty() {
        return Err(ImportError::NoLimit(file_name.to_owned()));
    }
    let policies = policies(&file.domain, &shapes);
    let head = format!("Imported from {file_name}, domain {:?}.", file.domain);
    let sidecar = write::sidecar(&head, &notes, &policies);
    let (filter, todos) = write::filter(&head, &policies);
    notes.extend(todos.into_iter().map(|todo| format!("the filter's rules: TODO: {todo}")));
    Ok(Imported { sidecar, filter, notes })
}

/// A path without the field that `Spanned` puts between a descriptor and its fields.
fn without_wrapper(path: &str) -> String {
    let mut pieces = path.split("descriptors[");
    let mut result = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        result.extend(["descriptors[", &piece.replacen("].value", "]", 1)]);
    }
    result
}

/// A policy to be.
struct Policy<'a> {
    name: String,
    keys: &'a [String],
    shadow: bool,
    rows: Vec<lookup::Row>,
    /// What applies if no row matches.
    last: lookup::Row,
}

/// An override has no `shadow` of its own: what is only tried out is a policy beside the other one.
fn policies<'a>(domain: &str, shapes: &'a [Shape]) -> Vec<Policy<'a>> {
    let mut policies: Vec<Policy> = Vec::new();
    for (shape, shadow) in shapes.iter().flat_map(|shape| [(shape, false), (shape, true)]) {
        let Some((rows, last)) = shape.policy(shadow) else { continue };
        let end = if shadow { "-shadow" } else { "" };
        let mut name = policy_name(domain, &shape.keys, end);
        let mut number = 2;
        while policies.iter().any(|policy| policy.name == name) {
            name = policy_name(domain, &shape.keys, &format!("{end}-{number}"));
            number += 1;
        }
        policies.push(Policy { name, keys: &shape.keys, shadow, rows, last });
    }
    policies
}

/// At most 64 of the characters that a name may have, with this end.
fn policy_name(domain: &str, keys: &[String], end: &str) -> String {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || "_.-".contains(char);
    let parts = std::iter::once(domain).chain(keys.iter().map(String::as_str)).collect::<Vec<_>>().join(".");
    let mut name: String =
        parts.chars().take(64 - end.len()).map(|char| if is_allowed(char) { char } else { '-' }).collect();
    name.push_str(end);
    name
}

fn without_equal(list: &[Spanned<Descriptor>], path: &str, note: &mut impl FnMut(u64, String, String)) {
    for (index, Spanned { value: descriptor, referenced, .. }) in list.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let mut say = |field: &str, message: &str| note(referenced.line(), format!("{path}.{field}"), message.into());
        for replaced in descriptor.rate_limit.iter().flat_map(|rate_limit| &rate_limit.replaces) {
            let message = format!(
                "no equal: every check of a request counts, so {replaced:?} applies beside this one: keep its rule \
                 from these requests by match.not"
            );
            say("rate_limit.replaces", &message);
        }
        if descriptor.rate_limit.as_ref().is_some_and(|rate_limit| rate_limit.lowered) {
            say("rate_limit.requests_per_unit", "lowered to 1000000000, the most that Sluice counts");
        }
        let metrics =
            "no equal: metrics are by policy, so that clients can't make them grow; sluice inspect tells of a key";
        for (field, is_set) in
            [("detailed_metric", descriptor.detailed_metric), ("value_to_metric", descriptor.value_to_metric)]
        {
            if is_set {
                say(field, metrics);
            }
        }
        if descriptor.share_threshold {
            say("share_threshold", "no equal: each value has a bucket of its own, also if a wildcard matched it");
        }
        if descriptor.quota_mode {
            say("quota_mode", "imported as shadow: nothing is denied, but no metadata tells of it either");
        }
        if let Value::Exact(text) | Value::Prefix(text) = &descriptor.value
            && text.contains('*')
        {
            say("value", "a * that is not at the end is the character there, and anything here");
        }
        without_equal(&descriptor.descriptors, &format!("{path}.descriptors"), note);
    }
}
