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

#[test]
fn a_path_has_one_spelling() {
    let table: [(&[u8], &[u8]); 46] = [
        (b"/", b"/"),
        (b"/a/b", b"/a/b"),
        (b"/a?b=/c/..", b"/a"),
        (b"/a#b", b"/a"),
        (b"/%61%7E%2d%5F", b"/a~-_"),
        (b"/%2561", b"/%2561"),
        (b"/a%2fb", b"/a%2Fb"),
        (b"/a%2Fb", b"/a%2Fb"),
        (b"/%c3%a9", b"/%C3%A9"),
        ("/\u{e9}".as_bytes(), b"/%C3%A9"),
        (b"/\xff", b"/%FF"),
        (b"/a b", b"/a%20b"),
        (b"/%", b"/%25"),
        (b"/%4", b"/%254"),
        (b"/%zz", b"/%25zz"),
        (b"/100%/a", b"/100%25/a"),
        (b"/100%25/a", b"/100%25/a"),
        (b"/%4%41", b"/%254A"),
        (b"//", b"/"),
        (b"//a", b"/a"),
        (b"/a///b", b"/a/b"),
        (b"/a/", b"/a"),
        (b"/a//", b"/a"),
        (b"/.", b"/"),
        (b"/..", b"/"),
        (b"/../../a", b"/a"),
        (b"/a/.", b"/a"),
        (b"/a/./b", b"/a/b"),
        (b"/a/../b", b"/b"),
        (b"/a/b/..", b"/a"),
        (b"/a//../b", b"/b"),
        (b"/a/%2e%2E/b", b"/b"),
        (b"/a/.%2e/b", b"/b"),
        (b"/a/...", b"/a/..."),
        (b"/a/.b/..c", b"/a/.b/..c"),
        (b"/a;v=1/b;w", b"/a/b"),
        (b"/a/..;x/b", b"/b"),
        (b"/a/;x/b", b"/a/b"),
        (b"/a/;", b"/a"),
        (b"/a%3Bv=1", b"/a%3Bv=1"),
        (b"/api//x/../y;p=1", b"/api/y"),
        (b"/A", b"/A"),
        (b"*", b"*"),
        (b"", b""),
        (b"?", b""),
        (b"a/../b?c", b"a/../b"),
    ];
    let settings = PathSettings::default();
    for (raw, path) in table {
        let got = settings.normalize(raw);
        assert_eq!(got.escape_ascii().to_string(), path.escape_ascii().to_string(), "{}", raw.escape_ascii());
        assert_eq!(settings.normalize(&got), got, "a second time changes {}", path.escape_ascii());
    }
}

#[test]
fn each_difference_can_be_made_to_matter() {
    type Pairs = &'static [(&'static str, &'static str)];
    let on = PathSettings::default();
    let off =
        PathSettings { decode: false, merge_slashes: false, dot_segments: false, trailing_slash: false, params: false };
    let table: [(&str, PathSettings, Pairs); 6] = [
        ("decode", PathSettings { decode: false, ..on }, &[("/%61;x/%2e/\u{e9}/", "/%61/%2e/\u{e9}")]),
        (
            "merge_slashes",
            PathSettings { merge_slashes: false, ..on },
            &[("//a//b", "//a//b"), ("/a//../b", "/a/b"), ("/a/", "/a"), ("/a//", "/a"), ("//", "/"), ("/a/;x/", "/a")],
        ),
        (
            "dot_segments",
            PathSettings { dot_segments: false, ..on },
            &[("/a/../b/./c/", "/a/../b/./c"), ("/%2e", "/.")],
        ),
        (
            "trailing_slash",
            PathSettings { trailing_slash: false, ..on },
            &[
                ("/a/", "/a/"),
                ("/a//", "/a/"),
                ("/a", "/a"),
                ("/a/.", "/a/"),
                ("/a/b/..", "/a/"),
                ("/", "/"),
                ("/..", "/"),
            ],
        ),
        ("params", PathSettings { params: false, ..on }, &[("/a;v=1/", "/a;v=1"), ("/a/..;/b", "/a/..;/b")]),
        (
            "all",
            off,
            &[
                ("/%61//b/./..;x/?q", "/%61//b/./..;x/"),
                ("/", "/"),
                ("//", "//"),
                ("/a//", "/a//"),
                ("/\u{e9} ", "/\u{e9} "),
            ],
        ),
    ];
    for (name, settings, paths) in table {
        for (raw, path) in paths {
            assert_eq!(settings.spell(raw), *path, "without {name}: {raw}");
        }
    }
}

#[test]
fn no_path_panics() {
    let settings = [PathSettings::default(), PathSettings { merge_slashes: false, ..PathSettings::default() }];
    let template = Template::parse("/{a}/...").unwrap();
    let bytes = b"/.%;\xff4a?";
    let mut path = Vec::new();
    for mut number in 0..bytes.len().pow(5) {
        path.clear();
        path.push(b'/');
        for _ in 0..5 {
            path.push(bytes[number % bytes.len()]);
            number /= bytes.len();
        }
        for settings in settings {
            let normal = settings.normalize(&path);
            assert!(normal.starts_with(b"/") && normal.is_ascii(), "{}", path.escape_ascii());
            assert!(!normal.ends_with(b"/..") && (normal.len() == 1 || !normal.ends_with(b"/")));
            template.values(&normal);
        }
        query(&path);
    }
}

#[test]
fn templates_give_what_stands_at_their_placeholders() {
    let table = [
        ("/users/{id}", "/users/7", Some("7")),
        ("/users/{id}", "/users", None),
        ("/users/{id}", "/users/", None),
        ("/users/{id}", "/users/7/x", None),
        ("/users/{id}", "/user/7", None),
        ("/users/{id}/...", "/users/7", Some("7")),
        ("/users/{id}/...", "/users/7/x/y", Some("7")),
        ("/users/{id}/...", "/users", None),
        ("/users/{id}/orders/{order}", "/users/7/orders/8", Some("7/8")),
        ("/users/{id}/orders/{order}", "/users/7/8", None),
        ("/{a}/{b}", "/a%2Fb/c", Some("a%2Fb/c")),
        ("/...", "/", Some("")),
        ("/...", "/a/b", Some("")),
        ("/a", "/a", Some("")),
        ("/a", "a", None),
        ("/a", "*", None),
    ];
    for (template, path, values) in table {
        let parsed = Template::parse(template).unwrap();
        let got = parsed.values(path.as_bytes()).map(|values| String::from_utf8(values).unwrap());
        assert_eq!(got.as_deref(), values, "{template} {path}");
        assert_eq!(parsed.matches(path.as_bytes()), values.is_some(), "{template} {path}");
    }
    for wrong in ["", "users", "/{", "/{}", "/a{id}", "/{id}b", "/{a{b}}", "/}", "/.../a", "/a?{id}", "/{a}{b}"] {
        assert!(Template::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn paths_of_rules_are_spelt_like_those_of_requests() {
    let settings = PathSettings::default();
    let spelt = |rule: PathMatch| rule.respell(settings).unwrap();
    assert_eq!(spelt(PathMatch::exact("/a//%62/;x".to_owned()).unwrap()), PathMatch::Exact("/a/b".to_owned()));
    assert_eq!(spelt(PathMatch::prefix("/a//%62/".to_owned()).unwrap()), PathMatch::Prefix("/a/b".to_owned()));
    assert_eq!(spelt(PathMatch::prefix("/".to_owned()).unwrap()), PathMatch::Prefix(String::new()));
    for (text, plain) in [("/a//{id}/", "/a/{id}"), ("/\u{e9}/{id}/...", "/%C3%A9/{id}/..."), ("/...", "/...")] {
        assert_eq!(spelt(PathMatch::template(text).unwrap()), PathMatch::template(plain).unwrap(), "{text}");
    }
}

#[test]
fn the_query_is_what_follows_the_first_question_mark() {
    assert_eq!(query(b"/a?b=/c?d#e?f"), Some(&b"b=/c?d"[..]));
    assert_eq!(query(b"/a?"), Some(&b""[..]));
    assert_eq!(query(b"/a"), None);
    assert_eq!(query(b"/a#b?c"), None);
}
