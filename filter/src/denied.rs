//! The configured form of a denial: what stands in for the default answer of [`answer`](crate::answer).

/// What a denied client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// 429 or 503.
    pub status: u16,
    /// The body and its content type; without one, the JSON problem.
    pub body: Option<(Template, String)>,
    /// Further header fields, their names in lower case.
    pub headers: Vec<(String, Template)>,
}

/// A text with places for what is known only when a request is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Policy,
    RetryAfter,
}

impl Template {
    /// Reads a text. `{policy}` and `{retry_after}` are places; any other braces are braces, as in JSON, except
    /// where they look like a misspelt place.
    ///
    /// # Errors
    /// A text for the user about a word in braces that is no place.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            plain.push_str(before);
            let word = after.split_once('}').filter(|(word, _)| is_word(word));
            let piece = match word {
                Some(("policy", _)) => Piece::Policy,
                Some(("retry_after", _)) => Piece::RetryAfter,
                Some((word, _)) => {
                    return Err(format!(
                        "there is no placeholder `{{{word}}}`, only `{{policy}}` and `{{retry_after}}`"
                    ));
                }
                None => {
                    plain.push('{');
                    rest = after;
                    continue;
                }
            };
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
            pieces.push(piece);
            rest = word.map_or("", |(_, rest)| rest);
        }
        plain.push_str(rest);
        pieces.push(Piece::Text(plain));
        Ok(Self(pieces))
    }

    /// The text for one denial. `retry_after` is in seconds; `None`, where waiting doesn't help, is empty.
    pub fn fill(&self, policy: &str, retry_after: Option<u64>) -> String {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Policy => text.push_str(policy),
                Piece::RetryAfter => {
                    if let Some(seconds) = retry_after {
                        text.push_str(&seconds.to_string());
                    }
                }
            }
        }
        text
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::Template;
    #[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn places_are_filled_and_other_braces_are_braces() {
        for (text, filled) in [
            ("", ""),
            ("slow down", "slow down"),
            ("{policy}", "per-ip"),
            ("{policy}{retry_after}", "per-ip7"),
            (r#"{"policy":"{policy}","in":{"s":{retry_after}}}"#, r#"{"policy":"per-ip","in":{"s":7}}"#),
            ("{{policy}}", "{per-ip}"),
            ("{ policy } {} { a: 1 } {", "{ policy } {} { a: 1 } {"),
            ("{\u{e9}}", "{\u{e9}}"),
        ] {
            assert_eq!(Template::parse(text).unwrap().fill("per-ip", Some(7)), filled, "{text}");
        }
        assert_eq!(Template::parse("<{retry_after}>").unwrap().fill("p", None), "<>");
        // What is filled in is not looked at again.
        assert_eq!(Template::parse("{policy}").unwrap().fill("{retry_after}", Some(1)), "{retry_after}");
    }

    #[test]
    fn misspelt_places_are_refused() {
        for text in ["{polcy}", "a {retry-after} b", "{{Policy}"] {
            assert!(Template::parse(text).unwrap_err().starts_with("there is no placeholder `{"), "{text}");
        }
    }
}
