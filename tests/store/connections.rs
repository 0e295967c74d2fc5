//! What networks do to connections, between the sidecar and Redis, and between Envoy and the sidecar.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Ground, NOISE, Undecided};
use crate::support::{Envoy, EnvoyOptions, Fault, Proxy, Redis, assert_invariants, eventually};

const FAULTS: [Fault; 5] =
    [Fault::Stall, Fault::StopReading, Fault::Reset, Fault::Delay(Duration::from_secs(1)), Fault::CutReply(0)];

#[tokio::test(flavor = "multi_thread")]
async fn between_the_sidecar_and_redis() {
    let mut ground = Ground::start().await;
    for fault in FAULTS {
        println!("{fault:?}");
        ground.proxy.set(fault).await;
        ground.watched.assert_fails("").await;
        ground.proxy.set(Fault::None).await;
        ground.watched.assert_recovers().await;
    }
    println!("{} connections", ground.proxy.opened());
    ground.end(Undecided::PerhapsCharged, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_of_redis_is_cut_anywhere() {
    let mut ground = Ground::start().await;
    // A reply has more than fifty bytes.
    for bytes in [1, 2, 3, 4, 5, 8, 13, 21, 34] {
        ground.proxy.set(Fault::CutReply(bytes)).await;
        ground.watched.assert_fails("").await;
        ground.proxy.set(Fault::None).await;
        ground.watched.assert_recovers().await;
    }
    ground.end(Undecided::PerhapsCharged, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_can_no_longer_be_connected_to() {
    let mut ground = Ground::start().await;
    ground.proxy.set(Fault::Refuse).await;
    ground.watched.assert_decides().await;
    ground.proxy.reset_open();
    ground.watched.assert_fails("").await;
    ground.watched.assert_says_down("").await;
    ground.proxy.set(Fault::None).await;
    ground.watched.assert_recovers().await;
    ground.end(Undecided::PerhapsCharged, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_redis_is_no_dead_one() {
    let mut ground = Ground::start().await;
    ground.proxy.set(Fault::Delay(Duration::from_millis(20))).await;
    for _ in 0..20 {
        ground.watched.assert_decides().await;
    }
    ground.proxy.set(Fault::None).await;
    assert_eq!(ground.watched.failed, 0);
    ground.end(Undecided::NeverCharged, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_another_behind_the_same_address() {
    let mut ground = Ground::start().await;
    let former = std::mem::replace(&mut ground.redis, Redis::start().await);
    ground.proxy.point_to(ground.redis.port());
    ground.watched.assert_decides().await;
    drop(former);
    ground.watched.assert_recovers().await;
    ground.end(Undecided::Forgotten, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn between_envoy_and_the_sidecar() {
    const DEADLINE: Duration = Duration::from_millis(200);
    let ground = Ground::start().await;
    let proxy = Proxy::start(ground.watched.sidecar.port()).await;
    let plugin = json!({
        "sidecar": {"cluster": "sluice", "timeout": format!("{}ms", DEADLINE.as_millis())},
        "on_error": "deny",
        "rules": [{"checks": [{"policy": "any", "key": [{"header": "x-tenant-id"}]}]}],
    });
    let sidecars = vec![proxy.port()];
    let envoy = Envoy::start(&EnvoyOptions { plugin, sidecars, ..EnvoyOptions::default() }).await;
    let get = async || envoy.get("/", &[("x-tenant-id", "b")]).await;
    let recovers = async || {
        let start = Instant::now();
        eventually("requests are decided", async || get().await.headers.contains_key("ratelimit").then_some(())).await;
        println!("recovered after {:?}", start.elapsed());
    };
    recovers().await;
    let cuts = [1, 20, 100, 200].map(Fault::CutReply);
    for fault in FAULTS.into_iter().chain(cuts) {
        println!("{fault:?}");
        proxy.set(fault).await;
        for _ in 0..5 {
            let (before, start) = (envoy.metric("failed_closed").await, Instant::now());
            let answer = get().await;
            assert!(start.elapsed() <= DEADLINE + NOISE, "{:?}", start.elapsed());
            assert_eq!(answer.status, 503, "{answer:?}");
            assert_eq!(envoy.metric("failed_closed").await, before + 1);
        }
        proxy.set(Fault::None).await;
        recovers().await;
    }
    println!("{} connections", proxy.opened());
    assert_invariants(&ground.redis, &mut [envoy], &[ground.watched.sidecar.process.log()], &[]).await;
}
