//! What denied clients are told, what browsers ask beforehand, and what the access log says.

use axum::http::HeaderMap;
use serde_json::json;
use tempfile::TempDir;

use super::{BLOCKED, policies, rules};
use crate::support::{Answer, Client, Stack, eventually, plugin_config};

#[tokio::test(flavor = "multi_thread")]
async fn head_is_answered_like_get() {
    let mut stack = Stack::start(&policies(), &rules()).await;
    let (client, port) = (Client::new(), stack.envoy().port());
    let headers = |answer: &Answer| {
        let mut headers: HeaderMap = answer.headers.clone();
        headers.remove("date");
        headers
    };
    let get = client.request("GET", port, "/", &[BLOCKED]).await;
    let head = client.request("HEAD", port, "/", &[BLOCKED]).await;
    assert_eq!((get.status.as_u16(), head.status.as_u16()), (429, 429));
    assert_eq!(headers(&get), headers(&head));
    assert!(get.header("content-length").is_some() && head.body.is_empty(), "{head:?}");

    for (method, left) in [("GET", 1), ("HEAD", 0)] {
        let answer = client.request(method, port, "/", &[("x-tenant-id", "acme")]).await;
        assert_eq!(answer.rate_limit(), ("two", left), "both are charged");
    }
    let answer = client.request("HEAD", port, "/", &[("x-tenant-id", "acme")]).await;
    assert_eq!(answer.status, 429);
    assert!(answer.retry_after() > 3500);
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn preflights_are_not_charged_unless_configured() {
    for (checked, left) in [(false, 1), (true, 0)] {
        let mut stack = Stack::start_with(1, 1, &policies(), |options| {
            options.plugin = plugin_config(&rules());
            if checked {
                options.plugin["cors_preflight"] = "check".into();
            }
        })
        .await;
        let (client, port) = (Client::new(), stack.envoy().port());
        let tenant = ("x-tenant-id", "acme");
        let preflight = [("origin", "https://a.example"), ("access-control-request-method", "PUT"), tenant];
        let answer = client.request("OPTIONS", port, "/", &preflight).await;
        assert!(answer.is_allowed(), "{answer:?}");
        assert_eq!(answer.headers.contains_key("ratelimit"), checked, "{answer:?}");
        // Not every OPTIONS is a preflight.
        assert_eq!(client.request("OPTIONS", port, "/", &[tenant]).await.rate_limit(), ("two", left));
        let blocked = client.request("OPTIONS", port, "/", &[preflight[0], preflight[1], BLOCKED]).await;
        assert_eq!(blocked.status, if checked { 429 } else { 200 }, "{blocked:?}");
        stack.assert_invariants(&[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_as_configured_by_rule_and_in_general() {
    let check = json!([{"policy": "two", "key": [{"header": "x-tenant-id"}]}]);
    let mut stack = Stack::start_with(1, 1, &policies(), |options| {
        options.plugin = plugin_config(&json!([
            {"match": {"path": {"prefix": "/page"}}, "checks": check,
             "denied": {"status": 503, "body": "<p>{policy}: {retry_after}", "content_type": "text/html"}},
            {"match": {"path": {"prefix": "/api"}}, "checks": check},
        ]));
        options.plugin["denied"] = json!({
            "body": r#"{"error":{"code":"slow_down","policy":"{policy}","seconds":"{retry_after}"}}"#,
            "content_type": "application/json",
            "headers": {"x-denied-by": "{policy}", "cache-control": "no-store"},
        });
    })
    .await;
    let tenant = ("x-tenant-id", "acme");
    for _ in 0..2 {
        assert!(stack.envoy().get("/page", &[tenant]).await.is_allowed());
    }
    for _ in 0..2 {
        let page = stack.envoy().get("/page", &[tenant]).await;
        assert_eq!(page.status, 503, "{page:?}");
        assert_eq!(page.header("content-type"), Some("text/html"));
        assert_eq!(page.body, format!("<p>two: {}", page.retry_after()));
        assert_eq!(page.rate_limit(), ("two", 0));
        assert_eq!(page.header("x-envoy-ratelimited"), Some("true"));
        assert_eq!(page.header("x-denied-by"), None);

        let api = stack.envoy().get("/api", &[tenant]).await;
        assert_eq!(api.status, 429, "{api:?}");
        assert_eq!(api.header("content-type"), Some("application/json"));
        assert_eq!(api.json()["error"]["seconds"], api.retry_after().to_string());
        assert_eq!((api.header("x-denied-by"), api.header("cache-control")), (Some("two"), Some("no-store")));
    }
    let never = stack.envoy().get("/api", &[BLOCKED]).await;
    assert_eq!(never.json()["error"], json!({"code": "slow_down", "policy": "two", "seconds": ""}));
    assert_eq!(never.header("retry-after"), None);
    stack.assert_invariants(&[]).await;
}

/// The format is the one of docs/filter.md.
#[tokio::test(flavor = "multi_thread")]
async fn the_access_log_tells_how_a_request_ended_and_which_policy_denied() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("access.log");
    let format =
        "%RESPONSE_CODE% %FILTER_STATE(wasm.sluice.decision:PLAIN)% %FILTER_STATE(wasm.sluice.policy:PLAIN)%\n";
    let mut stack = Stack::start_with(1, 1, &policies(), |options| {
        let rules = json!([
            {"match": {"path": {"exact": "/free"}}, "exempt": true},
            {"match": {"path": {"exact": "/unknown"}}, "checks": [{"policy": "unknown", "key": []}]},
            rules()[0],
        ]);
        options.plugin = plugin_config(&rules);
        options.manager = json!({"access_log": [{
            "name": "file",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
                "path": path,
                "log_format": {"text_format_source": {"inline_string": format}},
            },
        }]});
    })
    .await;
    let asked = [("/", "acme"), ("/", "blocked-1"), ("/", "blocked-1"), ("/unknown", "acme"), ("/free", "acme")];
    for (path, tenant) in asked {
        stack.envoy().get(path, &[("x-tenant-id", tenant)]).await;
    }
    let lines = eventually("all is logged", async || {
        let log = std::fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<_> = log.lines().map(str::to_owned).collect();
        (lines.len() == asked.len()).then_some(lines)
    })
    .await;
    // The second denial comes from memory.
    let wanted = ["200 allowed -", "429 denied two", "429 denied two", "503 failed_closed -", "200 - -"];
    assert_eq!(lines, wanted);
    stack.assert_invariants(&[]).await;
}
