//! The JSON schema of the plugin's configuration, for editors: it is the one that is in the repository, and it takes what
//! the reader takes.

use std::process::Command;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Value, json};
use sluice_filter::config::Config;

use crate::support::repository;

static SCHEMA: LazyLock<Validator> =
    LazyLock::new(|| jsonschema::validator_for(sluice_filter::config::schema::schema().as_value()).unwrap());

/// Fails if the schema refuses a configuration.
pub fn check(name: &str, config: &Value) {
    let errors: Vec<_> =
        SCHEMA.iter_errors(config).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{name}: {}", errors.join("\n"));
}

#[test]
fn the_file_is_what_the_command_prints() {
    let output = Command::new(env!("CARGO_BIN_EXE_sluice")).arg("schema").output().unwrap();
    let file = std::fs::read(repository().join("envoy/plugin.schema.json")).unwrap();
    let again = "cargo run -p sluice -- schema > envoy/plugin.schema.json";
    assert!(output.status.success() && output.stdout == file, "write it again: {again}");
}

/// Objects without `additionalProperties` would let misspelt fields through.
#[test]
fn every_object_is_closed() {
    fn look(at: &str, value: &Value) {
        if value.get("properties").is_some() && value.get("type").is_some() {
            assert_eq!(value.get("additionalProperties"), Some(&json!(false)), "{at}");
        }
        match value {
            Value::Object(map) => map.iter().for_each(|(name, value)| look(&format!("{at}/{name}"), value)),
            Value::Array(list) => list.iter().for_each(|value| look(at, value)),
            _ => {}
        }
    }
    look("", sluice_filter::config::schema::schema().as_value());
}

/// The least configuration, with this in the place of, or beside, what it has: a field of its own, of its rule, of its
/// check, or the one part of its key.
fn with(place: &str, value: Value) -> Value {
    let mut config = json!({"sidecar": {"cluster": "s"}, "hash_key": "sixteen-bytes-xx",
        "rules": [{"checks": [{"policy": "p", "key": []}]}]});
    let target = match place {
        "rule" => &mut config["rules"][0],
        "check" => &mut config["rules"][0]["checks"][0],
        "part" => {
            config["rules"][0]["checks"][0]["key"] = json!([value]);
            return config;
        }
        "match" => {
            config["rules"][0]["match"] = value;
            return config;
        }
        _ => &mut config,
    };
    let Value::Object(fields) = value else { panic!("{value} has no fields") };
    for (name, value) in fields {
        target[name] = value;
    }
    config
}

#[test]
fn what_the_reader_takes_is_taken() {
    let table = [
        ("", json!({"sidecar": {"cluster": "a|b", "timeout": "0010000ms", "authority": "a.b:80"}})),
        ("", json!({"sidecar": {"cluster": "s", "token_env": "_Sluice_TOKEN2"}})),
        ("", json!({"sidecar": {"cluster": "s", "timeout": "10s"}, "on_error": "deny", "headers": "none"})),
        ("", json!({"headers": [], "hash_key": "\u{1f511}\u{1f511}\u{1f511}\u{1f511}", "cors_preflight": "check"})),
        ("", json!({"headers": ["x-ratelimit", "ietf"], "forward_headers": true, "path": {"params": false}})),
        ("", json!({"trace_context": true})),
        ("", json!({"client_ip": {"trusted_hops": 2.0, "ipv4_prefix": 32, "ipv6_prefix": 128}})),
        ("", json!({"client_ip": {"trusted_cidrs": ["10.0.0.0/8", "::1", "::ffff:10.0.0.0/104"]}})),
        ("", json!({"denial_cache": {"max_age": 0, "entries": 5.0}})),
        ("", json!({"denial_cache": {"max_age": 0.0}})),
        ("", json!({"denial_cache": {"max_age": "60000ms"}})),
        ("", json!({"leases": "off"})),
        ("", json!({"leases": false})),
        ("", json!({"leases": {}})),
        ("", json!({"leases": {"entries": 5.0}})),
        (
            "",
            json!({"denied": {"status": 503.0, "body": "{\"a\":\n\"{policy}\"} {retry_after}", "content_type": "a/b"}}),
        ),
        ("", json!({"denied": {"headers": {"X-Denied-By": "{policy}", "cache-control": ""}}})),
        ("rule", json!({"denied": {}, "exempt": false})),
        ("", json!({"rules": [{"exempt": true}]})),
        ("match", json!({})),
        ("match", json!({"path": {"exact": "/a"}, "methods": ["GET", "post"], "host": "*.Example.com."})),
        ("match", json!({"path": {"prefix": "/"}, "host": ["a", "[::1]"], "client_ip": "10.0.0.0/8"})),
        ("match", json!({"path": {"regex": "(?i)/a.*"}, "client_ip": ["::/0", "192.0.2.1"]})),
        ("match", json!({"path": {"template": "/a/{b}/..."}, "not": {"not": {"methods": ["GET"]}}})),
        ("match", json!({"headers": {"Host": {"exact": ""}, ":Method": {"present": false}, "a": {"regex": "b"}}})),
        ("match", json!({"query": {"a b": {"present": true}}})),
        ("check", json!({"cost": 1e9, "on_missing": "deny", "on_missing_status": 403})),
        ("check", json!({"on_missing": "deny", "on_missing_status": 401, "on_missing_challenge": "Bearer"})),
        ("check", json!({"on_missing": "deny", "on_missing_status": 407, "on_missing_challenge": "Basic realm=\"a\""})),
        ("check", json!({"cost": {"header": "x-cost", "max": 9, "default": 0}, "on_missing": "skip"})),
        ("check", json!({"cost": {"query": "cost"}})),
        ("part", json!("client_ip")),
        ("part", json!("method")),
        ("part", json!({"client_ip": {}})),
        ("part", json!({"header": "X-Tenant", "lower": true, "hash": true, "default": "none"})),
        ("part", json!({"query": "q"})),
        ("part", json!({"cookie": "c"})),
        ("part", json!({"path": {}})),
        ("part", json!({"path_segment": 1})),
        ("part", json!({"template": "/users/{id}"})),
        ("part", json!({"attribute": "connection.mtls"})),
        ("part", json!({"attribute": ["a.b", "c"]})),
        ("part", json!({"metadata": ["ns", "a"]})),
        ("part", json!({"jwt_claim": "sub", "namespace": "n", "payload": "p", "unverified": false})),
        ("part", json!({"jwt_claim": ["a", "b"], "unverified": true})),
        ("part", json!({"literal": ""})),
    ];
    for (place, value) in table {
        let config = with(place, value);
        Config::parse(config.to_string().as_bytes()).unwrap_or_else(|error| panic!("{config}: {error}"));
        check(&config.to_string(), &config);
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "one table")]
fn what_has_the_wrong_form_is_refused() {
    let table = [
        ("", json!({"on_eror": "deny"})),
        ("", json!({"on_error": "close"})),
        ("", json!({"sidecar": {}})),
        ("", json!({"sidecar": {"cluster": "s", "timout": "1s"}})),
        ("", json!({"sidecar": {"cluster": ""}})),
        ("", json!({"sidecar": {"cluster": "s", "timeout": "0ms"}})),
        ("", json!({"sidecar": {"cluster": "s", "timeout": "10001ms"}})),
        ("", json!({"sidecar": {"cluster": "s", "timeout": "11s"}})),
        ("", json!({"sidecar": {"cluster": "s", "timeout": 50}})),
        ("", json!({"sidecar": {"cluster": "s", "authority": "a b"}})),
        ("", json!({"sidecar": {"cluster": "s", "token_env": "A-B"}})),
        ("", json!({"sidecar": {"cluster": "s", "token_env": ""}})),
        ("", json!({"sidecar": {"cluster": "s", "token": "0123456789abcdef"}})),
        ("", json!({"headers": "all"})),
        ("", json!({"headers": ["ietf", "none"]})),
        ("", json!({"hash_key": "fifteen-bytes-x"})),
        ("", json!({"client_ip": {"hops": 1}})),
        ("", json!({"client_ip": {"trusted_hops": 1, "trusted_cidrs": ["::/0"]}})),
        ("", json!({"client_ip": {"trusted_hops": 0}})),
        ("", json!({"client_ip": {"trusted_cidrs": []}})),
        ("", json!({"client_ip": {"trusted_cidrs": ["10.0.0.0/33"]}})),
        ("", json!({"client_ip": {"ipv4_prefix": 33}})),
        ("", json!({"path": {"decoding": true}})),
        ("", json!({"path": {"decode": "yes"}})),
        ("", json!({"denied": {"boddy": ""}})),
        ("", json!({"denied": {"status": 500}})),
        ("", json!({"denied": {"body": "{polcy}"}})),
        ("", json!({"denied": {"content_type": "text/html"}})),
        ("", json!({"denied": {"body": "", "content_type": "html"}})),
        ("", json!({"denied": {"headers": {"x y": ""}}})),
        ("", json!({"denied": {"headers": {"Retry-After": "1"}}})),
        ("", json!({"denied": {"headers": {"x-a": "a\nb"}}})),
        ("", json!({"denied": {"headers": {"x-a": "{b}"}}})),
        ("", json!({"cors_preflight": "allow"})),
        ("", json!({"forward_headers": "yes"})),
        ("", json!({"trace_context": 1})),
        ("", json!({"denial_cache": {"age": "1s"}})),
        ("", json!({"denial_cache": {"max_age": "61s"}})),
        ("", json!({"denial_cache": {"max_age": 1}})),
        ("", json!({"denial_cache": {"entries": 1.5}})),
        ("", json!({"leases": true})),
        ("", json!({"leases": "on"})),
        ("", json!({"leases": {"entries": 0}})),
        ("", json!({"leases": {"max": 1}})),
        ("", json!({"rules": []})),
        ("", json!({"rules": [{}]})),
        ("", json!({"rules": [{"exempt": false}]})),
        ("", json!({"rules": [{"exempt": true, "denied": {}}]})),
        ("rule", json!({"exempt": true})),
        ("rule", json!({"checks": []})),
        ("rule", json!({"matches": {}})),
        ("match", json!({"paths": []})),
        ("match", json!({"path": {}})),
        ("match", json!({"path": {"exact": "/", "prefix": "/"}})),
        ("match", json!({"path": {"exact": "x"}})),
        ("match", json!({"path": {"glob": "/x"}})),
        ("match", json!({"path": {"template": "/a{b}"}})),
        ("match", json!({"methods": []})),
        ("match", json!({"methods": ["G T"]})),
        ("match", json!({"methods": "GET"})),
        ("match", json!({"host": []})),
        ("match", json!({"host": "a:80"})),
        ("match", json!({"host": "a.*"})),
        ("match", json!({"host": "*."})),
        ("match", json!({"headers": {"a b": {"exact": "x"}}})),
        ("match", json!({"headers": {"a": {}}})),
        ("match", json!({"query": {"a": {"eq": "x"}}})),
        ("match", json!({"client_ip": "x"})),
        ("match", json!({"not": {}})),
        ("match", json!({"not": {"pth": 1}})),
        ("check", json!({"polcy": "p"})),
        ("check", json!({"policy": "a b"})),
        ("check", json!({"key": "client_ip"})),
        ("check", json!({"cost": -1})),
        ("check", json!({"cost": 1.5})),
        ("check", json!({"cost": 1_000_000_001})),
        ("check", json!({"cost": {}})),
        ("check", json!({"cost": {"heder": "a"}})),
        ("check", json!({"on_missing": "drop"})),
        ("check", json!({"on_missing_status": 403})),
        ("check", json!({"on_missing": "deny", "on_missing_status": 401})),
        ("check", json!({"on_missing": "deny", "on_missing_status": 407})),
        ("check", json!({"on_missing": "deny", "on_missing_status": 405})),
        ("check", json!({"on_missing": "deny", "on_missing_status": 426})),
        ("check", json!({"on_missing": "deny", "on_missing_challenge": "Bearer"})),
        ("check", json!({"on_missing": "deny", "on_missing_status": 403, "on_missing_challenge": "Bearer"})),
        ("check", json!({"on_missing": "deny", "on_missing_status": 401, "on_missing_challenge": ""})),
        ("check", json!({"on_missing": "deny", "on_missing_status": 401, "on_missing_challenge": "realm=a"})),
        ("check", json!({"on_missing": "deny", "on_missing_status": 200})),
        ("", json!({"rules": [{"checks": [{"key": []}]}]})),
        ("", json!({"rules": [{"checks": [{"policy": "p"}]}]})),
        ("part", json!("client-ip")),
        ("part", json!({})),
        ("part", json!({"heder": "a"})),
        ("part", json!({"header": "a", "literal": "b"})),
        ("part", json!({"header": "a b"})),
        ("part", json!({"header": "a", "hash": 1})),
        ("part", json!({"header": "a", "default": ""})),
        ("part", json!({"header": "a", "unverified": true})),
        ("part", json!({"query": ""})),
        ("part", json!({"cookie": "a b"})),
        ("part", json!({"path": true})),
        ("part", json!({"path_segment": 0})),
        ("part", json!({"template": "/users"})),
        ("part", json!({"template": "users/{id}"})),
        ("part", json!({"attribute": "a..b"})),
        ("part", json!({"metadata": ["ns"]})),
        ("part", json!({"jwt_claim": []})),
        ("part", json!({"jwt_claim": "a", "unverified": true, "payload": "p"})),
    ];
    for (place, value) in table {
        let config = with(place, value);
        assert!(Config::parse(config.to_string().as_bytes()).is_err(), "the reader takes {config}");
        assert!(!SCHEMA.is_valid(&config), "the schema takes {config}");
    }
    for config in [json!([]), json!({}), json!({"sidecar": {"cluster": "s"}})] {
        assert!(!SCHEMA.is_valid(&config), "the schema takes {config}");
    }
}
