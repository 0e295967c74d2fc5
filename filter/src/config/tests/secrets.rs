#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use wasm_bindgen_test::wasm_bindgen_test as test;

use super::{RULES, with};
use crate::config::Config;
use crate::keys::HashKey;

#[test]
fn the_key_of_digests_can_come_from_the_environment() {
    let part = r#"{"header":"a","hash":true}"#;
    let read = |value: Option<&str>| {
        let rules = format!(r#""rules":[{{"checks":[{{"policy":"p","key":[{part}]}}]}}]"#);
        let config = format!(r#"{{"sidecar":{{"cluster":"s"}},"hash_key_env":"SLUICE_HASH_KEY",{rules}}}"#);
        let mut config = Config::parse(config.as_bytes()).unwrap();
        let result = config.read_secrets(|name| value.filter(|_| name == "SLUICE_HASH_KEY").map(str::to_owned));
        result.map(|()| config)
    };
    let config = read(Some("0123456789abcdef\n")).unwrap();
    assert_eq!(config.hash_key, HashKey::new(b"0123456789abcdef"));
    assert!(!format!("{config:?}").contains("0123456789"), "{config:?}");
    for (value, message) in [
        (None, "hash_key_env: the variable SLUICE_HASH_KEY is missing or empty"),
        (Some("\n"), "hash_key_env: the variable SLUICE_HASH_KEY is missing or empty"),
        (Some("fifteen-bytes-x\n"), "hash_key_env: the variable SLUICE_HASH_KEY: a hash key has at least 16 bytes"),
    ] {
        let error = read(value).unwrap_err().to_string();
        assert!(error.starts_with(message) && !error.contains("fifteen"), "{error}");
    }
    let error = with(r#""hash_key":"0123456789abcdef","hash_key_env":"A""#).unwrap_err().to_string();
    assert!(error.starts_with("hash_key_env: there is a `hash_key` too"), "{error}");
}

#[test]
fn the_token_comes_from_the_environment() {
    let read = |value: Option<&str>| {
        let config = format!(r#"{{"sidecar":{{"cluster":"s","token_env":"SLUICE_TOKEN"}},{RULES}}}"#);
        let mut config = Config::parse(config.as_bytes()).unwrap();
        assert_eq!(config.sidecar.token, None);
        let result = config.read_secrets(|name| value.filter(|_| name == "SLUICE_TOKEN").map(str::to_owned));
        result.map(|()| config)
    };
    let config = read(Some("a-token-of-24-characters\n")).unwrap();
    assert_eq!(config.sidecar.token.as_ref().unwrap().authorization(), "Bearer a-token-of-24-characters");
    assert!(!format!("{config:?}").contains("a-token-of"), "{config:?}");
    for (value, message) in [
        (None, "sidecar.token_env: the variable SLUICE_TOKEN is missing or empty"),
        (Some(""), "sidecar.token_env: the variable SLUICE_TOKEN is missing or empty"),
        (Some(" \n"), "sidecar.token_env: the variable SLUICE_TOKEN is missing or empty"),
        (Some("sixteen, but a space"), "sidecar.token_env: the variable SLUICE_TOKEN: a token has 16 to 4096"),
        (Some("short"), "sidecar.token_env: the variable SLUICE_TOKEN: a token has 16 to 4096"),
    ] {
        let error = read(value).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
        assert!(!error.contains("short") && !error.contains("sixteen"), "{error}");
    }
    // Without the field, nothing is looked for.
    let mut config = with(r#""on_error":"deny""#).unwrap();
    config.read_secrets(|name| panic!("{name}")).unwrap();
    assert_eq!(config.sidecar.token, None);
}
