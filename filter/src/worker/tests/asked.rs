//! What the host is asked for: a call out of Wasm costs more than most of what is done with its answer.

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use wasm_bindgen_test::wasm_bindgen_test as test;

use serde_json::{Value, json};

use crate::config::Config;
use crate::host::fake::FakeHost;
use crate::worker::Worker;

#[test]
fn the_host_is_asked_once_and_only_for_what_is_needed() {
    const SUB: &str = "metadata filter_metadata envoy.filters.http.jwt_authn payload sub";
    let (matching, other) =
        (json!({"headers": {"x-id": {"exact": "a"}}}), json!({"headers": {"x-id": {"exact": "b"}}}));
    let network = json!({"client_ip": "192.0.2.0/24"});
    let table: [(&Value, Value, &[&str]); 9] = [
        (&matching, json!({"header": "x-id"}), &[]),
        (&matching, json!({"jwt_claim": "sub", "unverified": true}), &[]),
        (&other, json!("client_ip"), &[]),
        (&other, json!({"attribute": "connection.mtls"}), &[]),
        (&network, json!("client_ip"), &["source"]),
        (&matching, json!({"client_ip": {"trusted_hops": 2}}), &["source"]),
        (&matching, json!({"jwt_claim": "sub"}), &[SUB]),
        (&matching, json!({"attribute": "connection.mtls"}), &["connection mtls"]),
        (&matching, json!({"attribute": "there.is.none"}), &["there is none"]),
    ];
    let mut all_rules = Vec::new();
    for (matches, part, asked) in table {
        let rule = json!({"match": matches, "checks": [{"policy": "p", "key": [part]}]});
        let rules = vec![rule; 3];
        assert_eq!(asked_for(&rules), [&["headers"], asked].concat(), "{part}");
        all_rules.extend(rules);
    }
    assert_eq!(asked_for(&all_rules), ["headers", "source", SUB, "connection mtls", "there is none"]);
    assert_eq!(asked_for(&[json!({"exempt": true})]), ["headers"]);
}

fn asked_for(rules: &[Value]) -> Vec<String> {
    let config = json!({"sidecar": {"cluster": "s"}, "rules": rules}).to_string();
    let mut worker = Worker::new(Config::parse(config.as_bytes()).unwrap());
    let host =
        FakeHost::with(&[(":path", b"/"), ("x-id", b"a"), ("authorization", b"Bearer e30.eyJzdWIiOiJhIn0.c2ln")]);
    *host.source.borrow_mut() = Some(b"192.0.2.1:4711".to_vec());
    host.attributes.borrow_mut().insert("connection mtls".to_owned(), vec![1]);
    worker.request(&host, 1);
    host.asked.take()
}
