//! Of a denied request nobody behind the filter sees anything: no later HTTP filter, no upstream.

use serde_json::json;

use super::{BLOCKED, policies, rules};
use crate::support::{Client, Stack, Upstream, plugin_config};

#[tokio::test(flavor = "multi_thread")]
async fn of_a_denied_request_no_later_filter_and_no_upstream_sees_anything() {
    let upstream = Upstream::start().await;
    // A filter that counts what passes it: Envoy's own limiter, with a limit that nothing here reaches.
    let kind = "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit";
    let counter = json!({"name": "counter", "typed_config": {
        "@type": kind,
        "stat_prefix": "behind",
        "token_bucket": {"max_tokens": 1000, "tokens_per_fill": 1000, "fill_interval": "1s"},
        "filter_enabled": {"default_value": {"numerator": 100, "denominator": "HUNDRED"}},
    }});
    let mut stack = Stack::start_with(1, 1, &policies(), |options| {
        options.plugin = plugin_config(&rules());
        options.upstream = Some(upstream.port());
        options.filters = vec![counter];
    })
    .await;
    let (client, port) = (Client::new(), stack.envoy().port());
    let passed = "behind.http_local_rate_limit.enabled";

    let answer = client.request("GET", port, "/", &[("x-tenant-id", "acme")]).await;
    assert!(answer.is_allowed(), "{answer:?}");
    assert_eq!((stack.envoy().stat(passed).await, upstream.requests().len()), (1, 1));

    // First by the sidecar's word, then from memory.
    for _ in 0..3 {
        for method in ["GET", "HEAD", "OPTIONS", "DELETE"] {
            let answer = client.request(method, port, "/", &[BLOCKED]).await;
            assert_eq!(answer.status, 429, "{answer:?}");
        }
    }
    stack.counted("denied", 12).await;
    assert!(stack.metric("denied_locally").await > 0);
    assert_eq!((stack.envoy().stat(passed).await, upstream.requests().len()), (1, 1));
    stack.assert_invariants(&[]).await;
}
