use std::time::Duration;

use super::*;
use crate::policy::{Algorithm, Effect, LeaseTerms, Rate};

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, "sluice.yaml")
}

const FULL: &str = r#"
listen: 0.0.0.0:9090
admin: {listen: 0.0.0.0:9091, token_file: /run/secrets/admin}
auth: {token_file: /run/secrets/tokens}
tls: {cert_file: tls.crt, key_file: tls.key, client_ca_file: ca.crt}
store: redis://127.0.0.1:6379
store_timeout: 20ms
limits: {body_bytes: 1000, batch_checks: 10, request_checks: 5, key_bytes: 100}
policies:
  per-tenant:
    algorithm: token_bucket
    rate: 100/s
    burst: 200
    overrides:
      - {key: acme, rate: 1000/s, burst: 2000}
      - {key: "internal-*", unlimited: true}
      - {key: [mallory, "*"], blocked: true}
  per-ip: {algorithm: fixed_window, rate: 100/60s, align: true}
  slow: {algorithm: sliding_window, rate: 3/2s}
"#;

#[test]
fn a_full_configuration_is_read() {
    let config = parse(FULL).unwrap();
    assert_eq!(config.listen.to_string(), "0.0.0.0:9090");
    let admin = Admin { listen: "0.0.0.0:9091".parse().unwrap(), token_file: Some("/run/secrets/admin".into()) };
    assert_eq!(config.admin, Some(admin));
    assert_eq!(config.auth.unwrap().token_file.to_str(), Some("/run/secrets/tokens"));
    let tls = Tls { cert_file: "tls.crt".into(), key_file: "tls.key".into(), client_ca_file: Some("ca.crt".into()) };
    assert_eq!(config.tls, Some(tls));
    assert_eq!(config.store.address.to_string(), "redis://127.0.0.1:6379/0");
    assert_eq!(config.store.timeout, Duration::from_millis(20));
    let limits = Limits { body_bytes: 1000, batch_checks: 10, request_checks: 5, key_bytes: 100 };
    assert_eq!(config.limits, limits);
    let tenant = &config.policies["per-tenant"];
    assert_eq!(tenant.limit.algorithm, Algorithm::TokenBucket { burst: 200 });
    assert_eq!(tenant.limit.rate, Rate { count: 100, period_us: 1_000_000 });
    let key = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
    assert_eq!(tenant.limit_for(&key(&["acme"])).unwrap().algorithm, Algorithm::TokenBucket { burst: 2000 });
    assert_eq!(tenant.limit_for(&key(&["internal-a"])), None);
    assert_eq!(tenant.limit_for(&key(&["mallory", "x"])).unwrap().rate.count, 0);
    assert_eq!(tenant.limit_for(&key(&["other"])), Some(tenant.limit));
    assert_eq!(tenant.overrides.find(&key(&["mallory", "x"])), Some(&Effect::Blocked));
    assert_eq!(config.policies["per-ip"].limit.algorithm, Algorithm::FixedWindow { align: true });
    assert_eq!(config.policies["slow"].limit.algorithm, Algorithm::SlidingWindow);
}

#[test]
fn what_is_left_out_has_a_default() {
    let config = parse("policies: {p: {algorithm: token_bucket, rate: 7/s}}").unwrap();
    assert_eq!(config.store.address.to_string(), "memory");
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.store.timeout, Duration::from_millis(50));
    let admin = Admin { listen: "127.0.0.1:8081".parse().unwrap(), token_file: None };
    assert_eq!(config.admin, Some(admin));
    assert_eq!((config.auth, config.tls), (None, None));
    assert_eq!(config.limits, Limits::default());
    assert_eq!(config.policies["p"].limit.algorithm, Algorithm::TokenBucket { burst: 7 });
}

#[test]
fn errors_name_file_line_and_field() {
    let policy = |text: &str| format!("store: redis://r\npolicies:\n  p: {{algorithm: {text}}}\n");
    let table = [
        (String::new(), "the configuration: unexpected end of input"),
        ("policies: [".to_owned(), "line 1, column 11: policies"),
        ("store: redis://r\n".to_owned(), "missing field `policies`"),
        ("store: redis://r\npolicies: {}\n".to_owned(), "line 2, column 11: policies: at least one policy"),
        ("store: redis://r\nlisten: here\npolicies: {}\n".to_owned(), "line 2, column 9: listen: "),
        ("store: redis://r\nlisten: 127.0.0.1:0\nport: 1\n".to_owned(), "line 3, column 1: port: unknown field `port`"),
        ("admin: on\npolicies: {}\n".to_owned(), "admin: invalid value: boolean `true`, expected {listen: address, token_file: file}, or off"),
        ("admin: {}\npolicies: {}\n".to_owned(), "admin: missing field `listen`"),
        ("admin: {lisen: 1}\npolicies: {}\n".to_owned(), "line 1, column 9: admin.lisen: unknown field"),
        ("admin: {listen: 8081}\npolicies: {}\n".to_owned(), "line 1, column 17: admin.listen: "),
        ("admin: {listen: 127.0.0.1:1, token: x}\npolicies: {}\n".to_owned(), "column 30: admin.token: unknown field"),
        ("admin: {listen: 127.0.0.1:1, token_file: ''}\n".to_owned(), "admin.token_file: the name of the file is empty"),
        ("auth: {token: x}\npolicies: {}\n".to_owned(), "line 1, column 8: auth.token: unknown field"),
        ("auth: {token_file: ''}\npolicies: {}\n".to_owned(), "auth.token_file: the name of the file is empty"),
        ("auth: {}\npolicies: {}\n".to_owned(), "auth: missing field `token_file`"),
        ("tls: {cert_file: a}\npolicies: {}\n".to_owned(), "tls: missing field `key_file`"),
        ("tls: {cert_file: a, key_file: b, ca: c}\npolicies: {}\n".to_owned(), "tls.ca: unknown field"),
        ("store: http://r\npolicies: {}\n".to_owned(), "line 1, column 8: store: expected the address of a Redis"),
        ("store: redis://r\nstore_timeout: 50\npolicies: {}\n".to_owned(), "line 2, column 16: store_timeout: "),
        ("store: redis://r\nstore_timeout: 0ms\npolicies: {}\n".to_owned(), "line 2, column 16: store_timeout: "),
        ("store: redis://r\nstore_timeout: 11s\npolicies: {}\n".to_owned(), "line 2, column 16: store_timeout: "),
        ("store: redis://r\nlimits: {body: 1}\npolicies: {}\n".to_owned(), "line 2, column 10: limits.body: unknown field"),
        ("store: redis://r\nlimits: {body_bytes: -1}\npolicies: {}\n".to_owned(), "limits.body_bytes: invalid"),
        ("store: redis://r\npolicies: {a b: {algorithm: fixed_window, rate: 1/s}}\n".to_owned(), "line 2, column 12: "),
        (policy("leaky, rate: 1/s"), "line 3, column 18: policies.p.algorithm: unknown variant `leaky`"),
        (policy("fixed_window"), "line 3, column 7: policies.p: missing field `rate`"),
        (policy("fixed_window, rate: 1.5/s"), "policies.p.rate: the count \"1.5\" is not whole"),
        (policy("fixed_window, rate: 10/month"), "policies.p.rate: \"month\" is a calendar unit"),
        (policy("fixed_window, rate: 1/s, brust: 1"), "policies.p.brust: unknown field"),
        (policy("fixed_window, rate: 1/s, burst: 1"), "policies.p: burst: only a token_bucket"),
        (policy("sliding_window, rate: 1/s, burst: 1"), "policies.p: burst: only a token_bucket"),
        (policy("token_bucket, rate: 1/s, burst: 0"), "policies.p: burst: 0 is out of range"),
        (policy("token_bucket, rate: 1/s, burst: 1000000001"), "policies.p: burst: 1000000001 is out of range"),
        (policy("token_bucket, rate: 1/30d, burst: 1000000"), "policies.p: burst: a bucket of 1000000 takes more than 100"),
        (policy("token_bucket, rate: 1/s, align: true"), "policies.p: align: only a fixed_window"),
        (policy("sliding_window, rate: 1/s, overrides: [{key: a}]"), "policies.p: an override is one of"),
        (policy("sliding_window, rate: 1/s, overrides: [{key: a, blocked: true, unlimited: true}]"), "an override is one of"),
        (policy("token_bucket, rate: 1/s, overrides: [{key: a, burst: 1}]"), "burst without rate"),
        (policy("sliding_window, rate: 1/s, overrides: [{key: a, rate: 1/s, burst: 2}]"), "only a token_bucket"),
        (policy("sliding_window, rate: 1/s, overrides: [{keys: a}]"), "policies.p.overrides[0].keys: unknown field"),
        (policy("sliding_window, rate: 1/s, overrides: [{key: a, rate: 5}]"), "policies.p.overrides[0].rate: \"5\" is not a rate"),
        (
            "store: redis://r\npolicies:\n  p: {algorithm: fixed_window, rate: 1/s}\n  p: {algorithm: fixed_window, rate: 2/s}\n".to_owned(),
            "line 4, column 3: policies.?: duplicate mapping key",
        ),
    ];
    for (text, message) in table {
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.starts_with("sluice.yaml: line ") && error.contains(message), "{text}\n{error}");
    }
}

#[test]
fn the_admin_listener_can_be_off() {
    for off in ["off", "\"off\"", "false"] {
        let config = parse(&format!("admin: {off}\npolicies: {{p: {{algorithm: fixed_window, rate: 1/s}}}}")).unwrap();
        assert_eq!(config.admin, None, "{off}");
    }
}

#[test]
fn a_password_never_shows() {
    for text in ["store: redis://u:hunter2@x:port\npolicies: {}", "store: rediss://u:hunter2@x\npolicies: {}"] {
        assert!(!parse(text).unwrap_err().to_string().contains("hunter2"));
    }
    let config = parse("store: redis://u:hunter2@x\npolicies: {p: {algorithm: fixed_window, rate: 1/s}}").unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn the_filters_configuration_is_held_against_the_policies() {
    let config = parse(FULL).unwrap();
    let filter = |policy: &str| {
        format!(
            "sidecar: {{cluster: sluice}}\nrules:\n  - checks: [{{policy: per-ip, key: [client_ip]}}, {{policy: {policy}, key: []}}]\n"
        )
    };
    assert_eq!(config.check_filter(&filter("slow"), "plugin.yaml").unwrap(), 2);
    let error = config.check_filter(&filter("fast"), "plugin.yaml").unwrap_err().to_string();
    assert!(
        error.starts_with("plugin.yaml: line 3: rules[0].checks[1].policy: there is no policy \"fast\""),
        "{error}"
    );
    for (text, message) in [
        ("rules: 5", "line 1, column 8: rules: "),
        ("rules: [", "line 1, column 8: rules: "),
        (
            "sidecar: {cluster: sluice}\nrules:\n  - checks: [{polcy: p, key: []}]\n",
            "line 3, column 15: rules[0].checks[0].polcy: unknown",
        ),
        ("sidecar: {cluster: sluice}\nrules: []\n", "line 2, column 8: rules: at least one rule"),
    ] {
        let error = config.check_filter(text, "plugin.yaml").unwrap_err().to_string();
        assert!(error.starts_with(&format!("plugin.yaml: {message}")), "{error}");
    }
}

#[test]
fn leases_have_terms() {
    let terms = |lease: &str| {
        let text = format!("policies: {{p: {{algorithm: token_bucket, rate: 7/s, lease: {lease}}}}}");
        parse(&text).map(|config| config.policies["p"].lease)
    };
    let lease = |max, share_ppm, ttl_us| Some(LeaseTerms { max, share_ppm, ttl_us });
    assert_eq!(terms("{}").unwrap(), lease(100, 100_000, 250_000));
    assert_eq!(terms("{max: 5, share: 0.25, ttl: 1s}").unwrap(), lease(5, 250_000, 1_000_000));
    assert_eq!(terms("{share: 1}").unwrap(), lease(100, 1_000_000, 250_000));
    for bad in ["{max: 0}", "{share: 0}", "{share: 1.1}", "{ttl: 9ms}", "{ttl: 2m}", "{tll: 1s}", "5"] {
        let error = terms(bad).unwrap_err().to_string();
        assert!(error.contains("policies.p.lease"), "{bad}: {error}");
    }
    let shadow = "policies: {p: {algorithm: token_bucket, rate: 7/s, shadow: true, lease: {}}}";
    assert!(parse(shadow).unwrap_err().to_string().contains("lease: a shadow policy"));
}
