//! The filter's configurations within a file: by itself, in Kubernetes manifests, in a bootstrap of Envoy's.

use std::marker::PhantomData;
use std::{fmt, iter};

use serde::Deserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;
use sluice_filter::config::{Config as FilterConfig, ConfigError as FilterError};

use super::error::{ConfigError, FieldError};
use super::file::{read, read_with};

/// One configuration, and where it stands.
pub(super) struct Plugin {
    pub config: FilterConfig,
    /// The fields that lead to it.
    at: Vec<Step>,
    /// The text that it was read from: a YAML document, or the JSON that was within one.
    text: String,
    /// The fields that lead to it in `text`.
    start: Vec<Step>,
    /// How many lines stand in front of `text`.
    lines_before: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    Item(usize),
}

/// How a configuration is written.
enum Form {
    /// As fields of the document.
    Fields,
    /// As JSON within a text.
    Text,
    /// As fields of a message that Envoy hands over in binary.
    Binary,
}

/// Reads all that there are, in all documents of the text.
pub(super) fn read_all(text: &str, file_name: &str) -> Result<Vec<Plugin>, ConfigError> {
    let mut plugins = Vec::new();
    let documents = documents(text);
    for document in &documents {
        let value: Value = read(document).map_err(|error| error.in_file(file_name))?;
        let mut found = Vec::new();
        find(&value, &mut Vec::new(), &mut found);
        // What is nothing else has to be one.
        let is_other = ["apiVersion", "kind", "static_resources", "dynamic_resources"]
            .iter()
            .any(|field| value.get(field).is_some())
            || value.is_null() && documents.len() > 1;
        if found.is_empty() && !is_other {
            found.push((Vec::new(), Form::Fields));
        }
        for (at, form) in found {
            plugins.push(match form {
                Form::Fields => fields(document, &value, at, file_name)?,
                Form::Text => within_text(document, at).map_err(|error| error.in_file(file_name))?,
                Form::Binary => return Err(binary(document, &at).in_file(file_name)),
            });
        }
    }
    if plugins.is_empty() { Err(ConfigError::NoPlugin { file: file_name.to_owned() }) } else { Ok(plugins) }
}

/// Each document of a stream, behind as many empty lines as it has in front of it. A marker is one wherever it begins
/// a line, also within texts.
fn documents(text: &str) -> Vec<String> {
    let is_marker = |line: &str| {
        line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
    };
    let mut documents = vec![String::new()];
    let mut has_content = false;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if is_marker(line) && has_content {
            documents.push("\n".repeat(number));
        }
        has_content |= is_marker(line) || !(line.trim().is_empty() || line.starts_with(['#', '%']));
        if let Some(document) = documents.last_mut() {
            document.push_str(line);
        }
    }
    documents
}

/// Looks for configurations: those of other plugins have no sidecar, and no rules with checks.
fn find(value: &Value, at: &mut Vec<Step>, found: &mut Vec<(Vec<Step>, Form)>) {
    let step_into = |step: Step, value: &Value, at: &mut Vec<Step>, found: &mut Vec<(Vec<Step>, Form)>| {
        at.push(step);
        find(value, at, found);
        at.pop();
    };
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Array(items) => {
            return items.iter().enumerate().for_each(|(index, item)| step_into(Step::Item(index), item, at, found));
        }
        _ => return,
    };
    let is_wasm = |at: &[Step]| matches!(at, [.., Step::Field(list), Step::Item(_)] if list == "wasm");
    let in_envoy = ["vm_config", "vmConfig"].iter().any(|field| fields.contains_key(*field));
    for (name, value) in fields {
        let place = |more: &[&str]| {
            let names = iter::once(name.as_str()).chain(more.iter().copied());
            at.iter().cloned().chain(names.map(|name| Step::Field(name.to_owned()))).collect::<Vec<_>>()
        };
        let inner = value.get("value");
        if (name == "pluginConfig" || name == "config" && is_wasm(at)) && is_ours(value) {
            found.push((place(&[]), Form::Fields));
        } else if name == "configuration" && in_envoy && inner.and_then(Value::as_str).is_some_and(is_ours_as_text) {
            found.push((place(&["value"]), Form::Text));
        } else if name == "configuration" && in_envoy && inner.is_some_and(is_ours) {
            found.push((place(&["value"]), Form::Binary));
        } else {
            step_into(Step::Field(name.clone()), value, at, found);
        }
    }
}

fn is_ours(value: &Value) -> bool {
    let rules = value.get("rules").and_then(Value::as_array);
    value.get("sidecar").is_some() || rules.is_some_and(|rules| rules.iter().any(|rule| rule.get("checks").is_some()))
}

/// Also if it can't be read.
fn is_ours_as_text(text: &str) -> bool {
    serde_json::from_str(text)
        .map_or_else(|_| text.contains("sidecar") || text.contains("checks"), |value| is_ours(&value))
}

fn fields(document: &str, value: &Value, at: Vec<Step>, file_name: &str) -> Result<Plugin, ConfigError> {
    // First as YAML, for errors that know the line; then as the JSON that Envoy makes of it, by the filter's own
    // reader.
    read_with(document, At::<FilterConfig>(&at, PhantomData)).map_err(|error| error.in_file(file_name))?;
    let inner = at.iter().try_fold(value, |value, step| match step {
        Step::Field(name) => value.get(name),
        Step::Item(index) => value.get(index),
    });
    let config = FilterConfig::parse(inner.unwrap_or(value).to_string().as_bytes())
        .map_err(|error| ConfigError::Filter { file: file_name.to_owned(), message: error.to_string() })?;
    Ok(Plugin { config, start: at.clone(), at, text: document.to_owned(), lines_before: 0 })
}

fn within_text(document: &str, at: Vec<Step>) -> Result<Plugin, FieldError> {
    let Spanned { value: text, referenced, .. } = read_with(document, At::<Spanned<String>>(&at, PhantomData))?;
    let (line, column) = (referenced.line(), referenced.column());
    // A literal block is placed at its first line, not at its `|`; of one in quotes, where lines may be folded, the first
    // line is right.
    let lines_before = line.saturating_sub(1);
    let config = FilterConfig::parse(text.as_bytes()).map_err(|error| {
        let (place, path, message) = match &error {
            FilterError::Syntax { message, line, .. } => (Some(*line), "", message.clone()),
            FilterError::Field { path, message, line, .. } => (Some(*line), path.as_str(), message.clone()),
            FilterError::Conflict { path, message } => (place_in(&text, path), path.as_str(), message.clone()),
            other => (None, "", other.to_string()),
        };
        let in_file = place.and_then(|line| u64::try_from(line).ok()).map(|line| lines_before + line);
        // The column of a text that is indented, or escaped, is not that of the file.
        let (line, column) = in_file.filter(|in_file| *in_file != line).map_or((line, column), |line| (line, 1));
        FieldError { line, column, field: joined(&at, path), message }
    })?;
    Ok(Plugin { config, at, text, start: Vec::new(), lines_before })
}

fn binary(document: &str, at: &[Step]) -> FieldError {
    let (line, column) = place_of(document, at).unwrap_or((1, 1));
    let message = "Envoy hands a Struct over as binary protobuf: write it as JSON in a google.protobuf.StringValue";
    FieldError { line, column, field: joined(at, ""), message: message.to_owned() }
}

impl Plugin {
    /// The line and the whole path of one of its fields.
    pub(super) fn place(&self, field: &str) -> (u64, String) {
        let steps: Vec<_> = self.start.iter().cloned().chain(steps(field)).collect();
        let line = place_of(&self.text, &steps).map_or(1, |(line, _)| line);
        (self.lines_before + line, joined(&self.at, field))
    }
}

fn place_in(text: &str, field: &str) -> Option<usize> {
    place_of(text, &steps(field)).and_then(|(line, _)| usize::try_from(line).ok())
}

fn place_of(text: &str, at: &[Step]) -> Option<(u64, u64)> {
    // What has been read once has a place; if not, the error is told without it.
    let found = read_with(text, At::<Spanned<IgnoredAny>>(at, PhantomData)).ok()?;
    Some((found.referenced.line(), found.referenced.column()))
}

/// The steps of a path such as `rules[0].checks[1].policy`.
fn steps(path: &str) -> Vec<Step> {
    let pieces = path.split(['.', '[', ']']).filter(|piece| !piece.is_empty());
    pieces.map(|piece| piece.parse().map_or_else(|_| Step::Field(piece.to_owned()), Step::Item)).collect()
}

fn joined(at: &[Step], field: &str) -> String {
    let mut path = String::new();
    for step in at {
        match step {
            Step::Field(name) if path.is_empty() => path.push_str(name),
            Step::Field(name) => path.extend([".", name]),
            Step::Item(index) => path.extend(["[", &index.to_string(), "]"]),
        }
    }
    if !path.is_empty() && !field.is_empty() {
        path.push('.');
    }
    path + field
}

/// Reads what is at the end of some steps, so that its errors have their place in the whole.
struct At<'a, T>(&'a [Step], PhantomData<T>);

impl<'de, T: DeserializeOwned> DeserializeSeed<'de> for At<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        match self.0 {
            [] => T::deserialize(deserializer),
            [Step::Field(_), ..] => deserializer.deserialize_map(self),
            [Step::Item(_), ..] => deserializer.deserialize_seq(self),
        }
    }
}

impl<'de, T: DeserializeOwned> Visitor<'de> for At<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&joined(self.0, ""))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let [Step::Field(name), rest @ ..] = self.0 else { return Err(A::Error::custom("unexpected map")) };
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == *name {
                found = Some(map.next_value_seed(At(rest, PhantomData))?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        found.ok_or_else(|| A::Error::custom(format_args!("missing field `{name}`")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<T, A::Error> {
        let [Step::Item(place), rest @ ..] = self.0 else { return Err(A::Error::custom("unexpected list")) };
        let mut found = None;
        for index in 0.. {
            if index == *place {
                found = list.next_element_seed(At(rest, PhantomData))?;
            } else if list.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
        }
        found.ok_or_else(|| A::Error::custom(format_args!("there is no item {place}")))
    }
}
