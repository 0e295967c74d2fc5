//! One spelling of a path, so that a client can't choose a rule or a bucket by spelling it in another way.
//!
//! Only for matching and for keys: what is forwarded stays what the client sent.

use std::borrow::Cow;

use serde::Deserialize;

/// Which differences between spellings mean nothing. All of them, unless it is said otherwise.
#[allow(clippy::struct_excessive_bools)] // five choices, each of them the user's
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct PathSettings {
    /// `%61` is `a`, `%2f` is `%2F`, and a byte that can't stand in a path is its escape, a `%` without two
    /// hexadecimal digits behind it too.
    pub decode: bool,
    /// `//` is `/`.
    pub merge_slashes: bool,
    /// `/a/./b/../c` is `/a/c`.
    pub dot_segments: bool,
    /// `/a/` is `/a`.
    pub trailing_slash: bool,
    /// `/a;v=1/b` is `/a/b`.
    pub params: bool,
}

impl Default for PathSettings {
    fn default() -> Self {
        Self { decode: true, merge_slashes: true, dot_segments: true, trailing_slash: true, params: true }
    }
}

impl PathSettings {
    /// A request's `:path` as rules and keys see it. One that does not start with a slash, such as `*`, stays
    /// as it is, but for its query.
    ///
    /// The order is that of a server that cuts parameters off first, as Java's do: `/a/..;/b` is `/b`. Slashes
    /// are merged before `..` is resolved, as in nginx: `/a//../b` is `/b`.
    pub fn normalize(self, raw: &[u8]) -> Cow<'_, [u8]> {
        let path = super::without_query(raw);
        if path.first() != Some(&b'/') || self.is_normal(path) {
            return Cow::Borrowed(path);
        }
        let mut segments: Vec<Cow<'_, [u8]>> = Vec::new();
        let mut ends_with_slash = false;
        let rest = path.get(1..).unwrap_or_default();
        for segment in rest.split(|&byte| byte == b'/') {
            let segment = self.segment(segment);
            // Only the last one's matters: is there something behind the last slash?
            ends_with_slash = segment.is_empty();
            match segment.as_ref() {
                b"" if self.merge_slashes => {}
                b"." if self.dot_segments => ends_with_slash = true,
                b".." if self.dot_segments => {
                    segments.pop();
                    ends_with_slash = true;
                }
                _ => segments.push(segment),
            }
        }
        // Without merging, what is behind a last slash is in the list, as an empty segment. It is written below.
        if ends_with_slash && segments.last().is_some_and(|last| last.is_empty()) {
            segments.pop();
        }
        while self.trailing_slash && segments.last().is_some_and(|last| last.is_empty()) {
            segments.pop();
        }
        let mut text = Vec::with_capacity(path.len());
        for segment in &segments {
            text.push(b'/');
            text.extend_from_slice(segment);
        }
        if text.is_empty() || ends_with_slash && !self.trailing_slash {
            text.push(b'/');
        }
        Cow::Owned(text)
    }

    /// The same for a path from the configuration.
    pub(crate) fn spell(self, path: &str) -> String {
        String::from_utf8_lossy(&self.normalize(path.as_bytes())).into_owned()
    }

    /// Whether nothing can be there to change, at the price of one look at each byte.
    fn is_normal(self, path: &[u8]) -> bool {
        let odd = |byte: u8| match byte {
            b';' => self.params,
            b'%' => self.decode,
            byte => self.decode && !byte.is_ascii_graphic(),
        };
        if path.iter().copied().any(odd) {
            return false;
        }
        let pairs = path.windows(2).any(|pair| match pair {
            b"//" => true,
            b"/." => self.dot_segments,
            _ => false,
        });
        !pairs && (path.len() == 1 || path.last() != Some(&b'/'))
    }

    fn segment(self, raw: &[u8]) -> Cow<'_, [u8]> {
        let raw = if self.params { raw.split(|&byte| byte == b';').next().unwrap_or_default() } else { raw };
        if !self.decode || raw.iter().all(|&byte| byte != b'%' && byte.is_ascii_graphic()) {
            return Cow::Borrowed(raw);
        }
        let mut text = Vec::with_capacity(raw.len());
        let mut rest = raw;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            match (byte, super::escaped(after)) {
                (b'%', Some(decoded)) => {
                    rest = after.get(2..).unwrap_or_default();
                    if decoded.is_ascii_alphanumeric() || b"-._~".contains(&decoded) {
                        text.push(decoded);
                    } else {
                        escape(&mut text, decoded);
                    }
                }
                (byte, _) if byte.is_ascii_graphic() && byte != b'%' => text.push(byte),
                (byte, _) => escape(&mut text, byte),
            }
        }
        Cow::Owned(text)
    }
}

fn escape(text: &mut Vec<u8>, byte: u8) {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).map_or(b'0', |digit| digit.to_ascii_uppercase() as u8);
    text.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
}
