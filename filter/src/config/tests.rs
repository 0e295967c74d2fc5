#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::time::Duration;

use super::{Config, ConfigError, CorsPreflight, OnError};
use crate::client_ip::Trust;
use crate::denials::Limits;
use crate::headers::Dialect;
use crate::keys::{CheckSpec, Cost, KeyPart, OnMissing, Refusal, Source};
use crate::path::{PathMatch, PathSettings};
use crate::rules::{Effect, HostMatch};

mod answers;
mod secrets;

const RULES: &str = r#""rules":[{"checks":[{"policy":"p","key":[]}]}]"#;

/// A configuration with one more field.
fn with(field: &str) -> Result<Config, ConfigError> {
    Config::parse(format!(r#"{{"sidecar":{{"cluster":"s"}},{RULES},{field}}}"#).as_bytes())
}

/// A configuration with one rule.
fn rule(rule: &str) -> Result<Config, ConfigError> {
    Config::parse(format!(r#"{{"sidecar":{{"cluster":"s"}},"rules":[{rule}]}}"#).as_bytes())
}

/// A configuration with one check.
fn check(check: &str) -> Result<Config, ConfigError> {
    rule(&format!(r#"{{"checks":[{check}]}}"#))
}

fn checks(config: &Config) -> &[CheckSpec] {
    match &config.rules[0].effect {
        Effect::Check(checks) => checks,
        Effect::Exempt => &[],
    }
}

#[test]
fn the_least_configuration_has_defaults() {
    let config = Config::parse(format!(r#"{{"sidecar":{{"cluster":"s"}},{RULES}}}"#).as_bytes()).unwrap();
    assert_eq!(config.sidecar.cluster, "s");
    assert_eq!(config.sidecar.timeout, Duration::from_millis(50));
    assert_eq!(config.sidecar.authority, "sluice");
    assert_eq!(config.on_error, OnError::Allow);
    assert_eq!(config.headers, [Dialect::Ietf]);
    assert_eq!((&config.denied, config.cors_preflight, config.forward_headers), (&None, CorsPreflight::Exempt, false));
    assert!(!config.trace_context);
    assert_eq!(config.denial_cache, Limits { max_age: Duration::from_secs(1), entries: 10_000 });
    assert_eq!(config.leases.entries, 10_000);
    let check = &checks(&config)[0];
    assert_eq!((&check.cost, &check.on_missing), (&Cost::Fixed(1), &OnMissing::Bucket));
    assert!(check.key.is_empty(), "one bucket for everybody");
}

#[test]
fn everything_can_be_said() {
    let config = Config::parse(
        br#"{
          "sidecar": {"cluster": "sluice", "timeout": "2s", "authority": "limits.local:8080"},
          "on_error": "deny",
          "headers": ["x-ratelimit", "ietf"],
          "rules": [
            {"match": {"path": {"prefix": "/api/"}, "methods": ["GET", "post"], "host": "A.Example."},
             "checks": [{"policy": "per-tenant", "cost": 5, "on_missing": "deny",
                         "key": ["client_ip", {"header": "X-Tenant-Id"}, {"literal": "100%"}, {"header": "Host"}]}]},
            {"match": {"path": {"exact": "/healthz"}, "host": ["a", "[::1]"]}, "exempt": true}
          ]
        }"#,
    )
    .unwrap();
    assert_eq!(config.sidecar.timeout, Duration::from_secs(2));
    assert_eq!(config.sidecar.authority, "limits.local:8080");
    assert_eq!(config.on_error, OnError::Deny);
    assert_eq!(config.headers, [Dialect::XRateLimit, Dialect::Ietf]);
    let first = &config.rules[0].matches;
    assert_eq!(first.path, Some(PathMatch::Prefix("/api".to_owned())));
    assert_eq!(first.methods.as_deref().unwrap(), ["GET", "POST"]);
    assert_eq!(first.hosts.as_deref().unwrap(), [HostMatch::Exact("a.example".to_owned())]);
    let check = &checks(&config)[0];
    let refusal = Refusal { status: 429, challenge: None };
    assert_eq!((&check.cost, &check.on_missing), (&Cost::Fixed(5), &OnMissing::Deny(refusal)));
    let key = [
        Source::ClientIp(None),
        Source::Header("x-tenant-id".to_owned()),
        Source::Literal("100%".to_owned()),
        Source::Header(":authority".to_owned()),
    ];
    let key = key.map(KeyPart::from);
    assert_eq!(check.key, key);
    assert_eq!(config.rules[1].effect, Effect::Exempt);
    let hosts = ["a", "[::1]"].map(|host| HostMatch::Exact(host.to_owned()));
    assert_eq!(config.rules[1].matches.hosts.as_deref().unwrap(), hosts);
    let policies: Vec<_> = config.policies().collect();
    assert_eq!(policies, [("rules[0].checks[0].policy".to_owned(), "per-tenant")]);
}

#[test]
fn headers_may_be_none_one_or_several() {
    let table: [(&str, &[Dialect]); 6] = [
        (r#""none""#, &[]),
        ("[]", &[]),
        (r#""ietf""#, &[Dialect::Ietf]),
        (r#""x-ratelimit""#, &[Dialect::XRateLimit]),
        (r#"["x-ratelimit"]"#, &[Dialect::XRateLimit]),
        (r#"["ietf","ietf"]"#, &[Dialect::Ietf]),
    ];
    for (text, dialects) in table {
        assert_eq!(with(&format!(r#""headers":{text}"#)).unwrap().headers, dialects, "{text}");
    }
}

#[test]
fn costs_may_come_as_doubles() {
    for (text, cost) in [("0", 0), ("5.0", 5), ("1e9", 1_000_000_000), ("1000000000", 1_000_000_000)] {
        let config = check(&format!(r#"{{"policy":"p","key":[],"cost":{text}}}"#)).unwrap();
        assert_eq!(checks(&config)[0].cost, Cost::Fixed(cost), "{text}");
    }
}

/// Each with the beginning of its message.
#[test]
fn errors_name_field_and_place() {
    let table = vec![
        (Config::parse(b""), "it is empty"),
        (Config::parse(b" \n"), "it is empty"),
        (Config::parse(b"\n5\n\x03\x12\x1a"), "it is binary"),
        (Config::parse(b"{"), "EOF while parsing an object (line 1, column 1)"),
        (Config::parse(b"{\"rules\":[\xff]}"), "expected value (line 1, column 11)"),
        (Config::parse(b"[]"), "it is no JSON object"),
        (Config::parse(b"sidecar:\n  cluster: s\n"), "it is no JSON object"),
        (Config::parse(b"{}"), "missing field `sidecar` (line 1, column 2)"),
        (Config::parse(br#"{"sidecar":{"cluster":"s"}}"#), "missing field `rules`"),
        (Config::parse(br#"{"sidecar":{},"rules":[]}"#), "sidecar: missing field `cluster`"),
        (Config::parse(br#"{"sidecar":{"cluster":""}}"#), "sidecar.cluster: the cluster's name is empty"),
        (
            Config::parse(br#"{"sidecar":{"cluster":"s"},"rules":[]}"#),
            "rules: at least one rule is needed (line 1, column 38)",
        ),
        (
            Config::parse(br#"{"sidecar":{"cluster":"s","timeout":"0ms"}}"#),
            "sidecar.timeout: expected a duration from 1ms to 10s, such as \"50ms\" or \"1s\" (line 1, column 42)",
        ),
        (Config::parse(br#"{"sidecar":{"cluster":"s","timeout":"11s"}}"#), "sidecar.timeout: expected a duration"),
        (Config::parse(br#"{"sidecar":{"cluster":"s","timeout":"50"}}"#), "sidecar.timeout: expected a duration"),
        (Config::parse(br#"{"sidecar":{"cluster":"s","timeout":50}}"#), "sidecar.timeout: invalid type: integer `50`"),
        (Config::parse(br#"{"sidecar":{"cluster":"s","authority":"a b"}}"#), "sidecar.authority: expected a host"),
        (
            Config::parse(br#"{"sidecar":{"cluster":"s","token_env":"A-B"}}"#),
            "sidecar.token_env: expected the name of an environment variable",
        ),
        (Config::parse(br#"{"sidecar":{"cluster":"s","token_env":""}}"#), "sidecar.token_env: expected the name"),
        (Config::parse(br#"{"sidecar":{"cluster":"s","token_env":"1A"}}"#), "sidecar.token_env: expected the name"),
        (Config::parse(br#"{"sidecar":{"cluster":"s","token":"x"}}"#), "sidecar.token: unknown field `token`"),
        (with(r#""on_eror":"deny""#), "on_eror: unknown field `on_eror`, expected one of `sidecar`, `on_error`"),
        (with(r#""on_error":"close""#), "on_error: unknown variant `close`, expected `allow` or `deny`"),
        (with(r#""headers":"all""#), "headers: unknown variant `all`, expected one of `ietf`, `x-ratelimit`, `none`"),
        (with(r#""headers":["ietf","none"]"#), "headers[1]: unknown variant `none`, expected `ietf` or `x-ratelimit`"),
        (with(r#""headers":7"#), "headers: invalid type: integer `7`, expected \"none\" or a list"),
        (rule("{}"), "rules[0]: a rule needs `checks` or `exempt: true`"),
        (rule(r#"{"checks":[]}"#), "rules[0]: `checks` needs at least one check"),
        (rule(r#"{"exempt":false}"#), "rules[0]: a rule needs `checks`"),
        (
            rule(r#"{"exempt":true,"checks":[{"policy":"p","key":[]}]}"#),
            "rules[0]: a rule has either `checks` or `exempt: true`, not both",
        ),
        (rule(r#"{"match":{"paths":[]},"exempt":true}"#), "rules[0].match.paths: unknown field `paths`"),
        (
            rule(r#"{"match":{"path":{}},"exempt":true}"#),
            "rules[0].match.path: expected one of `exact`, `prefix`, `regex` and `template`",
        ),
        (
            rule(r#"{"match":{"path":{"exact":"/","prefix":"/"}},"exempt":true}"#),
            "rules[0].match.path: expected one of `exact`, `prefix`, `regex` and `template`",
        ),
        (rule(r#"{"match":{"path":{"exact":"x"}},"exempt":true}"#), "rules[0].match.path: a path starts with \"/\""),
        (rule(r#"{"match":{"path":{"glob":"x"}},"exempt":true}"#), "rules[0].match.path.glob: unknown field"),
        (rule(r#"{"match":{"methods":[]},"exempt":true}"#), "rules[0].match: `methods` needs at least one method"),
        (rule(r#"{"match":{"methods":["G T"]},"exempt":true}"#), "rules[0].match.methods[0]: this is no method"),
        (rule(r#"{"match":{"host":[]},"exempt":true}"#), "rules[0].match.host: the list is empty"),
        (rule(r#"{"match":{"host":""},"exempt":true}"#), "rules[0].match.host: this is no host"),
        (rule(r#"{"match":{"host":"a b"},"exempt":true}"#), "rules[0].match.host: this is no host"),
        (rule(r#"{"match":{"host":["a","a:80"]},"exempt":true}"#), "rules[0].match.host[1]: a host has no port"),
        (rule(r#"{"match":{"host":"a.*"},"exempt":true}"#), "rules[0].match.host: a wildcard can only be"),
        (check(r#"{"key":[]}"#), "rules[0].checks[0]: missing field `policy`"),
        (check(r#"{"policy":"p"}"#), "rules[0].checks[0]: missing field `key`"),
        (check(r#"{"policy":"","key":[]}"#), "rules[0].checks[0].policy: the policy's name is empty"),
        (check(r#"{"policy":"a b","key":[]}"#), "rules[0].checks[0].policy: a policy's name is made of"),
        (check(r#"{"policy":"p","key":[],"cost":-1}"#), "rules[0].checks[0].cost: invalid type: integer `-1`"),
        (check(r#"{"policy":"p","key":[],"cost":1.5}"#), "rules[0].checks[0].cost: invalid value: floating point"),
        (
            check(r#"{"policy":"p","key":[],"cost":1000000001}"#),
            "rules[0].checks[0].cost: invalid value: integer `1000000001`, expected a whole number from 0 to 1000000000",
        ),
        (check(r#"{"policy":"p","key":[],"cots":1}"#), "rules[0].checks[0].cots: unknown field `cots`"),
        (
            check(r#"{"policy":"p","key":[],"on_missing":"drop"}"#),
            "rules[0].checks[0].on_missing: unknown variant `drop`, expected one of `bucket`, `skip`, `deny`",
        ),
        (
            check(r#"{"policy":"p","key":["client-ip"]}"#),
            "rules[0].checks[0].key[0]: invalid value: string \"client-ip\", expected \"client_ip\", \"path\"",
        ),
        (
            check(r#"{"policy":"p","key":[{}]}"#),
            "rules[0].checks[0].key[0]: expected one of `client_ip`, `header`, `query`",
        ),
        (
            check(r#"{"policy":"p","key":[{"header":"a","literal":"b"}]}"#),
            "rules[0].checks[0].key[0]: expected one of `client_ip`, `header`, `query`",
        ),
        (
            check(r#"{"policy":"p","key":["client_ip",{"header":"x tenant"}]}"#),
            "rules[0].checks[0].key[1].header: this is no header name",
        ),
        (check(r#"{"policy":"p","key":[{"header":""}]}"#), "rules[0].checks[0].key[0].header: this is no header name"),
        (check(r#"{"policy":"p","key":[{"heder":"a"}]}"#), "rules[0].checks[0].key[0].heder: unknown field `heder`"),
        (check(r#"{"policy":"p","key":"client_ip"}"#), "rules[0].checks[0].key: invalid type: string"),
    ];
    assert_messages(table);
}

#[test]
fn an_object_is_read_from_an_object_only() {
    let table = [
        (
            Config::parse(br#"{"sidecar":["s"],"rules":[]}"#),
            "sidecar: invalid type: sequence, expected an object (line 1",
        ),
        (Config::parse(br#"{"sidecar":"s","rules":[]}"#), "sidecar: invalid type: string \"s\", expected an object"),
        (Config::parse(br#"{"sidecar":null,"rules":[]}"#), "sidecar: invalid type: null, expected an object"),
        (rule("[]"), "rules[0]: invalid type: sequence, expected an object"),
        (rule(r#"{"checks":[["p",[]]]}"#), "rules[0].checks[0]: invalid type: sequence, expected an object"),
        (
            rule(r#"{"exempt":true,"match":{"not":[]}}"#),
            "rules[0].match.not: invalid type: sequence, expected an object",
        ),
        (
            check(r#"{"policy":"p","key":[["a"]]}"#),
            "rules[0].checks[0].key[0]: invalid type: sequence, expected \"client",
        ),
    ];
    assert_messages(table);
}

#[test]
fn errors_in_keys_name_field_and_place() {
    let part = |part: &str| check(&format!(r#"{{"policy":"p","key":[{part}]}}"#));
    let missing = |fields: &str| check(&format!(r#"{{"policy":"p","key":[],"on_missing":"deny",{fields}}}"#));
    let table = [
        (part(r#"{"query":""}"#), "rules[0].checks[0].key[0].query: the name is empty"),
        (part(r#"{"cookie":"a b"}"#), "rules[0].checks[0].key[0].cookie: this is no cookie's name"),
        (part(r#"{"path":true}"#), "rules[0].checks[0].key[0].path: invalid type: boolean `true`"),
        (part(r#"{"path_segment":0}"#), "rules[0].checks[0].key[0].path_segment: invalid value: integer `0`"),
        (part(r#"{"template":"/users"}"#), "rules[0].checks[0].key[0].template: a template without a placeholder"),
        (part(r#"{"template":"/a{b}"}"#), "rules[0].checks[0].key[0].template: a placeholder is a whole segment"),
        (part(r#"{"template":"users/{id}"}"#), "rules[0].checks[0].key[0].template: a path starts with"),
        (part(r#"{"template":"/{a}/{b;c}"}"#), "rules[0].checks[0].key[0].template: a placeholder is"),
        (part(r#"{"attribute":"a..b"}"#), "rules[0].checks[0].key[0].attribute: this is no attribute"),
        (part(r#"{"attribute":[]}"#), "rules[0].checks[0].key[0].attribute: the list is empty"),
        (part(r#"{"metadata":["ns"]}"#), "rules[0].checks[0].key[0]: `metadata` is a namespace and"),
        (part(r#"{"metadata":["ns",""]}"#), "rules[0].checks[0].key[0].metadata[1]: the name is empty"),
        (part(r#"{"jwt_claim":""}"#), "rules[0].checks[0].key[0].jwt_claim: the name is empty"),
        (
            part(r#"{"jwt_claim":"a","unverified":true,"payload":"p"}"#),
            "rules[0].checks[0].key[0]: `namespace` and `payload` are where",
        ),
        (part(r#"{"header":"a","unverified":true}"#), "rules[0].checks[0].key[0]: `namespace`, `payload` and"),
        (part(r#"{"header":"a","default":""}"#), "rules[0].checks[0].key[0].default: the name is empty"),
        (part(r#"{"header":"a","hash":1}"#), "rules[0].checks[0].key[0].hash: invalid type: integer `1`"),
        (part(r#"{"header":"a","hash":true}"#), "rules[0].checks[0].key[0].hash: a digest needs a `hash_key_env`"),
        (
            part(r#"{"client_ip":{"trusted_hops":0}}"#),
            "rules[0].checks[0].key[0].client_ip.trusted_hops: invalid value: integer `0`, expected a whole number from 1",
        ),
        (
            check(r#"{"policy":"p","key":[],"on_missing_status":403}"#),
            "rules[0].checks[0]: `on_missing_status` is for `on_missing: deny`",
        ),
        (missing(r#""on_missing_status":401"#), "rules[0].checks[0]: HTTP demands `on_missing_challenge` of"),
        (missing(r#""on_missing_status":407.0"#), "rules[0].checks[0]: HTTP demands `on_missing_challenge` of"),
        (missing(r#""on_missing_challenge":"Bearer""#), "rules[0].checks[0]: HTTP demands `on_missing_challenge` of"),
        (
            missing(r#""on_missing_status":403,"on_missing_challenge":"Bearer""#),
            "rules[0].checks[0]: HTTP demands `on_missing_challenge` of `on_missing_status: 401` and 407, and of no other",
        ),
        (
            missing(r#""on_missing_status":401,"on_missing_challenge":"""#),
            "rules[0].checks[0].on_missing_challenge: expected a challenge, such as \"Bearer\"",
        ),
        (missing(r#""on_missing_challenge":"realm=\"a\"""#), "rules[0].checks[0].on_missing_challenge: expected a"),
        (missing(r#""on_missing_challenge":"Bearer \u00e9""#), "rules[0].checks[0].on_missing_challenge: expected a"),
        (missing(r#""on_missing_challenge":" Bearer""#), "rules[0].checks[0].on_missing_challenge: expected a"),
        (missing(r#""on_missing_status":405"#), "rules[0].checks[0].on_missing_status: another method or protocol"),
        (missing(r#""on_missing_status":426"#), "rules[0].checks[0].on_missing_status: another method or protocol"),
        (
            check(r#"{"policy":"p","key":[],"on_missing":"deny","on_missing_status":200}"#),
            "rules[0].checks[0].on_missing_status: invalid value: integer `200`, expected a whole number from 400 to 599",
        ),
        (
            check(r#"{"policy":"p","key":[],"cost":{}}"#),
            "rules[0].checks[0].cost: expected one of `header` and `query`",
        ),
        (
            check(r#"{"policy":"p","key":[],"cost":{"header":"a","max":2,"default":3}}"#),
            "rules[0].checks[0].cost: `default` is above `max`",
        ),
        (check(r#"{"policy":"p","key":[],"cost":{"heder":"a"}}"#), "rules[0].checks[0].cost.heder: unknown field"),
    ];
    assert_messages(table);
}

#[test]
fn errors_in_matches_and_settings_name_field_and_place() {
    let matches = |text: &str| rule(&format!(r#"{{"match":{text},"exempt":true}}"#));
    let table = [
        (matches(r#"{"path":{"regex":"("}}"#), "rules[0].match.path.regex: this is no regular expression: "),
        (matches(r#"{"path":{"regex":"a)(b"}}"#), "rules[0].match.path.regex: this is no regular expression: "),
        (matches(r#"{"path":{"regex":"(a{999}){999}"}}"#), "rules[0].match.path.regex: this is no regular expression"),
        (matches(r#"{"path":{"template":"/{"}}"#), "rules[0].match.path: a placeholder is a whole segment"),
        (matches(r#"{"host":"*.*"}"#), "rules[0].match.host: a wildcard can only be"),
        (matches(r#"{"host":"*."}"#), "rules[0].match.host: this is no host"),
        (matches(r#"{"headers":{"a b":{"exact":"x"}}}"#), "rules[0].match.headers.a b: this is no header name"),
        (matches(r#"{"headers":{"a":{}}}"#), "rules[0].match.headers.a: expected one of `exact`, `present` and"),
        (matches(r#"{"headers":{"a":{"regex":"["}}}"#), "rules[0].match.headers.a.regex: this is no regular"),
        (matches(r#"{"query":{"a":{"eq":"x"}}}"#), "rules[0].match.query.a.eq: unknown field"),
        (matches(r#"{"client_ip":["10.0.0.1/8"]}"#), "rules[0].match.client_ip[0]: this address has bits beyond"),
        (matches(r#"{"client_ip":"x"}"#), "rules[0].match.client_ip: expected an address or a block"),
        (matches(r#"{"not":{}}"#), "rules[0].match: `not` needs something"),
        (matches(r#"{"not":{"pth":1}}"#), "rules[0].match.not.pth: unknown field"),
        (with(r#""a\n\u009b":1"#), r"a\n\u{9b}: unknown field `a\n\u{9b}`, expected"),
        (rule(r#"{"checks":[{"policy":"p","key":["a\nb"]}]}"#), r"rules[0].checks[0].key[0]: "),
        (with(r#""path":{"decoding":true}"#), "path.decoding: unknown field `decoding`"),
        (with(r#""path":{"decode":"yes"}"#), "path.decode: invalid type: string"),
        (with(r#""client_ip":{"trusted_hops":1,"trusted_cidrs":["::/0"]}"#), "client_ip: expected one of"),
        (with(r#""client_ip":{"trusted_cidrs":[]}"#), "client_ip: `trusted_cidrs` needs at least one block"),
        (with(r#""client_ip":{"trusted_cidrs":["10.0.0.0/33"]}"#), "client_ip.trusted_cidrs[0]: expected an address"),
        (with(r#""client_ip":{"ipv4_prefix":33}"#), "client_ip.ipv4_prefix: invalid value: integer `33`"),
        (with(r#""client_ip":{"ipv6_prefix":0}"#), "client_ip.ipv6_prefix: invalid value: integer `0`"),
        (with(r#""hash_key":"fifteen-bytes-x""#), "hash_key: a hash key has at least 16 bytes (line"),
        (with(r#""hash_key":5"#), "hash_key: invalid type: integer `5`"),
    ];
    assert_messages(table);
}

#[test]
fn settings_are_read() {
    let config = with(r#""path":{"params":false},"client_ip":{"trusted_hops":2.0,"ipv6_prefix":56}"#).unwrap();
    assert_eq!(config.path, PathSettings { params: false, ..PathSettings::default() });
    assert_eq!(config.client_ip.trust, Some(Trust::Hops(2)));
    assert_eq!((config.client_ip.ipv4_prefix, config.client_ip.ipv6_prefix), (None, Some(56)));
    for (fields, status, challenge) in [
        ("", 429, None),
        (r#","on_missing_status":403.0"#, 403, None),
        (r#","on_missing_status":401,"on_missing_challenge":"Bearer""#, 401, Some("Bearer")),
        (r#","on_missing_status":407,"on_missing_challenge":"Basic realm=\"a\"""#, 407, Some("Basic realm=\"a\"")),
    ] {
        let config = check(&format!(r#"{{"policy":"p","key":[],"on_missing":"deny"{fields}}}"#)).unwrap();
        let refusal = Refusal { status, challenge: challenge.map(str::to_owned) };
        assert_eq!(checks(&config)[0].on_missing, OnMissing::Deny(refusal), "{fields}");
    }
}

/// Each is refused with one line that begins like this.
fn assert_messages(table: impl IntoIterator<Item = (Result<Config, ConfigError>, &'static str)>) {
    let mut wrong = Vec::new();
    for (result, beginning) in table {
        let message = result.expect_err(beginning).to_string();
        if !message.starts_with(beginning) || message.contains('\n') {
            wrong.push(format!("{message}\n  instead of\n{beginning}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn places_are_those_of_the_text() {
    let json = b"{\"sidecar\": {\"cluster\": \"s\"},\n \"rules\": [\n  {\"checks\": [{\"policy\": \"p\",\n   \"key\": [\"ip\"]}]}]}";
    let error = Config::parse(json).unwrap_err();
    let ConfigError::Field { path, line, .. } = &error else { panic!("{error:?}") };
    assert_eq!((path.as_str(), *line), ("rules[0].checks[0].key[0]", 4));
    assert!(error.to_string().contains("(line 4, column "), "{error}");
    let error = Config::parse(format!("{{\"sidecar\":{{\"cluster\":\"s\"}},{RULES}}} x").as_bytes()).unwrap_err();
    assert!(error.to_string().starts_with("trailing characters"), "{error}");
}
