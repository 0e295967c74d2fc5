//! Headers that only the filter sets: a client's copies don't reach the upstream.

use serde_json::json;

use super::{policies, rules};
use crate::support::{Client, Stack, Upstream, plugin_config};

const SPOOFED: [(&str, &str); 10] = [
    ("x-sluice-policy", "admin"),
    ("x-sluice-policy", "again"),
    ("x-sluice-remaining", "999"),
    ("x-sluice-other", "1"),
    ("x-ratelimit-limit", "999"),
    ("x-ratelimit-anything", "999"),
    ("ratelimit", "\"two\";r=999;t=1"),
    ("ratelimit-policy", "\"two\";q=999;w=1"),
    ("x-envoy-ratelimited", "true"),
    ("x-kept", "yes"),
];

#[tokio::test(flavor = "multi_thread")]
async fn copies_are_removed_and_ours_are_put_on_if_wanted() {
    let free = json!({"match": {"path": {"exact": "/free"}}, "exempt": true});
    for forward in [false, true] {
        let upstream = Upstream::start().await;
        let mut stack = Stack::start_with(1, 1, &policies(), |options| {
            options.plugin = plugin_config(&json!([free, rules()[0]]));
            options.plugin["forward_headers"] = forward.into();
            options.upstream = Some(upstream.port());
            options.workers = 2;
        })
        .await;
        let headers = [SPOOFED.as_slice(), &[("x-tenant-id", "acme")]].concat();
        for path in ["/", "/free"] {
            let answer = Client::new().request("GET", stack.envoy().port(), path, &headers).await;
            assert!(answer.is_allowed(), "{answer:?}");
        }
        for seen in upstream.requests() {
            let forwarded = forward && seen.path == "/";
            for (name, _) in &SPOOFED[..9] {
                let values: Vec<_> = seen.headers.get_all(*name).iter().map(|value| value.to_str().unwrap()).collect();
                let wanted: &[&str] = match *name {
                    "x-sluice-policy" if forwarded => &["two"],
                    "x-sluice-remaining" if forwarded => &["1"],
                    _ => &[],
                };
                assert_eq!(values, wanted, "{name} of {}", seen.path);
            }
            assert_eq!(seen.headers["x-kept"], "yes");
            assert_eq!(seen.headers["x-tenant-id"], "acme");
        }
        assert_eq!(upstream.requests().len(), 2);
        stack.assert_invariants(&[]).await;
    }
}
