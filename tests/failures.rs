//! Everything between a request and its verdict can fail. Each failure ends in `on_error`, in time, and passes when
//! its cause does.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{
    Client, Envoy, EnvoyOptions, FakeSidecar, Port, Redis, Reply, Sidecar, Stack, assert_invariants, eventually,
};

/// The plugin's: how long a request may wait.
const DEADLINE: Duration = Duration::from_millis(100);
/// What a request may take on top of it.
const SLACK: Duration = Duration::from_millis(50);
/// What a busy machine may add to a single request; more would be somebody waiting for something.
const NOISE: Duration = Duration::from_millis(500);

fn policies() -> Value {
    json!({"any": {"algorithm": "fixed_window", "rate": "1000000/1h"}})
}

fn plugin(cluster: &str, on_error: &str) -> Value {
    json!({
        "sidecar": {"cluster": cluster, "timeout": format!("{}ms", DEADLINE.as_millis())},
        "on_error": on_error,
        "rules": [{"checks": [{"policy": "any", "key": [{"header": "x-tenant-id"}]}]}],
    })
}

/// Two Envoys in front of the same sidecars: one that lets requests through without a verdict, and one that does not.
async fn envoys(cluster: &str, sidecars: &[u16]) -> Vec<Envoy> {
    let mut envoys = Vec::new();
    for on_error in ["allow", "deny"] {
        let plugin = plugin(cluster, on_error);
        let sidecars = sidecars.to_vec();
        envoys.push(Envoy::start(&EnvoyOptions { plugin, sidecars, ..EnvoyOptions::default() }).await);
    }
    envoys
}

/// A stack with those two Envoys, in which everything works; the store's deadline is the one users have.
async fn start() -> Stack {
    let redis = Redis::start().await;
    let mut sidecar = Sidecar::launch(redis.port(), &policies(), None);
    sidecar.until_ready().await;
    let envoys = envoys("sluice", &[sidecar.port()]).await;
    let stack = Stack { redis, sidecars: vec![sidecar], envoys };
    assert_recovers(&stack.envoys).await;
    stack
}

async fn get(envoy: &Envoy) -> crate::support::Answer {
    envoy.get("/", &[("x-tenant-id", "acme")]).await
}

/// Requests are decided again, without anybody having touched Envoy.
async fn assert_recovers(envoys: &[Envoy]) {
    for envoy in envoys {
        eventually("requests are decided", async || {
            let answer = get(envoy).await;
            (answer.is_allowed() && answer.headers.contains_key("ratelimit")).then_some(())
        })
        .await;
    }
}

/// No request is decided, and each is treated as configured, in time.
async fn assert_on_error(envoys: &[Envoy]) {
    const REQUESTS: usize = 7;
    for (envoy, on_error) in envoys.iter().zip(["failed_open", "failed_closed"]) {
        let before = envoy.metric(on_error).await;
        let mut times = Vec::new();
        for _ in 0..REQUESTS {
            let start = Instant::now();
            let answer = get(envoy).await;
            times.push(start.elapsed());
            assert!(!answer.headers.contains_key("ratelimit"), "there is a verdict: {answer:?}");
            if on_error == "failed_open" {
                assert_eq!(answer.status, 200, "{answer:?}");
                assert_eq!(answer.body, "hello");
            } else {
                assert_eq!(answer.status, 503, "{answer:?}");
                assert_eq!(answer.header("content-type"), Some("application/problem+json"));
                assert_eq!(answer.json()["status"], 503);
            }
        }
        times.sort();
        println!("{on_error}: {times:?}");
        assert!(times[REQUESTS / 2] <= DEADLINE + SLACK, "too late: {times:?}");
        assert!(times[REQUESTS - 1] <= DEADLINE + NOISE, "too late: {times:?}");
        assert_eq!(envoy.metric(on_error).await, before + REQUESTS as u64, "failing must be seen");
    }
}

/// The sidecar gave up by itself, before Envoy gave up on the sidecar.
async fn assert_sidecar_said_so(envoys: &[Envoy]) {
    for envoy in envoys {
        let said = envoy.stats("^cluster.sluice.internal.upstream_rq_503$").await;
        assert!(said.iter().any(|(_, count)| *count > 0), "the sidecar never answered 503");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_gone_and_comes_back_empty() {
    let mut stack = start().await;
    stack.redis.kill();
    assert_on_error(&stack.envoys).await;
    assert_sidecar_said_so(&stack.envoys).await;
    stack.redis.restart().await;
    assert_recovers(&stack.envoys).await;
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_hangs() {
    let mut stack = start().await;
    stack.redis.pause();
    assert_on_error(&stack.envoys).await;
    assert_sidecar_said_so(&stack.envoys).await;
    stack.redis.resume();
    assert_recovers(&stack.envoys).await;
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sidecar_is_gone() {
    let mut stack = start().await;
    stack.sidecars[0].kill();
    assert_on_error(&stack.envoys).await;
    stack.sidecars[0].restart().await;
    assert_recovers(&stack.envoys).await;
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sidecar_hangs() {
    let mut stack = start().await;
    stack.sidecars[0].pause();
    assert_on_error(&stack.envoys).await;
    stack.sidecars[0].resume();
    assert_recovers(&stack.envoys).await;
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sidecar_starts_before_redis() {
    let port = Port::free();
    let mut sidecar = Sidecar::launch(port.number(), &policies(), None);
    sidecar.until_alive().await;
    eventually("it says that Redis is down, and stays in service", async || {
        let ready = Client::new().get(sidecar.port(), "/readyz", &[]).await;
        assert!(ready.is_allowed(), "{ready:?}");
        (ready.json()["store"]["state"] == "down").then_some(())
    })
    .await;
    let mut envoys = envoys("sluice", &[sidecar.port()]).await;
    assert_on_error(&envoys).await;
    let redis = Redis::start_on(port).await;
    assert_recovers(&envoys).await;
    assert_invariants(&redis, &mut envoys, &[sidecar.process.log()], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sidecar_answers_nonsense() {
    let sidecar = FakeSidecar::start(Reply::Allow).await;
    let mut envoys = envoys("sluice", &[sidecar.port()]).await;
    for reply in Reply::NONSENSE {
        println!("{reply:?}");
        sidecar.set(reply);
        assert_on_error(&envoys).await;
        sidecar.set(Reply::Allow);
        assert_recovers(&envoys).await;
    }
    assert_invariants(&Redis::start().await, &mut envoys, &[], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_is_empty() {
    let mut envoys = envoys("sluice", &[]).await;
    assert_on_error(&envoys).await;
    assert_invariants(&Redis::start().await, &mut envoys, &[], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_such_cluster() {
    let mut envoys = envoys("slucie", &[]).await;
    assert_on_error(&envoys).await;
    for envoy in &envoys {
        assert!(envoy.process.log().contains("there is no cluster \"slucie\""), "{}", envoy.process.log());
    }
    assert_invariants(&Redis::start().await, &mut envoys, &[], &[]).await;
}
