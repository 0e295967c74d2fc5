//! Regular expressions and the other ways to match a value.

use std::str::FromStr;

use regex_lite::{Regex, RegexBuilder};

/// A compiled expression may take this many bytes.
const MAX_SIZE: usize = 1 << 20;

/// A regular expression that has to match a value as a whole, as everywhere in Envoy. It takes time in proportion to
/// the value's length, whatever the value.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    regex: Regex,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let compile = |text: &str| {
            let regex = RegexBuilder::new(text).size_limit(MAX_SIZE).build();
            regex.map_err(|error| format!("this is no regular expression: {error}"))
        };
        // By itself first: `a)(b` must not become one by what is put around it.
        compile(text)?;
        Ok(Self { text: text.to_owned(), regex: compile(&format!("^(?:{text})$"))? })
    }
}

impl Pattern {
    /// Whether a value matches. What is not UTF-8 in it counts as U+FFFD: a `.` takes it, so that no odd byte evades
    /// a pattern that is meant to take all.
    pub fn matches(&self, value: &[u8]) -> bool {
        self.regex.is_match(&String::from_utf8_lossy(value))
    }
}

/// What a header or a query parameter must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueMatch {
    /// One of its values is this.
    Exact(String),
    /// It is there, even if it is empty; or it is not.
    Present(bool),
    /// One of its values matches.
    Regex(Pattern),
}

impl ValueMatch {
    /// Whether the values of a header or a parameter match.
    pub fn matches<V: AsRef<[u8]>>(&self, mut values: impl Iterator<Item = V>) -> bool {
        match self {
            Self::Exact(text) => values.any(|value| value.as_ref() == text.as_bytes()),
            Self::Present(present) => values.next().is_some() == *present,
            Self::Regex(pattern) => values.any(|value| pattern.matches(value.as_ref())),
        }
    }
}
