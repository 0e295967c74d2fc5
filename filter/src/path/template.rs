//! Path templates: `/users/{id}/orders/...`.

/// A path with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    segments: Vec<Segment>,
    /// Whether more may follow: the template ends in `/...`.
    open: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Literal(String),
    /// Any one segment that is not empty. Its name is for people.
    Placeholder(String),
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// A text for the user if it is none.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        super::check(text)?;
        let (path, open) = match text.strip_suffix("/...") {
            Some(path) => (path, true),
            None => (text, false),
        };
        let mut segments = Vec::new();
        for segment in path.split('/').skip(1) {
            let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            segments.push(match name {
                Some(name) if !name.is_empty() && !name.contains(['{', '}']) => Segment::Placeholder(name.to_owned()),
                None if !segment.contains(['{', '}']) && segment != "..." => Segment::Literal(segment.to_owned()),
                _ => return Err("a placeholder is a whole segment, such as /users/{id}; \"/...\" can only be the end"),
            });
        }
        Ok(Self { segments, open })
    }

    /// The template with its literal text in another spelling.
    ///
    /// # Errors
    /// See [`parse`](Self::parse).
    pub fn respell(&self, spell: impl Fn(&str) -> String) -> Result<Self, &'static str> {
        let mut text = String::new();
        for segment in &self.segments {
            text.push('/');
            match segment {
                Segment::Literal(literal) => text += literal,
                Segment::Placeholder(name) => text.extend(["{", name, "}"]),
            }
        }
        let mut text = if text.is_empty() { text } else { spell(&text) };
        if self.open {
            text.truncate(text.trim_end_matches('/').len());
            text += "/...";
        }
        Self::parse(&text)
    }

    /// Whether it has a placeholder at all.
    pub fn has_placeholder(&self) -> bool {
        self.segments.iter().any(|segment| matches!(segment, Segment::Placeholder(_)))
    }

    /// Whether a path matches.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.walk(path, |_| ())
    }

    /// What stands at the placeholders, joined by slashes, which no segment contains. `None` if the path
    /// does not match.
    pub fn values(&self, path: &[u8]) -> Option<Vec<u8>> {
        let mut values: Vec<&[u8]> = Vec::new();
        self.walk(path, |value| values.push(value)).then(|| values.join(&b'/'))
    }

    fn walk<'a>(&self, path: &'a [u8], mut value: impl FnMut(&'a [u8])) -> bool {
        let Some(rest) = path.strip_prefix(b"/") else { return false };
        let mut actual = rest.split(|&byte| byte == b'/');
        for segment in &self.segments {
            match (segment, actual.next()) {
                (Segment::Literal(literal), Some(actual)) if literal.as_bytes() == actual => {}
                (Segment::Placeholder(_), Some(actual)) if !actual.is_empty() => value(actual),
                _ => return false,
            }
        }
        self.open || actual.next().is_none()
    }
}
