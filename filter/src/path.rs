//! Request paths: what part of `:path` rules see, and how they match it.

/// The part of a request's `:path` that rules see: everything before the query.
pub fn without_query(path: &[u8]) -> &[u8] {
    path.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default()
}

/// Which paths a rule matches. The bytes are compared as they are: no case folding, no decoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathMatch {
    /// This path and no other.
    Exact(String),
    /// This path and everything below it. It is kept without its trailing slash, which means nothing:
    /// `/api/` and `/api` both match `/api`, `/api/` and `/api/x`, and neither matches `/apix`, as in
    /// Kubernetes' Gateway API.
    Prefix(String),
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

    /// Whether a path, its query cut off, is matched.
    pub fn matches(&self, path: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => path == exact.as_bytes(),
            Self::Prefix(prefix) => {
                path.strip_prefix(prefix.as_bytes()).is_some_and(|rest| rest.first().is_none_or(|&byte| byte == b'/'))
            }
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

#[cfg(test)]
mod tests {
    use super::{PathMatch, without_query};
    #[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn prefixes_end_on_segment_borders() {
        for prefix in ["/api", "/api/"] {
            let rule = PathMatch::prefix(prefix.to_owned()).unwrap();
            for path in ["/api", "/api/", "/api/x", "/api//"] {
                assert!(rule.matches(path.as_bytes()), "{prefix} {path}");
            }
            for path in ["/apix", "/ap", "/", "/API", "/x/api", "", "*"] {
                assert!(!rule.matches(path.as_bytes()), "{prefix} {path}");
            }
        }
        let all = PathMatch::prefix("/".to_owned()).unwrap();
        assert!(all.matches(b"/") && all.matches(b"/x") && all.matches(b"/\xc0\xa7"));
        assert!(!all.matches(b"*"));
    }

    #[test]
    fn exact_is_exact() {
        let rule = PathMatch::exact("/healthz".to_owned()).unwrap();
        assert!(rule.matches(b"/healthz"));
        for path in ["/healthz/", "/healthz/x", "/Healthz", "/health"] {
            assert!(!rule.matches(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn the_query_is_cut_off() {
        assert_eq!(without_query(b"/a?b=/c?d"), b"/a");
        assert_eq!(without_query(b"/a#b"), b"/a");
        assert_eq!(without_query(b"/a"), b"/a");
        assert_eq!(without_query(b""), b"");
    }

    #[test]
    fn impossible_paths_are_refused() {
        for path in ["", "api", "*", "/a?b", "/a#b"] {
            assert!(PathMatch::exact(path.to_owned()).is_err(), "{path}");
            assert!(PathMatch::prefix(path.to_owned()).is_err(), "{path}");
        }
    }
}
