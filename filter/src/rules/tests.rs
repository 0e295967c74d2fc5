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
