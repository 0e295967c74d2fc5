//! When the plugin itself fails, Envoy's failure policy decides, as the table in docs/filter.md says. The plugin here is
//! one that panics when a request asks for it.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::{BLOCKED, policies, rules};
use crate::support::{
    Client, Envoy, EnvoyOptions, FakeSidecar, Reply, Stack, Upstream, eventually, panicking_plugin, plugin,
    plugin_config, repository,
};

const PANIC: (&str, &str) = ("x-panic-for-tests", "please");
const ACME: (&str, &str) = ("x-tenant-id", "acme");

/// A stack whose plugin fails on demand, behind a failure policy.
async fn start(upstream: &Upstream, failure: Value) -> Stack {
    Stack::start_with(1, 1, &policies(), |options| {
        options.plugin = plugin_config(&rules());
        options.plugin_file = panicking_plugin();
        options.wasm = failure;
        options.upstream = Some(upstream.port());
    })
    .await
}

/// One request of acme's is allowed, then another makes the VM fail.
async fn fail(stack: &Stack, upstream: &Upstream) {
    assert_eq!(stack.envoy().get("/", &[ACME]).await.rate_limit(), ("two", 1));
    let answer = stack.envoy().get("/", &[ACME, PANIC]).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{answer:?}");
    assert_eq!(upstream.requests().len(), 1, "the request at which the VM failed went on");
}

/// What holds after every test, but for the VM that was made to fail: it did so once, and Envoy reloaded as often as it
/// should.
async fn assert_invariants(mut stack: Stack, reloads: u64) {
    let mut envoy = stack.envoys.pop().unwrap();
    stack.assert_invariants(&[]).await;
    assert!(envoy.process.is_running());
    assert_eq!(envoy.process.log().matches("panicked at").count(), 1, "{}", envoy.process.log());
    assert_eq!(envoy.stat("wasm.sluice.vm_reload_success").await, reloads);
    assert_eq!(envoy.stat("wasm.sluice.vm_reload_failure").await, 0);
    eventually("no request is pending", async || (envoy.metric("pending").await == 0).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_is_503_for_good() {
    // The second is Envoy's default.
    for policy in ["FAIL_CLOSED", "UNSPECIFIED"] {
        let upstream = Upstream::start().await;
        let stack = start(&upstream, json!({"failure_policy": policy})).await;
        fail(&stack, &upstream).await;
        for headers in [&[ACME][..], &[]] {
            let answer = stack.envoy().get("/", headers).await;
            assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{policy}: {answer:?}");
        }
        assert_eq!(upstream.requests().len(), 1);
        assert_eq!(stack.envoy().stat("wasm.sluice.vm_reload_backoff").await, 0, "nobody waits for a new VM");
        assert_invariants(stack, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_reaches_the_upstream_without_limit() {
    let upstream = Upstream::start().await;
    let stack = start(&upstream, json!({"failure_policy": "FAIL_OPEN"})).await;
    fail(&stack, &upstream).await;
    for _ in 0..5 {
        let answer = stack.envoy().get("/", &[ACME]).await;
        assert!(answer.is_allowed(), "{answer:?}");
        assert_eq!(answer.header("ratelimit"), None, "nobody has decided this: {answer:?}");
    }
    assert_eq!(upstream.requests().len(), 6);
    assert_eq!(stack.sidecar().remaining("two", "acme").await, 1);
    assert_eq!(stack.envoy().stat("wasm.sluice.vm_reload_backoff").await, 0, "nobody waits for a new VM");
    assert_invariants(stack, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_is_closed_until_a_new_vm_limits_again() {
    let upstream = Upstream::start().await;
    // Longer than Envoy's own interval: room for a machine that takes a second to the next request.
    let reload = json!({"backoff": {"base_interval": "3s"}});
    let stack = start(&upstream, json!({"failure_policy": "FAIL_RELOAD", "reload_config": reload})).await;
    fail(&stack, &upstream).await;
    let answer = stack.envoy().get("/", &[ACME]).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{answer:?}");
    // What it was asked before is in Redis, not in the VM that is gone.
    let answer = eventually("there is a new VM", async || {
        let answer = stack.envoy().get("/", &[ACME]).await;
        (answer.status != StatusCode::SERVICE_UNAVAILABLE).then_some(answer)
    })
    .await;
    assert_eq!(answer.rate_limit(), ("two", 0));
    assert_eq!(stack.envoy().get("/", &[ACME]).await.status, 429);
    assert_eq!(upstream.requests().len(), 2, "somebody got through meanwhile");
    assert!(stack.envoy().stat("wasm.sluice.vm_reload_backoff").await > 0);
    assert_invariants(stack, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_wait_in_it_end_with_the_idle_timeout() {
    let sidecar = FakeSidecar::start(Reply::Nothing).await;
    let mut plugin = plugin_config(&rules());
    plugin["sidecar"]["timeout"] = "1s".into();
    plugin["on_error"] = "allow".into();
    let mut envoy = Envoy::start(&EnvoyOptions {
        plugin,
        plugin_file: panicking_plugin(),
        manager: json!({"stream_idle_timeout": "2s"}),
        sidecars: vec![sidecar.port()],
        ..EnvoyOptions::default()
    })
    .await;
    let port = envoy.port();
    let waiting = tokio::spawn(async move { Client::new().get(port, "/", &[ACME]).await });
    eventually("it waits", async || (envoy.metric("pending").await == 1).then_some(())).await;
    assert_eq!(envoy.get("/", &[PANIC]).await.status, StatusCode::SERVICE_UNAVAILABLE);
    let answer = waiting.await.unwrap();
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "not even `on_error` is left: {answer:?}");
    assert_eq!(envoy.stat("http.ingress.downstream_rq_idle_timeout").await, 1);
    assert!(envoy.process.is_running());
    assert_eq!((envoy.metric("failed_open").await, envoy.metric("pending").await), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_workers_notice_nothing() {
    let upstream = Upstream::start().await;
    let stack = Stack::start_with(1, 1, &policies(), |options| {
        options.plugin = plugin_config(&rules());
        options.plugin_file = panicking_plugin();
        options.wasm = json!({"failure_policy": "FAIL_CLOSED"});
        options.upstream = Some(upstream.port());
        options.workers = 2;
    })
    .await;
    let port = stack.envoy().port();
    assert_eq!(stack.envoy().get("/", &[PANIC]).await.status, StatusCode::SERVICE_UNAVAILABLE);
    // Each connection is some worker's.
    let mut seen = [0, 0];
    eventually("both workers answered", async || {
        let answer = Client::without_pool().get(port, "/", &[BLOCKED]).await;
        match answer.status.as_u16() {
            429 => seen[0] += 1,
            503 => seen[1] += 1,
            _ => panic!("{answer:?}"),
        }
        (seen[0] > 0 && seen[1] > 0).then_some(())
    })
    .await;
    assert_invariants(stack, 0).await;
}

/// What is released has no such header.
#[tokio::test(flavor = "multi_thread")]
async fn the_released_plugin_does_not_panic_on_demand() {
    let mut stack = Stack::start(&policies(), &rules()).await;
    assert_eq!(stack.envoy().get("/", &[ACME, PANIC]).await.rate_limit(), ("two", 1));
    let has = |file| {
        let code = std::fs::read(file).unwrap();
        code.windows(PANIC.0.len()).any(|window| window == PANIC.0.as_bytes())
    };
    assert!(has(panicking_plugin()), "this proves nothing");
    assert!(!has(plugin()), "the released plugin knows {}", PANIC.0);
    stack.assert_invariants(&[]).await;
}

/// Every policy of the table is tested here, and the README has each of them, by Envoy's name and by Istio's.
#[test]
fn documents_name_the_policies() {
    let read = |file| std::fs::read_to_string(repository().join(file)).unwrap();
    let section = |text: &str| {
        let (_, rest) = text.split_once("## When the plugin itself fails\n").unwrap();
        rest.split("\n## ").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let table = section(&read("docs/filter.md"));
    let readme = section(&read("README.md"));
    for (envoy, istio) in [("FAIL_RELOAD", "FAIL_RELOAD"), ("FAIL_OPEN", "FAIL_OPEN"), ("FAIL_CLOSED", "FAIL_CLOSE")] {
        assert!(table.contains(&format!("| `{envoy}`")) && table.contains(&format!("| `{istio}`")), "{envoy}: {table}");
        let wanted = format!("`failure_policy: {envoy}` (Istio: `failStrategy: {istio}`)");
        assert!(readme.contains(&wanted), "{wanted} is not in: {readme}");
    }
    assert_eq!(table.matches("| `FAIL_").count(), 6, "a policy that nobody tests: {table}");
}
