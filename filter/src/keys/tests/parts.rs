//! Each kind of part, read from the configuration as users write it.

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use wasm_bindgen_test::wasm_bindgen_test as test;

use serde_json::{Value, json};

use super::super::{Facts, build};
use crate::config::Config;
use crate::host::fake::FakeHost;
use crate::rules::Effect;
use crate::wire::Check;

const MISSING: &str = "%missing";

fn config(fields: &str, check: &str) -> Config {
    let rules = format!(r#"[{{"checks":[{{"policy":"p",{check}}}]}}]"#);
    Config::parse(format!(r#"{{"sidecar":{{"cluster":"s"}},{fields}"rules":{rules}}}"#).as_bytes()).unwrap()
}

fn built(config: &Config, host: &FakeHost) -> Check {
    let Effect::Check(checks) = &config.rules[0].effect else { panic!() };
    build(&checks[0], &Facts::read(host, config)).unwrap().unwrap()
}

/// The text of one part.
fn part(host: &FakeHost, part: &str) -> String {
    let config = config(r#""hash_key":"0123456789abcdef","#, &format!(r#""key":[{part}]"#));
    built(&config, host).key.remove(0)
}

fn at(path: &str) -> FakeHost {
    FakeHost::with(&[(":path", path.as_bytes())])
}

#[test]
fn query_parameters() {
    let table = [
        ("/?k=v", "v"),
        ("/?a=b&k=v&c", "v"),
        ("/?k=a+b%20c%C3%A9", "a b c\u{e9}"),
        ("/?k=%ff%zz%", "%FF%25zz%25"),
        ("/?%6b=v", "v"),
        ("/?k=a=b", "a=b"),
        ("/?k=v#k=w", "v"),
        ("/?k=", MISSING),
        ("/?k", MISSING),
        ("/?k=v&k=v", MISSING),
        ("/?k=v&%6b=w", MISSING),
        ("/?K=v&kk=v", MISSING),
        ("/?&&", MISSING),
        ("/", MISSING),
        ("/#?k=v", MISSING),
    ];
    for (path, text) in table {
        assert_eq!(part(&at(path), r#"{"query":"k"}"#), text, "{path}");
    }
    assert_eq!(part(&FakeHost::default(), r#"{"query":"k"}"#), MISSING);
}

#[test]
fn cookies() {
    let table: [(&[&[u8]], &str); 11] = [
        (&[b"k=v"], "v"),
        (&[b"a=b; k=v; c=d"], "v"),
        (&[b"a=b", b"k=v"], "v"),
        (&[b"a=b;k = v ;c"], "v"),
        (&[b"k=a=b"], "a=b"),
        (&[b"k=\xff\""], "%FF\""),
        (&[b"k=v; k=v"], MISSING),
        (&[b"k=v", b"k=w"], MISSING),
        (&[b"k="], MISSING),
        (&[b"k; kk=v; K=v"], MISSING),
        (&[], MISSING),
    ];
    for (headers, text) in table {
        let headers: Vec<_> = headers.iter().map(|value| ("cookie", *value)).collect();
        assert_eq!(part(&FakeHost::with(&headers), r#"{"cookie":"k"}"#), text, "{headers:?}");
    }
}

#[test]
fn paths_methods_and_hosts() {
    let host =
        FakeHost::with(&[(":path", b"/Users//7/./x;v=1/?q"), (":method", b"GET"), (":authority", b"API.example.:443")]);
    let table = [
        (r#""path""#, "/Users/7/x"),
        (r#"{"path":{}}"#, "/Users/7/x"),
        (r#"{"path":{},"lower":true}"#, "/users/7/x"),
        (r#"{"path_segment":1}"#, "Users"),
        (r#"{"path_segment":3.0}"#, "x"),
        (r#"{"path_segment":4}"#, MISSING),
        (r#"{"template":"/Users/{id}/..."}"#, "7"),
        (r#"{"template":"/Users//{id}/{what}/"}"#, "7/x"),
        (r#"{"template":"/users/{id}/..."}"#, MISSING),
        (r#""method""#, "GET"),
        (r#"{"method":{}}"#, "GET"),
        (r#""host""#, "api.example"),
        (r#"{"host":{}}"#, "api.example"),
    ];
    for (json, text) in table {
        assert_eq!(part(&host, json), text, "{json}");
    }
    for json in [r#""path""#, r#"{"path_segment":1}"#, r#"{"template":"/{a}"}"#, r#""method""#, r#""host""#] {
        assert_eq!(part(&FakeHost::default(), json), MISSING, "{json}");
    }
    assert_eq!(part(&at("/"), r#"{"path_segment":1}"#), MISSING);
    assert_eq!(part(&at("*"), r#"{"path_segment":1}"#), MISSING);
}

#[test]
fn the_clients_address() {
    let host = FakeHost::with(&[("x-forwarded-for", b"203.0.113.9, 10.0.0.7")]);
    *host.source.borrow_mut() = Some(b"10.0.0.7:99".to_vec());
    let table = [
        ("", r#""client_ip""#, "10.0.0.7"),
        ("", r#"{"client_ip":{}}"#, "10.0.0.7"),
        ("", r#"{"client_ip":{"trusted_hops":2}}"#, "203.0.113.9"),
        ("", r#"{"client_ip":{"trusted_cidrs":["10.0.0.0/8"],"ipv4_prefix":24}}"#, "203.0.113.0/24"),
        (r#""client_ip":{"trusted_hops":2},"#, r#""client_ip""#, "203.0.113.9"),
        (r#""client_ip":{"trusted_hops":2},"#, r#"{"client_ip":{"ipv4_prefix":8}}"#, "203.0.0.0/8"),
        (r#""client_ip":{"trusted_hops":2},"#, r#"{"client_ip":{"trusted_hops":1}}"#, "10.0.0.7"),
        (r#""client_ip":{"ipv4_prefix":16},"#, r#"{"client_ip":{"trusted_hops":2}}"#, "203.0.0.0/16"),
    ];
    for (fields, json, text) in table {
        let config = config(fields, &format!(r#""key":[{json}]"#));
        assert_eq!(built(&config, &host).key, [text], "{fields} {json}");
    }
    *host.source.borrow_mut() = Some(b"[2001:db8:1:2:3::4]:99".to_vec());
    assert_eq!(part(&host, r#""client_ip""#), "2001:db8:1:2::/64");
    assert_eq!(part(&host, r#"{"client_ip":{"ipv6_prefix":128}}"#), "2001:db8:1:2:3::4");
}

#[test]
fn attributes_and_metadata() {
    let host = FakeHost::default();
    let set = |path: &str, value: &[u8]| {
        host.attributes.borrow_mut().insert(path.to_owned(), value.to_vec());
    };
    set("connection mtls", &[1]);
    set("connection id", &443_i64.to_le_bytes());
    set("connection tls_version", b"TLSv1.3");
    set("connection empty", b"");
    set("connection odd", b"\xff\x00");
    set("wasm a.b", b"12345678");
    set("metadata filter_metadata ns number", &7.0_f64.to_le_bytes());
    set("metadata filter_metadata ns half", &7.5_f64.to_le_bytes());
    set("metadata filter_metadata ns no", &[0]);
    set("metadata filter_metadata ns list", &handed_over(&json!(["a"])).unwrap());
    set("metadata filter_metadata ns lists", &handed_over(&json!(["a", "b"])).unwrap());
    set("request list", &[&[1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0][..], &443_i64.to_le_bytes(), &[0, 0]].concat());
    set("request headers", &handed_over(&json!({":method": "GET"})).unwrap());
    set("metadata filter_metadata ns deep er", "\u{e9}%".as_bytes());
    set("metadata filter_metadata envoy.filters.http.jwt_authn payload sub", b"alice");
    set("metadata filter_metadata envoy.filters.http.jwt_authn payload a b", b"deep");
    set("metadata filter_metadata other claims sub", b"bob");
    let table = [
        (r#"{"attribute":"connection.mtls"}"#, "true"),
        (r#"{"attribute":["connection","id"]}"#, "443"),
        (r#"{"attribute":"connection.tls_version"}"#, "TLSv1.3"),
        (r#"{"attribute":"connection.tls_version","lower":true}"#, "tlsv1.3"),
        (r#"{"attribute":"connection.empty"}"#, MISSING),
        (r#"{"attribute":"connection.odd"}"#, "%FF%00"),
        (r#"{"attribute":"connection.none"}"#, MISSING),
        (r#"{"attribute":["wasm","a.b"]}"#, "12345678"),
        (r#"{"metadata":["ns","number"]}"#, "7"),
        (r#"{"attribute":"metadata.filter_metadata.ns.number"}"#, "7"),
        (r#"{"metadata":["ns","half"]}"#, "7.5"),
        (r#"{"metadata":["ns","no"]}"#, "false"),
        (r#"{"metadata":["ns","deep","er"]}"#, "\u{e9}%25"),
        (r#"{"metadata":["ns","deep"]}"#, MISSING),
        (r#"{"metadata":["ns","list"]}"#, "a"),
        (r#"{"metadata":["ns","lists"]}"#, MISSING),
        (r#"{"attribute":"request.list"}"#, "443"),
        (r#"{"attribute":"request.headers"}"#, MISSING),
        (r#"{"jwt_claim":"sub"}"#, "alice"),
        (r#"{"jwt_claim":["a","b"]}"#, "deep"),
        (r#"{"jwt_claim":"none"}"#, MISSING),
        (r#"{"jwt_claim":"sub","namespace":"other","payload":"claims"}"#, "bob"),
        (r#"{"jwt_claim":"sub","unverified":false}"#, "alice"),
        (r#"{"jwt_claim":"sub","unverified":true}"#, MISSING),
    ];
    for (json, text) in table {
        assert_eq!(part(&host, json), text, "{json}");
    }
}

/// A value of metadata as Envoy hands it over; `None` where it can't.
fn handed_over(value: &Value) -> Option<Vec<u8>> {
    let pairs = |pairs: Vec<(Vec<u8>, Vec<u8>)>| {
        let size = |length: usize| u32::try_from(length).unwrap().to_le_bytes();
        let mut bytes = size(pairs.len()).to_vec();
        bytes.extend(pairs.iter().flat_map(|(name, value)| [size(name.len()), size(value.len())]).flatten());
        bytes.extend(pairs.iter().flat_map(|(name, value)| [name, &b"\0"[..], value, &b"\0"[..]].concat()));
        bytes
    };
    match value {
        Value::Null => None,
        Value::Bool(flag) => Some(vec![u8::from(*flag)]),
        Value::Number(number) => Some(number.as_f64().unwrap().to_le_bytes().to_vec()),
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Array(list) => {
            list.iter().map(|value| Some((handed_over(value)?, Vec::new()))).collect::<Option<_>>().map(pairs)
        }
        Value::Object(fields) => {
            let field = |(name, value): (&String, _)| Some((name.as_bytes().to_vec(), handed_over(value)?));
            fields.iter().map(field).collect::<Option<_>>().map(pairs)
        }
    }
}

/// A claim is the same to us whether Envoy has verified it or nobody has.
#[test]
fn claims_of_any_form() {
    use base64::Engine;
    let table = [
        (json!("alice>?\u{ff}"), "alice>?\u{ff}"),
        (json!("a\nb"), "a%0Ab"),
        (json!(""), MISSING),
        (json!(7), "7"),
        (json!(7.0), "7"),
        (json!(1.5), "1.5"),
        (json!(-3), "-3"),
        (json!(9_007_199_254_740_993_u64), "9007199254740992"),
        (json!(true), "true"),
        (json!(false), "false"),
        (json!(null), MISSING),
        (json!(["a"]), "a"),
        (json!(["\u{e9}%\n"]), "\u{e9}%25%0A"),
        (json!([""]), MISSING),
        (json!([7]), "7"),
        (json!([true]), "true"),
        (json!([null]), MISSING),
        (json!([]), MISSING),
        (json!(["a", "b"]), MISSING),
        (json!(["a", "a"]), MISSING),
        (json!(["a", ""]), MISSING),
        (json!([["a"]]), MISSING),
        (json!([[]]), MISSING),
        (json!([{"a": "b"}]), MISSING),
        (json!({}), MISSING),
        (json!({"a": "b"}), MISSING),
        (json!({"a": "b", "c": 7}), MISSING),
    ];
    for (claim, text) in table {
        let claims = json!({"c": claim, "o": {"c": claim}});
        let payload = base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
        let host = FakeHost::with(&[("authorization", format!("Bearer e30.{payload}.c2ln").as_bytes())]);
        for path in ["c", "o c"] {
            let path = format!("metadata filter_metadata envoy.filters.http.jwt_authn payload {path}");
            host.attributes.borrow_mut().extend(handed_over(&claim).map(|value| (path, value)));
        }
        for path in [json!("c"), json!(["o", "c"])] {
            for unverified in [false, true] {
                let json = json!({"jwt_claim": path, "unverified": unverified}).to_string();
                assert_eq!(part(&host, &json), text, "{json} of {claim}");
            }
        }
        for path in [json!("none"), json!(["c", "x"]), json!(["c", "0"])] {
            let json = json!({"jwt_claim": path, "unverified": true}).to_string();
            assert_eq!(part(&host, &json), MISSING, "{json} of {claim}");
        }
    }
}

#[test]
fn claims_of_a_token_that_nobody_verified() {
    use base64::Engine;
    let encode = |payload: &[u8]| base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(payload);
    let token = format!("Bearer e30.{}.c2ln", encode(br#"{"sub":"a"}"#));

    let sub =
        |header: &[u8]| part(&FakeHost::with(&[("authorization", header)]), r#"{"jwt_claim":"sub","unverified":true}"#);
    let payload = encode(br#"{"sub":"a"}"#);
    assert_eq!(sub(format!("bearer x.{payload}=.").as_bytes()), "a", "padded");
    let deep = encode(("[".repeat(5000)).as_bytes());
    let wide = encode(&[b' '; 13 << 10]);
    for wrong in [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        "Bearer ..".to_owned(),
        format!("Basic x.{payload}.y"),
        format!("Bearer {payload}"),
        format!("Bearer x.{payload}"),
        format!("Bearer x.{payload}.y.z"),
        format!("Bearer x.{payload}!.y"),
        format!("Bearer x.{deep}.y"),
        format!("Bearer x.{wide}{payload}.y"),
        "Bearer x./w.y".to_owned(),
        "Bearer \u{e9}.\u{e9}.\u{e9}".to_owned(),
    ] {
        assert_eq!(sub(wrong.as_bytes()), MISSING, "{wrong:.40}");
    }
    assert_eq!(sub(b"Bearer\xff\xff.\xff.\xff"), MISSING);
    let twice = FakeHost::with(&[("authorization", token.as_bytes()), ("authorization", token.as_bytes())]);
    assert_eq!(part(&twice, r#"{"jwt_claim":"sub","unverified":true}"#), MISSING);
}

#[test]
fn digests_hide_values_and_keep_them_apart() {
    let digest = |value: &[u8]| part(&FakeHost::with(&[("x-key", value)]), r#"{"header":"x-key","hash":true}"#);
    // printf swordfish | openssl dgst -sha256 -hmac 0123456789abcdef | cut -c 1-32
    assert_eq!(digest(b"swordfish"), "%hmac-a6566928bc5eafdaadbb69f768329366");
    assert_ne!(digest(b"swordfisH"), digest(b"swordfish"));
    assert_ne!(digest(b"\xff"), digest(b"\xfe"));
    assert_eq!(digest(&[b'a'; 5000]).len(), 6 + 32);
    assert_eq!(digest(b""), MISSING);
    let plain = part(&FakeHost::with(&[("x-key", digest(b"swordfish").as_bytes())]), r#"{"header":"x-key"}"#);
    assert!(plain.starts_with("%25hmac-"), "{plain}");

    let host = FakeHost::with(&[("x-key", b"Swordfish")]);
    assert_eq!(part(&host, r#"{"header":"x-key","hash":true,"lower":true}"#), digest(b"swordfish"));
    let other = config(r#""hash_key":"0123456789abcdeF","#, r#""key":[{"header":"x-key","hash":true}]"#);
    assert_ne!(built(&other, &host).key, [digest(b"Swordfish")]);
    assert!(!format!("{other:?}").contains("0123456789"), "a secret is shown");
}

#[test]
fn lower_case_and_defaults() {
    let value = |value: &[u8], json: &str| part(&FakeHost::with(&[("x", value)]), json);
    let lower = r#"{"header":"x","lower":true}"#;
    assert_eq!(value("ACME \u{c9}\u{130}".as_bytes(), lower), "acme \u{e9}i\u{307}");
    assert_eq!(value(b"A\xffB%", lower), "a%FFb%25");
    let default = r#"{"header":"x","default":"No one%"}"#;
    assert_eq!(value(b"acme", default), "acme");
    assert_eq!(value(b"", default), "No one%25");
    assert_eq!(part(&FakeHost::default(), default), "No one%25");
    assert_eq!(part(&FakeHost::with(&[("x", b"a"), ("x", b"b")]), default), "No one%25");
    assert_eq!(part(&FakeHost::default(), r#"{"header":"x","default":"No","lower":true}"#), "no");
    assert_eq!(value(b"acme", r#"{"literal":"A","lower":true}"#), "a");
}

#[test]
fn requests_can_tell_their_cost() {
    let header = config("", r#""key":[],"cost":{"header":"X-Cost","max":100,"default":3}"#);
    let query = config("", r#""key":[],"cost":{"query":"n","max":100}"#);
    let table: [(&[u8], Option<u64>); 16] = [
        (b"7", Some(7)),
        (b"0", Some(0)),
        (b"100", Some(100)),
        (b"101", Some(100)),
        (b"007", Some(7)),
        (b"99999999999999999999999999", Some(100)),
        (b" 8 ", Some(8)),
        (b"", None),
        (b" ", None),
        (b"-1", None),
        (b"+1", None),
        (b"1.0", None),
        (b"1e3", None),
        (b"0x10", None),
        (b"\xff", None),
        (b"seven", None),
    ];
    for (value, cost) in table {
        assert_eq!(built(&header, &FakeHost::with(&[("x-cost", value)])).cost, cost.unwrap_or(3), "{value:?}");
        let path = [b"/?n=", value].concat();
        // A plus is a space in a query.
        let cost = if value == b"+1" { Some(1) } else { cost };
        assert_eq!(built(&query, &FakeHost::with(&[(":path", &path)])).cost, cost.unwrap_or(1), "{value:?}");
    }
    assert_eq!(built(&header, &FakeHost::with(&[("x-cost", b"7"), ("x-cost", b"7")])).cost, 3);
    assert_eq!(built(&header, &FakeHost::default()).cost, 3);
    assert_eq!(built(&query, &at("/?n=7&n=7")).cost, 1);
}
