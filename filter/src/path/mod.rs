//! Request paths: what rules and keys see of `:path`, and how rules match it.

use crate::pattern::Pattern;

mod normalize;
mod template;
#[cfg(test)]
mod tests;

pub use normalize::PathSettings;
pub use template::Template;

/// The part of a request's `:path` that rules see: everything before the query.
pub fn without_query(path: &[u8]) -> &[u8] {
    path.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default()
}

/// The query of a request's `:path`, without its question mark.
pub fn query(path: &[u8]) -> Option<&[u8]> {
    let path = path.split(|&byte| byte == b'#').next().unwrap_or_default();
    let mark = path.iter().position(|&byte| byte == b'?')?;
    path.get(mark + 1..)
}

/// The byte that two hexadecimal digits at the beginning stand for.
pub fn escaped(text: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(0)? << 4 | digit(1)?)
}

/// Which paths a rule matches, in the spelling that [`PathSettings`] give. Case is not folded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathMatch {
    /// This path and no other.
    Exact(String),
    /// This path and everything below it. It is kept without its trailing slash, which means nothing:
    /// `/api/` and `/api` both match `/api`, `/api/` and `/api/x`, and neither matches `/apix`, as in
    /// Kubernetes' Gateway API.
    Prefix(String),
    /// Paths that match a regular expression as a whole.
    Regex(Pattern),
    /// Paths of this form.
    Template(Template),
}

impl PathMatch {
    /// A match for one path.
    ///
    /// # Errors
    /// A text for the user if no request can have this path.
    pub fn exact(path: String) -> Result<Self, &'static str> {
        check(&path)?;
        Ok(Self::Exact(path))
    }

    /// A match for a path and everything below it.
    ///
    /// # Errors
    /// A text for the user if no request can have a path like this.
    pub fn prefix(mut path: String) -> Result<Self, &'static str> {
        check(&path)?;
        if path.ends_with('/') {
            path.pop();
        }
        Ok(Self::Prefix(path))
    }

    /// A match for paths of a form.
    ///
    /// # Errors
    /// A text for the user if this is no template.
    pub fn template(text: &str) -> Result<Self, &'static str> {
        Template::parse(text).map(Self::Template)
    }

    /// The same match, in the spelling that requests' paths are brought into. A regular expression stays as it is.
    ///
    /// # Errors
    /// A text for the user if nothing sensible is left.
    pub fn respell(&self, settings: PathSettings) -> Result<Self, &'static str> {
        match self {
            Self::Exact(path) => Self::exact(settings.spell(path)),
            Self::Prefix(path) if path.is_empty() => Ok(self.clone()),
            Self::Prefix(path) => Self::prefix(settings.spell(path)),
            Self::Template(template) => template.respell(|text| settings.spell(text)).map(Self::Template),
            Self::Regex(_) => Ok(self.clone()),
        }
    }

    /// Whether a path, normalised, is matched.
    pub fn matches(&self, path: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => path == exact.as_bytes(),
            Self::Prefix(prefix) => {
                path.strip_prefix(prefix.as_bytes()).is_some_and(|rest| rest.first().is_none_or(|&byte| byte == b'/'))
            }
            Self::Regex(pattern) => pattern.matches(path),
            Self::Template(template) => template.matches(path),
        }
    }
}

fn check(path: &str) -> Result<(), &'static str> {
    if !path.starts_with('/') {
        Err("a path starts with \"/\"")
    } else if path.contains(['?', '#']) {
        Err("a path has no query: it is cut off before matching")
    } else {
        Ok(())
    }
}
