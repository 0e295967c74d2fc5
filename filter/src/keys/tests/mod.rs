#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use wasm_bindgen_test::wasm_bindgen_test as test;

mod parts;

use super::encode::part;
use super::{CheckSpec, Cost, Facts, KeyMissing, OnMissing, Refusal, Source, build};
use crate::config::Config;
use crate::host::fake::FakeHost;
use crate::wire::{Check, MISSING_PART};

fn header_check(on_missing: OnMissing) -> CheckSpec {
    let key = vec![Source::Header("x-id".to_owned()).into()];
    CheckSpec { policy: "p".to_owned(), key, cost: Cost::Fixed(1), on_missing, denied: None }
}

fn plain() -> Config {
    config("")
}

/// A configuration with one check, whose key is empty, and these fields beside `rules`.
fn config(fields: &str) -> Config {
    let rules = r#"[{"checks":[{"policy":"p","key":[]}]}]"#;
    Config::parse(format!(r#"{{"sidecar":{{"cluster":"s"}},{fields}"rules":{rules}}}"#).as_bytes()).unwrap()
}

fn key_of(host: &FakeHost, spec: &CheckSpec) -> Vec<String> {
    build(spec, &Facts::read(host, &plain())).unwrap().unwrap().key
}

#[test]
fn values_are_encoded_so_that_they_stay_distinct() {
    let table: [(&[u8], &str); 13] = [
        (b"acme", "acme"),
        (b"", ""),
        (b"100%", "100%25"),
        (b"%41", "%2541"),
        (b"%missing", "%25missing"),
        (b"\xc0\xa7", "%C0%A7"),
        (b"\xa1\xb1", "%A1%B1"),
        (b"a\xffb", "a%FFb"),
        (b"\x00\t\x1f\x7f", "%00%09%1F%7F"),
        ("\u{85}\u{9b}31m\u{a0}".as_bytes(), "%C2%85%C2%9B31m\u{a0}"),
        ("\u{e9}\u{20ac}".as_bytes(), "\u{e9}\u{20ac}"),
        (b"\xe2\x82", "%E2%82"),
        (b"a:{b} c", "a:{b} c"),
    ];
    for (raw, text) in table {
        assert_eq!(part(raw), text);
    }
}

#[test]
fn every_byte_survives() {
    let mut seen = std::collections::BTreeSet::new();
    for byte in 0..=u8::MAX {
        let text = part(&[byte]);
        assert!(!text.chars().any(|char| char.is_ascii_control()), "{byte}");
        assert!(seen.insert(text), "{byte}");
    }
}

#[test]
fn long_values_become_digests() {
    assert_eq!(part(&[b'a'; 1024]), "a".repeat(1024));
    let digest = part(&[b'a'; 1025]);
    assert_eq!(digest, "%sha256:4a82297889eb505cf6b5cbdf69977afab4632d6557539782f657bd7dc78091a5");
    assert_eq!(digest.len(), 8 + 64);
    assert!(digest[8..].bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase()));
    assert_ne!(digest, part(&[b'a'; 1026]));
    assert_ne!(part(digest.as_bytes()), digest);
    // Every byte of this one takes three when encoded: the raw length counts.
    assert_eq!(part(&[0xff; 1024]).len(), 3 * 1024);
}

#[test]
fn missing_empty_and_repeated_headers_are_one_bucket() {
    let spec = header_check(OnMissing::Bucket);
    let requests: [&[(&str, &[u8])]; 4] =
        [&[], &[("x-id", b"")], &[("x-id", b"a"), ("x-id", b"a")], &[("x-id", b""), ("x-id", b"a")]];
    for headers in requests {
        assert_eq!(key_of(&FakeHost::with(headers), &spec), [MISSING_PART], "{headers:?}");
    }
    assert_eq!(key_of(&FakeHost::with(&[("x-id", b"a")]), &spec), ["a"]);
    assert_eq!(key_of(&FakeHost::with(&[("x-id", b"%missing")]), &spec), ["%25missing"]);
}

#[test]
fn missing_can_skip_or_deny() {
    let host = FakeHost::with(&[]);
    let refusal = Refusal { status: 401, challenge: Some("Bearer".to_owned()) };
    let (skip, deny) = (header_check(OnMissing::Skip), header_check(OnMissing::Deny(refusal.clone())));
    let config = plain();
    let facts = Facts::read(&host, &config);
    assert_eq!(build(&skip, &facts), Ok(None));
    assert_eq!(build(&deny, &facts), Err(KeyMissing { policy: "p".to_owned(), refusal }));
    host.set_headers(&[("x-id", b"a")]);
    for spec in [skip, deny] {
        assert_eq!(key_of(&host, &spec), ["a"]);
    }
}

#[test]
fn parts_keep_their_order_and_checks_their_cost() {
    let spec = CheckSpec {
        policy: "p".to_owned(),
        key: vec![
            Source::Literal("api".to_owned()).into(),
            Source::ClientIp(None).into(),
            Source::Header(":authority".to_owned()).into(),
        ],
        cost: Cost::Fixed(7),
        on_missing: OnMissing::Bucket,
        denied: None,
    };
    let host = FakeHost::with(&[(":authority", b"A.example.:443")]);
    *host.source.borrow_mut() = Some(b"192.0.2.1:4711".to_vec());
    let check = Check {
        policy: "p".to_owned(),
        key: vec!["api".to_owned(), "192.0.2.1".to_owned(), "a.example".to_owned()],
        cost: 7,
        lease: 0,
    };
    assert_eq!(build(&spec, &Facts::read(&host, &plain())), Ok(Some(check)));
    let nothing = CheckSpec { key: vec![], ..spec };
    assert_eq!(key_of(&host, &nothing), Vec::<String>::new());
}

#[test]
fn a_peer_without_an_address_is_missing() {
    let spec = CheckSpec { key: vec![Source::ClientIp(None).into()], ..header_check(OnMissing::Bucket) };
    for source in [None, Some(b"@pipe".to_vec()), Some(b"\xff:1".to_vec())] {
        let host = FakeHost::default();
        *host.source.borrow_mut() = source;
        assert_eq!(key_of(&host, &spec), [MISSING_PART]);
    }
}

#[test]
fn only_what_envoy_takes_for_grpc_is_grpc() {
    let table: [(&[u8], bool); 7] = [
        (b"application/grpc", true),
        (b"application/grpc+proto", true),
        (b"application/grpc-web", false),
        (b"application/grpc;x", false),
        (b"application/json", false),
        (b"Application/grpc", false),
        (b"", false),
    ];
    for (kind, grpc) in table {
        let host = FakeHost::with(&[(":path", b"/"), ("content-type", kind)]);
        assert_eq!(Facts::read(&host, &plain()).is_grpc(), grpc, "{kind:?}");
    }
    assert!(!Facts::read(&FakeHost::with(&[("content-type", b"application/grpc")]), &plain()).is_grpc());
}
