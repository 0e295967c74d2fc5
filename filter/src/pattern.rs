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
    /// What every match begins with. Most values of most requests do not, and need not be looked at any further.
    start: String,
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
        Ok(Self { text: text.to_owned(), start: start(text).to_owned(), regex: compile(&format!("^(?:{text})$"))? })
    }
}

impl Pattern {
    /// Whether a value matches. What is not UTF-8 in it counts as U+FFFD: a `.` takes it, so that no odd byte evades
    /// a pattern that is meant to take all.
    pub fn matches(&self, value: &[u8]) -> bool {
        value.starts_with(self.start.as_bytes()) && self.regex.is_match(&String::from_utf8_lossy(value))
    }
}

/// The plain text that an expression begins with; nothing where that takes more than a glance to see.
fn start(text: &str) -> &str {
    let plain = text.find(|char: char| !char.is_ascii_alphanumeric() && !"/_-".contains(char));
    let (plain, rest) = text.split_at(plain.unwrap_or(text.len()));
    if text.contains('|') {
        return "";
    }
    // What may be there any number of times need not be there at all.
    if rest.starts_with(['*', '?', '{']) { plain.get(..plain.len().saturating_sub(1)).unwrap_or("") } else { plain }
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

#[cfg(test)]
mod tests {
    use super::{Pattern, start};
    #[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn a_plain_start_changes_no_match() {
        let table: [(&str, &str, &[&str], &[&str]); 11] = [
            ("/api/v[0-9]", "/api/v", &["/api/v1"], &["/api/v", "/ap/v1", "x/api/v1"]),
            ("/ab*", "/a", &["/a", "/abb"], &["/", "/b"]),
            ("/ab?c", "/a", &["/ac", "/abc"], &["/bc"]),
            ("/ab{0}c", "/a", &["/ac"], &["/abc"]),
            ("/ab+", "/ab", &["/ab", "/abb"], &["/a"]),
            ("a|b", "", &["a", "b"], &["ab"]),
            ("a(b|c)", "", &["ab", "ac"], &["a"]),
            ("(?i)abc", "", &["ABC"], &["AB"]),
            ("a(?i)bc", "a", &["aBC"], &["ABC"]),
            ("a\\.b", "a", &["a.b"], &["acb"]),
            ("", "", &[""], &["a"]),
        ];
        for (text, plain, yes, no) in table {
            assert_eq!(start(text), plain, "{text}");
            let pattern: Pattern = text.parse().unwrap();
            assert!(yes.iter().all(|value| pattern.matches(value.as_bytes())), "{text}");
            assert!(!no.iter().any(|value| pattern.matches(value.as_bytes())), "{text}");
        }
    }
}
