//! Configuration errors: one line each, with the field's path and its place in the text.

use crate::line::one_line;

/// Why a configuration was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is none.
    #[error(
        "it is empty; the least that works is \
         {{\"sidecar\":{{\"cluster\":\"sluice\"}},\"rules\":[{{\"checks\":[{{\"policy\":\"per-ip\",\"key\":[\"client_ip\"]}}]}}]}}"
    )]
    Empty,
    /// It is a protocol buffer. Envoy hands a `google.protobuf.Struct` over in its binary form.
    #[error("it is binary; write it as JSON text in a google.protobuf.StringValue, not as a Struct")]
    Binary,
    /// It is no JSON object, but perhaps YAML.
    #[error("it is no JSON object, which would start with a brace; YAML is not understood here")]
    NotAnObject,
    /// It is no JSON.
    #[error("{message} (line {line}, column {column})")]
    Syntax {
        /// What is wrong.
        message: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// A field is missing, unknown, or has a value that makes no sense.
    #[error("{path}: {message} (line {line}, column {column})")]
    Field {
        /// The field's path, such as `rules[0].checks[1].key[0]`.
        path: String,
        /// What is wrong with it.
        message: String,
        /// The line where reading stopped, from 1.
        line: usize,
        /// The column where reading stopped, from 1.
        column: usize,
    },
    /// A field does not go with another one.
    #[error("{path}: {message}")]
    Conflict {
        /// The field's path.
        path: String,
        /// What is wrong with it.
        message: String,
    },
}

impl ConfigError {
    pub(super) fn syntax(error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        Self::Syntax { message: message(error), line, column }
    }

    /// An error at the end of a path, which is empty for the whole.
    pub(super) fn field(path: &str, error: &serde_json::Error) -> Self {
        if path.is_empty() || !error.is_data() {
            return Self::syntax(error);
        }
        let path = one_line(path).into_owned();
        Self::Field { path, message: message(error), line: error.line(), column: error.column() }
    }
}

/// `serde_json`'s text without the place, which stands at the end of ours. It may quote what was read.
fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    one_line(text.strip_suffix(place.as_str()).unwrap_or(&text)).into_owned()
}
