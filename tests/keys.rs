//! What keys, matches and costs see of a request, in real Envoy.

use serde_json::{Value, json};

use crate::support::{Answer, EnvoyOptions, Stack, plugin_config, repository};

/// The limit of each key, high enough that no test here reaches it: what is left tells who shares a key.
const LIMIT: u64 = 1000;

/// One policy `p`, with these rules, fields of the plugin's configuration, and options of Envoy's.
async fn start(rules: Value, fields: Value, change: impl FnOnce(&mut EnvoyOptions)) -> Stack {
    let policies = json!({"p": {"algorithm": "fixed_window", "rate": format!("{LIMIT}/1h")}});
    Stack::start_with(1, 1, &policies, |options| {
        options.plugin = plugin_config(&rules);
        for (name, value) in fields.as_object().unwrap() {
            options.plugin[name] = value.clone();
        }
        change(options);
    })
    .await
}

/// A rule for `path`, and a check with `key`.
fn rule(path: &str, key: &Value) -> Value {
    json!({"match": {"path": {"prefix": path}}, "checks": [{"policy": "p", "key": [{"literal": path}, key]}]})
}

async fn get(stack: &Stack, path: &str, headers: &[(&str, &str)]) -> Answer {
    stack.envoy().get(path, headers).await
}

/// How much the key of a request has been charged, this request included.
async fn used(stack: &Stack, path: &str, headers: &[(&str, &str)]) -> u64 {
    let answer = get(stack, path, headers).await;
    assert!(answer.is_allowed(), "{path}: {answer:?}");
    LIMIT - answer.rate_limit().1
}

/// The last parts of all keys in Redis, whatever was charged to them.
fn parts(stack: &Stack) -> Vec<String> {
    let mut keys: Vec<_> = stack.redis.keys().iter().map(|key| key.rsplit(':').next().unwrap().to_owned()).collect();
    keys.sort();
    keys
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_cookies_and_paths() {
    let rules = json!([
        rule("/query", &json!({"query": "tenant"})),
        rule("/cookie", &json!({"cookie": "session"})),
        rule("/users", &json!({"template": "/users/{id}/..."})),
        rule("/segment", &json!({"path_segment": 2, "lower": true})),
        rule("/host", &json!("host")),
        rule("/method", &json!({"method": {}, "lower": true})),
        rule("/default", &json!({"header": "x-plan", "default": "free"})),
    ]);
    let mut stack = start(rules, json!({}), |_| ()).await;
    assert_eq!(used(&stack, "/query?a=b&tenant=acme", &[]).await, 1);
    assert_eq!(used(&stack, "/query?%74enant=%61cme&c", &[]).await, 2);
    assert_eq!(used(&stack, "/query?tenant=other", &[]).await, 1);
    assert_eq!(used(&stack, "/query", &[]).await, 1);
    assert_eq!(used(&stack, "/query?tenant=acme&tenant=acme", &[]).await, 2, "repeated is as missing");

    assert_eq!(used(&stack, "/cookie", &[("cookie", "a=b; session=s1")]).await, 1);
    assert_eq!(used(&stack, "/cookie", &[("cookie", "session=s1"), ("cookie", "c=d")]).await, 2);
    assert_eq!(used(&stack, "/cookie", &[("cookie", "session=s2")]).await, 1);
    assert_eq!(used(&stack, "/cookie", &[]).await, 1);

    assert_eq!(used(&stack, "/users/7", &[]).await, 1);
    assert_eq!(used(&stack, "/users//7/orders/../x;v=1?q", &[]).await, 2);
    assert_eq!(used(&stack, "/users/%37/", &[]).await, 3);
    assert_eq!(used(&stack, "/users/8/orders", &[]).await, 1);
    assert_eq!(used(&stack, "/users", &[]).await, 1);

    assert_eq!(used(&stack, "/segment/A/x", &[]).await, 1);
    assert_eq!(used(&stack, "/segment/a", &[]).await, 2);

    assert_eq!(used(&stack, "/host", &[("host", "A.example:80")]).await, 1);
    assert_eq!(used(&stack, "/host", &[("host", "a.Example.")]).await, 2);
    assert_eq!(used(&stack, "/method", &[]).await, 1);
    assert_eq!(used(&stack, "/default", &[]).await, 1);
    assert_eq!(used(&stack, "/default", &[("x-plan", "free")]).await, 2);

    let parts = parts(&stack);
    for part in ["acme", "s1", "7", "a", "a.example", "get", "free"] {
        assert!(parts.iter().any(|key| key.split(['/', ',', '|']).any(|p| p.ends_with(part))), "{part}: {parts:?}");
    }
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_hide_api_keys() {
    const SECRET: &str = "sk-live-1234567890";
    const HASH_KEY: &str = "a very secret hash key";
    let rules = json!([
        rule("/header", &json!({"header": "x-api-key", "hash": true})),
        rule("/cookie", &json!({"cookie": "token", "hash": true})),
    ]);
    let mut stack = start(rules, json!({"hash_key": HASH_KEY}), |_| ()).await;
    assert_eq!(used(&stack, "/header", &[("x-api-key", SECRET)]).await, 1);
    assert_eq!(used(&stack, "/header", &[("x-api-key", SECRET)]).await, 2);
    assert_eq!(used(&stack, "/header", &[("x-api-key", "sk-live-other")]).await, 1);
    assert_eq!(used(&stack, "/cookie", &[("cookie", &format!("token={SECRET}"))]).await, 1);
    assert_eq!(stack.redis.keys().len(), 3);
    stack.assert_invariants(&[SECRET, "sk-live", HASH_KEY]).await;
}

/// The same digests, by a key that Envoy has in its environment and doesn't show.
#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_digests_can_be_out_of_sight() {
    const HASH_KEY: &str = "a very secret hash key";
    let rules = json!([rule("/header", &json!({"header": "x-api-key", "hash": true}))]);
    let mut stack = start(rules.clone(), json!({"hash_key": HASH_KEY}), |_| ()).await;
    assert_eq!(used(&stack, "/header", &[("x-api-key", "sk-live-1")]).await, 1);
    let hidden = start(rules, json!({"hash_key_env": "SLUICE_HASH_KEY"}), |options| {
        options.environment = vec![("SLUICE_HASH_KEY".to_owned(), HASH_KEY.to_owned())];
    })
    .await;
    assert_eq!(used(&hidden, "/header", &[("x-api-key", "sk-live-1")]).await, 1);
    assert_eq!(stack.redis.keys(), hidden.redis.keys());
    for path in ["/config_dump?include_eds", "/server_info", "/init_dump"] {
        assert!(!hidden.envoy().admin(path).await.contains(HASH_KEY), "{path}");
    }
    assert!(stack.envoy().admin("/config_dump").await.contains(HASH_KEY), "the wrong thing was looked at");
    stack.envoys.extend(hidden.envoys);
    stack.assert_invariants(&["sk-live", HASH_KEY]).await;
}

/// Envoy with `use_remote_address`, as at the edge: it has added its peer to the header before the filter sees it, or
/// its own address where the peer is on the same machine, as here.
#[tokio::test(flavor = "multi_thread")]
async fn forwarded_addresses_at_the_edge() {
    let rules = json!([
        rule("/peer", &json!("client_ip")),
        rule("/hops", &json!({"client_ip": {"trusted_hops": 2}})),
        rule("/strangers", &json!({"client_ip": {"trusted_cidrs": ["10.0.0.0/8"]}})),
        {"match": {"client_ip": "203.0.113.0/24"}, "checks": [{"policy": "p", "key": [{"literal": "match"}]}]},
    ]);
    let mut stack = start(rules, json!({}), |_| ()).await;
    let table = [
        ("/peer", "203.0.113.9", "127.0.0.1"),
        ("/hops", "203.0.113.9", "203.0.113.9"),
        ("/hops", "198.51.100.1, 203.0.113.10:99", "203.0.113.10"),
        ("/hops", "garbage", "127.0.0.1"),
        ("/strangers", "198.51.102.7", "127.0.0.1"),
    ];
    assert_clients(&stack, &table).await;
    // Several lines are one list. The last entry is the one that counts, Envoy's own aside.
    get(&stack, "/hops", &[("x-forwarded-for", "198.51.100.1"), ("x-forwarded-for", "203.0.113.77")]).await;
    assert!(stack.redis.keys().iter().any(|key| key.contains("203.0.113.77")), "{:?}", stack.redis.keys());
    assert!(!stack.redis.keys().iter().any(|key| key.contains("match")), "{:?}", stack.redis.keys());
    stack.assert_invariants(&[]).await;
}

async fn assert_clients(stack: &Stack, table: &[(&str, &str, &str)]) {
    for (path, forwarded, client) in table {
        get(stack, path, &[("x-forwarded-for", forwarded)]).await;
        let keys = stack.redis.keys();
        let path = path.trim_start_matches('/');
        // The sidecar escapes the slash of a prefix.
        let client = client.replace('/', "%2F");
        let is_it = |key: &String| key.contains(path) && key.ends_with(&format!(",{client}"));
        assert!(keys.iter().any(is_it), "{path} {client}: {keys:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarded_addresses_from_trusted_proxies() {
    let rules = json!([
        rule("/cidrs", &json!("client_ip")),
        rule("/wide", &json!({"client_ip": {"ipv4_prefix": 24}})),
        {"match": {"client_ip": "203.0.113.0/24"}, "checks": [{"policy": "p", "key": [{"literal": "match"}]}]},
    ]);
    let fields = json!({"client_ip": {"trusted_cidrs": ["127.0.0.0/8", "10.0.0.0/8"]}});
    let mut stack = start(rules, fields, |options| options.manager = json!({"skip_xff_append": true})).await;
    let table = [
        ("/cidrs", "198.51.100.7", "198.51.100.7"),
        ("/cidrs", "192.0.2.1, 198.51.101.7, , 10.1.1.1, 10.2.2.2", "198.51.101.7"),
        ("/cidrs", "198.51.100.9, garbage", "127.0.0.1"),
        ("/cidrs", "10.1.1.1", "10.1.1.1"),
        ("/wide", "198.51.102.7, 10.1.1.1", "198.51.102.0/24"),
        ("/wide", "203.0.113.7, 2001:db8:1:2::3", "2001:db8:1:2::/64"),
    ];
    // Colons are escaped in a Redis key.
    let table = table.map(|(path, forwarded, client)| (path, forwarded, client.replace(':', "%3A")));
    let table: Vec<_> = table.iter().map(|(path, forwarded, client)| (*path, *forwarded, client.as_str())).collect();
    assert_clients(&stack, &table).await;
    assert!(!stack.redis.keys().iter().any(|key| key.contains("match")), "{:?}", stack.redis.keys());
    get(&stack, "/", &[("x-forwarded-for", "203.0.113.7, 10.1.1.1")]).await;
    assert!(stack.redis.keys().iter().any(|key| key.contains("match")), "{:?}", stack.redis.keys());
    stack.assert_invariants(&[]).await;
}

/// Envoy without `use_remote_address`, as a sidecar: it adds nothing, and takes the last entry for the client.
#[tokio::test(flavor = "multi_thread")]
async fn forwarded_addresses_inside() {
    let rules = json!([
        rule("/peer", &json!({"client_ip": {}})),
        rule("/hops", &json!({"client_ip": {"trusted_hops": 2}})),
        {"match": {"client_ip": "203.0.113.0/24"}, "checks": [{"policy": "p", "key": [{"literal": "match"}]}]},
    ]);
    let mut stack = start(rules, json!({}), |options| {
        options.manager = json!({"use_remote_address": false});
    })
    .await;
    get(&stack, "/peer", &[("x-forwarded-for", "198.51.100.1, 203.0.113.9")]).await;
    get(&stack, "/hops", &[("x-forwarded-for", "198.51.100.2, 203.0.113.9")]).await;
    let keys = stack.redis.keys();
    let has = |path: &str, ip: &str| keys.iter().any(|key| key.contains(path) && key.contains(ip));
    assert!(has("peer", "203.0.113.9") && has("hops", "198.51.100.2") && has("match", "match"), "{keys:?}");
    stack.assert_invariants(&[]).await;
}

/// Claims that may be lists: where they are charged, their names, and whether nobody verifies them.
const LISTS: [(&str, &str, bool); 4] =
    [("/aud", "aud", false), ("/aud-sent", "aud", true), ("/roles", "roles", false), ("/roles-sent", "roles", true)];

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_verified_tokens() {
    let fixture = std::fs::read_to_string(repository().join("tests/fixtures/jwt.json")).unwrap();
    let fixture: Value = serde_json::from_str(&fixture).unwrap();
    let filter = json!({
        "name": "jwt",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
            "providers": {"test": {
                "issuer": "sluice-test",
                "forward": true,
                "payload_in_metadata": "payload",
                "local_jwks": {"inline_string": fixture["jwks"].to_string()},
            }},
            "rules": [{"match": {"prefix": "/"}, "requires": {"requires_any": {"requirements": [
                {"provider_name": "test"}, {"allow_missing": {}},
            ]}}}],
        },
    });
    let claims = [
        ("/sub", json!("sub"), "alice", "bob"),
        ("/tenant", json!("tenant"), "42", "1.5"),
        ("/admin", json!("admin"), "true", "false"),
        ("/org", json!(["org", "id"]), "blue", "red"),
    ];
    let mut rules: Vec<_> = claims.iter().map(|(path, claim, ..)| rule(path, &json!({"jwt_claim": claim}))).collect();
    rules.push(rule("/unverified", &json!({"jwt_claim": "tenant", "unverified": true})));
    for (path, claim, unverified) in LISTS {
        rules.push(rule(path, &json!({"jwt_claim": claim, "unverified": unverified})));
    }
    rules.push(json!({"match": {"path": {"exact": "/denied"}}, "checks": [
        {"policy": "p", "key": [{"jwt_claim": "sub"}], "on_missing": "deny", "on_missing_status": 401,
         "on_missing_challenge": "Bearer realm=\"api\""},
    ]}));
    let mut stack = start(json!(rules), json!({}), |options| options.filters_before = vec![filter]).await;
    let bearer = |name: &str| format!("Bearer {}", fixture[name].as_str().unwrap());
    let (alice, bob) = (bearer("alice"), bearer("bob"));
    for (path, _, alice_has, bob_has) in &claims {
        assert_eq!(used(&stack, path, &[("authorization", &alice)]).await, 1, "{path}");
        assert_eq!(used(&stack, path, &[("authorization", &bob)]).await, 1, "{path}");
        assert_eq!(used(&stack, path, &[("authorization", &alice)]).await, 2, "{path}");
        assert_eq!(used(&stack, path, &[]).await, 1, "{path}");
        let keys = stack.redis.keys();
        for text in [alice_has, bob_has] {
            assert!(keys.iter().any(|key| key.contains(&path[1..]) && key.ends_with(text)), "{text}: {keys:?}");
        }
    }
    for (path, claim, _) in LISTS {
        // Alice's audience is a text, Bob's a list of the same; she has one role, he has two.
        let shared = claim == "aud";
        assert_eq!(used(&stack, path, &[("authorization", &alice)]).await, 1, "{path}");
        assert_eq!(used(&stack, path, &[("authorization", &bob)]).await, if shared { 2 } else { 1 }, "{path}");
        assert_eq!(used(&stack, path, &[]).await, if shared { 1 } else { 2 }, "{path}");
        let keys = stack.redis.keys();
        let has = |text: &str| keys.iter().any(|key| key.contains(&path[1..]) && key.ends_with(text));
        assert!(has(if shared { "api" } else { "admin" }) && has("missing"), "{path}: {keys:?}");
    }

    assert_eq!(used(&stack, "/unverified", &[("authorization", &alice)]).await, 1);
    assert!(stack.redis.keys().iter().any(|key| key.contains("unverified") && key.ends_with("42")));

    assert_eq!(get(&stack, "/denied", &[("authorization", &alice)]).await.status, 200);
    let denied = get(&stack, "/denied", &[]).await;
    assert_eq!((denied.status.as_u16(), denied.header("x-envoy-ratelimited")), (401, None), "{denied:?}");
    assert_eq!(denied.header("www-authenticate"), Some("Bearer realm=\"api\""), "{denied:?}");
    let grpc = get(&stack, "/denied", &[("content-type", "application/grpc")]).await;
    assert_eq!((grpc.status.as_u16(), grpc.header("grpc-status")), (200, Some("16")), "{grpc:?}");
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attributes_and_metadata() {
    let metadata = |header: &str, kind: &str| json!({"header": header, "on_header_present": {"metadata_namespace": "test", "key": header, "type": kind}});
    let filter = json!({
        "name": "metadata",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config",
            "request_rules": [metadata("x-text", "STRING"), metadata("x-number", "NUMBER")],
        },
    });
    let attributes = [
        ("/mtls", json!("connection.mtls"), "false"),
        ("/port", json!(["destination", "port"]), "@port@"),
        ("/protocol", json!("request.protocol"), "HTTP%2F1.1"),
        ("/none", json!("connection.tls_version"), "%missing"),
        ("/nonsense", json!("no.such.attribute"), "%missing"),
        ("/below", json!("request.protocol.x"), "%missing"),
        ("/whole", json!("request.headers"), ""),
        ("/message", json!("metadata"), ""),
        ("/list", json!(["request", "headers", "x-text"]), "%missing"),
    ];
    let mut rules: Vec<_> =
        attributes.iter().map(|(path, attribute, _)| rule(path, &json!({"attribute": attribute}))).collect();
    rules.push(rule("/text", &json!({"metadata": ["test", "x-text"]})));
    rules.push(rule("/number", &json!({"metadata": ["test", "x-number"]})));
    rules.push(rule("/namespace", &json!({"metadata": ["none", "x-number"]})));
    let mut stack = start(json!(rules), json!({}), |options| options.filters_before = vec![filter]).await;

    let port = stack.envoy().port().to_string();
    for (path, _, text) in &attributes {
        assert_eq!(used(&stack, path, &[]).await, 1, "{path}");
        assert_ends(&stack, &path[1..], if *text == "@port@" { &port } else { text });
    }
    let table = [
        ("/text", "x-text", "blue", "blue"),
        ("/text", "x-text", "12345678", "12345678"),
        ("/number", "x-number", "42", "42"),
        ("/number", "x-number", "-0.5", "-0.5"),
        ("/number", "x-number", "9007199254740992", "9007199254740992"),
        ("/namespace", "x-number", "42", "%missing"),
    ];
    for (path, header, value, text) in table {
        assert_eq!(used(&stack, path, &[(header, value)]).await, 1, "{path} {value}");
        assert_ends(&stack, &path[1..], text);
    }
    stack.assert_invariants(&[]).await;
}

/// That there is a key with this first part that ends like this.
fn assert_ends(stack: &Stack, first: &str, end: &str) {
    let keys = stack.redis.keys();
    // The sidecar writes `%` and `:` of a part in its own way.
    let end = end.replace('%', "");
    let is_it = |key: &String| key.contains(first) && key.replace("%25", "").replace('%', "").ends_with(&end);
    assert!(keys.iter().any(is_it), "{first} {end}: {keys:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_match_in_any_spelling() {
    let check = |name: &str| json!([{"policy": "p", "key": [{"literal": name}]}]);
    let rules = json!([
        {"match": {"path": {"exact": "/healthz"}, "not": {"query": {"verbose": {"present": true}}}}, "exempt": true},
        {"match": {"path": {"exact": "/api/y"}}, "checks": check("exact")},
        {"match": {"path": {"regex": "/v[0-9]+/items/.*"}}, "checks": check("regex")},
        {"match": {"path": {"template": "/users/{id}"}, "not": {"methods": ["POST"]}}, "checks": check("template")},
        {"match": {"path": {"prefix": "/healthz"}}, "checks": check("health")},
        {"match": {"path": {"prefix": "/h"}, "headers": {"x-beta": {"regex": "(yes|on)"}}}, "checks": check("header")},
        {"match": {"host": "*.internal.example"}, "checks": check("host")},
    ]);
    let mut stack = start(rules, json!({}), |_| ()).await;
    let limited = async |path: &str, headers: &[(&str, &str)]| {
        let answer = get(&stack, path, headers).await;
        assert!(answer.is_allowed(), "{answer:?}");
        answer.header("ratelimit").is_some()
    };
    for path in ["/api/y", "/api//x/../y;p=1", "/api/%79", "/api/y/?q=1", "//api/./y"] {
        assert!(limited(path, &[]).await, "{path}");
    }
    for path in ["/api/Y", "/api/y/z", "/api%2Fy", "/x/v1/items/7", "/v/items/7", "/users/7/x", "/healthz", "/healthz/"]
    {
        assert!(!limited(path, &[]).await, "{path}");
    }
    for path in ["/v1/items/7", "/v22//items/a/b", "/users/7", "/users/%37/", "/healthz?verbose", "/healthz/x"] {
        assert!(limited(path, &[]).await, "{path}");
    }
    assert!(limited("/h", &[("x-beta", "yes")]).await);
    assert!(!limited("/h", &[("x-beta", "yes!")]).await);
    assert!(limited("/", &[("host", "A.internal.example:8080")]).await);
    assert!(!limited("/", &[("host", "internal.example")]).await);
    let answer = stack.envoy().get_bytes("/v1/items/x", &[("x-odd", b"\xc0\xff")]).await;
    assert!(answer.is_allowed() && answer.header("ratelimit").is_some());
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_tell_their_cost() {
    let check = |cost: Value, name: &str| json!({"policy": "p", "key": [{"literal": name}], "cost": cost});
    let rules = json!([
        {"match": {"path": {"exact": "/header"}}, "checks": [check(json!({"header": "x-cost", "max": 100}), "h")]},
        {"match": {"path": {"exact": "/query"}}, "checks": [check(json!({"query": "n", "default": 5}), "q")]},
    ]);
    let mut stack = start(rules, json!({}), |_| ()).await;
    let table = [("7", 7), ("0", 7), ("1000", 107), ("99999999999999999999", 207), ("x", 208), ("-5", 209), ("", 210)];
    for (cost, sum) in table {
        assert_eq!(used(&stack, "/header", &[("x-cost", cost)]).await, sum, "{cost}");
    }
    assert_eq!(used(&stack, "/query?n=3", &[]).await, 3);
    assert_eq!(used(&stack, "/query", &[]).await, 8);
    stack.assert_invariants(&[]).await;
}
