#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use wasm_bindgen_test::wasm_bindgen_test as test;

use super::{checks, host};
use crate::config::Config;
use crate::host::fake::FakeHost;
use crate::keys::Facts;

/// The policies that a configuration's rules want for a request.
fn policies(rules: &str, method: &str, authority: &str, path: &str) -> Vec<String> {
    let config = format!(r#"{{"sidecar":{{"cluster":"s"}},"rules":{rules}}}"#);
    let config = Config::parse(config.as_bytes()).unwrap();
    let headers: Vec<(&str, &[u8])> = [(":method", method), (":authority", authority), (":path", path)]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name, value.as_bytes()))
        .collect();
    let fake = FakeHost::with(&headers);
    checks(&config.rules, &Facts::read(&fake, &config)).into_iter().map(|check| check.policy.clone()).collect()
}

#[test]
fn every_matching_rule_adds_its_checks_until_one_exempts() {
    let rules = r#"[
        {"checks":[{"policy":"all","key":[]}]},
        {"match":{"path":{"exact":"/healthz"}},"exempt":true},
        {"match":{"path":{"prefix":"/api/"}},"checks":[{"policy":"api-1","key":[]},{"policy":"api-2","key":[]}]},
        {"match":{"path":{"prefix":"/api/v2"}},"checks":[{"policy":"v2","key":[]}]},
        {"checks":[{"policy":"last","key":[]}]}
    ]"#;
    let at = |path| policies(rules, "GET", "a.example", path).join(" ");
    assert_eq!(at("/"), "all last");
    assert_eq!(at("/api/v1"), "all api-1 api-2 last");
    assert_eq!(at("/api/v2/x?y=/healthz"), "all api-1 api-2 v2 last");
    assert_eq!(at("/healthz"), "all", "what came before an exemption stays");
    assert_eq!(at("/healthz?deep=1"), "all");
    assert_eq!(at("/healthz/x"), "all last");
    assert_eq!(at(""), "all last", "a CONNECT request has no path");
}

#[test]
fn all_of_a_match_must_match() {
    let rules = r#"[{"match":{"path":{"prefix":"/a"},"methods":["get","POST"],"host":["A.example.","b.example"]},
        "checks":[{"policy":"p","key":[]}]}]"#;
    let table = [
        ("GET", "a.example", "/a", true),
        ("POST", "B.EXAMPLE:8443", "/a/b", true),
        ("GET", "a.example.:80", "/a", true),
        ("get", "a.example", "/a", false),
        ("PUT", "a.example", "/a", false),
        ("GET", "c.example", "/a", false),
        ("GET", "xa.example", "/a", false),
        ("GET", "", "/a", false),
        ("", "a.example", "/a", false),
        ("GET", "a.example", "/b", false),
    ];
    for (method, authority, path, matches) in table {
        let got = !policies(rules, method, authority, path).is_empty();
        assert_eq!(got, matches, "{method} {authority} {path}");
    }
}

#[test]
fn hosts_lose_case_port_and_trailing_dot() {
    let table = [
        ("A.Example", Some("a.example")),
        ("a.example:443", Some("a.example")),
        ("a.example.:443", Some("a.example")),
        ("a.example:", Some("a.example")),
        ("192.0.2.1:80", Some("192.0.2.1")),
        ("[2001:DB8::1]:443", Some("[2001:db8::1]")),
        ("[2001:db8::1]", Some("[2001:db8::1]")),
        ("", None),
        (":80", None),
        (".", None),
    ];
    for (authority, plain) in table {
        let got = host(authority.as_bytes()).map(|host| String::from_utf8(host).unwrap());
        assert_eq!(got.as_deref(), plain, "{authority}");
    }
    assert_eq!(host(b"\xff\xc0:1"), Some(b"\xff\xc0".to_vec()));
}

/// Whether a match takes a request.
fn takes(json: &str, headers: &[(&str, &[u8])], source: &str) -> bool {
    let config = format!(r#"{{"sidecar":{{"cluster":"s"}},"rules":[{{"match":{json},"exempt":true}}]}}"#);
    let config = Config::parse(config.as_bytes()).unwrap_or_else(|error| panic!("{json}: {error}"));
    let fake = FakeHost::with(headers);
    *fake.source.borrow_mut() = Some(source.as_bytes().to_vec());
    config.rules[0].matches.matches(&Facts::read(&fake, &config))
}

#[test]
fn paths_match_in_any_spelling() {
    type Paths = &'static [&'static [u8]];
    let table: [(&str, Paths, Paths); 6] = [
        (r#"{"exact":"/api/y/"}"#, &[b"/api/y", b"/api//x/../y;p=1", b"/%61pi/y/?q"], &[b"/api/Y", b"/api/y%2F", b"/"]),
        (r#"{"prefix":"/api/"}"#, &[b"/api", b"//api/x", b"/x/../api/y"], &[b"/apix", b"/api/../x", b"/api/%2e%2e/"]),
        (r#"{"regex":"/v[0-9]+/.*"}"#, &[b"/v1/x", b"/v1/\xff", b"/v1/x/"], &[b"/v/x", b"/x/v1/x", b"/v1", b"/v22/"]),
        (r#"{"regex":"/a|/ab"}"#, &[b"/a", b"/ab"], &[b"/abc", b"/b"]),
        (r#"{"template":"/users/{id}"}"#, &[b"/users/7", b"/users/7/"], &[b"/users", b"/users/7/x"]),
        (r#"{"template":"/users/{id}/..."}"#, &[b"/users/7/x/y"], &[b"/users"]),
    ];
    for (path, yes, no) in table {
        let json = format!(r#"{{"path":{path}}}"#);
        for raw in yes {
            assert!(takes(&json, &[(":path", raw)], ""), "{json} {}", raw.escape_ascii());
        }
        for raw in no {
            assert!(!takes(&json, &[(":path", raw)], ""), "{json} {}", raw.escape_ascii());
        }
        assert!(!takes(&json, &[], ""), "a CONNECT request has no path");
    }
}

#[test]
fn hosts_match_by_their_end() {
    let table = [
        ("a.example.com", true),
        ("A.B.Example.COM.:443", true),
        ("example.com", false),
        (".example.com", false),
        ("aexample.com", false),
        ("a.example.com.org", false),
        ("b.example", true),
    ];
    for (authority, yes) in table {
        let json = r#"{"host":["*.Example.com","b.example"]}"#;
        assert_eq!(takes(json, &[(":authority", authority.as_bytes())], ""), yes, "{authority}");
    }
}

#[test]
fn headers_and_parameters_match_by_any_of_their_values() {
    let table: [(&str, &[&[u8]], bool); 13] = [
        (r#"{"exact":"a"}"#, &[b"a"], true),
        (r#"{"exact":"a"}"#, &[b"A"], false),
        (r#"{"exact":"a"}"#, &[b"b", b"a"], true),
        (r#"{"exact":"a"}"#, &[], false),
        (r#"{"exact":""}"#, &[b""], true),
        (r#"{"present":true}"#, &[b""], true),
        (r#"{"present":true}"#, &[], false),
        (r#"{"present":false}"#, &[], true),
        (r#"{"present":false}"#, &[b"x"], false),
        (r#"{"regex":"a+"}"#, &[b"aaa"], true),
        (r#"{"regex":"a+"}"#, &[b"aab"], false),
        (r#"{"regex":"a.*"}"#, &[b"b", b"a\xff"], true),
        (r#"{"regex":"(?i)A"}"#, &[b"a"], true),
    ];
    for (value, values, yes) in table {
        let headers: Vec<_> = values.iter().map(|value| ("x-h", *value)).collect();
        assert_eq!(takes(&format!(r#"{{"headers":{{"X-H":{value}}}}}"#), &headers, ""), yes, "{value} {values:?}");
        let query: Vec<u8> = values.iter().flat_map(|value| [b"&q=", *value].concat()).collect();
        let path = [b"/?p=1", query.as_slice()].concat();
        assert_eq!(
            takes(&format!(r#"{{"query":{{"q":{value}}}}}"#), &[(":path", &path)], ""),
            yes,
            "{value} {values:?}"
        );
    }
    let both = r#"{"headers":{"a":{"exact":"1"},"b":{"exact":"2"}}}"#;
    assert!(takes(both, &[("a", b"1"), ("b", b"2")], ""));
    assert!(!takes(both, &[("a", b"1"), ("b", b"1")], ""));
    assert!(takes(r#"{"headers":{"Host":{"exact":"a.example"}}}"#, &[(":authority", b"A.example:80")], ""));
}

#[test]
fn addresses_match_by_block() {
    let json = r#"{"client_ip":["10.0.0.0/8","2001:db8::/32"]}"#;
    for (source, yes) in [("10.1.1.1:5", true), ("[2001:db8:5::1]:5", true), ("11.1.1.1:5", false), ("@pipe", false)] {
        assert_eq!(takes(json, &[], source), yes, "{source}");
    }
    assert!(takes(r#"{"client_ip":"192.0.2.1"}"#, &[], "192.0.2.1:5"));
    // Anybody can say that.
    assert!(!takes(json, &[("x-forwarded-for", b"10.1.1.1")], "192.0.2.1:5"));
}

#[test]
fn not_turns_a_match_around() {
    let json = r#"{"path":{"prefix":"/a"},"not":{"path":{"exact":"/a//x/"},"headers":{"h":{"present":true}}}}"#;
    assert!(takes(json, &[(":path", b"/a/y"), ("h", b"1")], ""));
    assert!(takes(json, &[(":path", b"/a/x")], ""));
    assert!(!takes(json, &[(":path", b"/a/x"), ("h", b"1")], ""));
    assert!(!takes(json, &[(":path", b"/b")], ""));
    let twice = r#"{"not":{"not":{"methods":["GET"]}}}"#;
    assert!(takes(twice, &[(":method", b"GET")], "") && !takes(twice, &[(":method", b"PUT")], ""));
}

/// How long rules take: `cargo test --release -p sluice-filter --lib a_hundred_rules -- --ignored --nocapture`.
#[test]
#[ignore = "a benchmark"]
#[cfg(not(target_arch = "wasm32"))]
fn a_hundred_rules() {
    let kinds: [(&str, &dyn Fn(usize) -> String); 4] = [
        ("exact and prefix", &|i| match i % 2 {
            0 => format!(r#"{{"path":{{"exact":"/service-{i}/items"}},"methods":["GET"]}}"#),
            _ => format!(r#"{{"path":{{"prefix":"/service-{i}/"}},"host":"*.example.com"}}"#),
        }),
        ("template", &|i| format!(r#"{{"path":{{"template":"/service-{i}/{{id}}/..."}}}}"#)),
        ("header", &|i| format!(r#"{{"headers":{{"x-tenant-id":{{"exact":"tenant-{i}"}}}}}}"#)),
        ("regex", &|i| format!(r#"{{"path":{{"regex":"/service-{i}/[0-9]+/.*"}}}}"#)),
    ];
    let headers: [(&str, &[u8]); 8] = [
        (":path", b"/service-99/12345/items?page=2&sort=name"),
        (":method", b"GET"),
        (":authority", b"api.example.com"),
        ("user-agent", b"Mozilla/5.0 (X11; Linux x86_64)"),
        ("accept", b"application/json"),
        ("x-forwarded-for", b"203.0.113.9"),
        ("x-request-id", b"0b4a5b1e-6a4e-4a53-9f9b-1d9c5d8f4c11"),
        ("x-tenant-id", b"tenant-99"),
    ];
    let fake = FakeHost::with(&headers);
    for (kind, matches) in kinds {
        let rules: Vec<_> = (0..100)
            .map(|i| {
                format!(r#"{{"match":{},"checks":[{{"policy":"p","key":[{{"header":"x-tenant-id"}}]}}]}}"#, matches(i))
            })
            .collect();
        let config = format!(r#"{{"sidecar":{{"cluster":"s"}},"rules":[{}]}}"#, rules.join(","));
        let config = Config::parse(config.as_bytes()).unwrap();
        let run = || {
            let start = std::time::Instant::now();
            for _ in 0..200 {
                let facts = Facts::read(&fake, &config);
                let checks = checks(&config.rules, &facts);
                assert_eq!(checks.len(), 1, "{kind}");
                std::hint::black_box(crate::keys::build(checks[0], &facts).unwrap());
            }
            start.elapsed() / 200
        };
        // The fastest run: whatever else the machine does can only make one slower.
        let fastest = (0..200).map(|_| run()).min().unwrap();
        println!("100 rules by {kind}: {} ns per request", fastest.as_nanos());
    }
}
