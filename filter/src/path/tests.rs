#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use wasm_bindgen_test::wasm_bindgen_test as test;

use super::{PathMatch, PathSettings, Template, query, without_query};

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
