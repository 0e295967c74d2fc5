//! A Redis that hangs while requests keep coming. Nothing piles up: not in memory, not as connections, and not as
//! questions that Redis answers when nobody waits for them any more.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use super::{Ground, Undecided, Watched, config};
use crate::support::{Client, Proxy, Redis, Sidecar, assert_invariants};

const REQUESTS: usize = 2_000;
const DURATION: Duration = Duration::from_secs(2);

/// `REQUESTS` spread over `DURATION`, and what became of them: how many were allowed, and how many answered with 503.
/// All are answered; how soon is no question for a machine that is as busy with asking as with answering.
async fn load(port: u16) -> (u64, u64) {
    const STEPS: usize = 200;
    let client = Client::new();
    let mut requests = JoinSet::new();
    let mut steps = tokio::time::interval(DURATION / u32::try_from(STEPS).unwrap());
    for _ in 0..STEPS {
        steps.tick().await;
        for _ in 0..REQUESTS / STEPS {
            let client = client.clone();
            requests.spawn(async move { client.post(port, "/v1/check/any/a", "").await });
        }
    }
    let (mut allowed, mut failed) = (0, 0);
    while let Some(request) = requests.join_next().await {
        let answer = request.unwrap();
        if answer.is_allowed() {
            allowed += 1;
        } else {
            assert_eq!(answer.status, 503, "{answer:?}");
            failed += 1;
        }
    }
    println!("{allowed} allowed, {failed} failed");
    (allowed, failed)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_hangs_under_load() {
    let mut ground = Ground::start().await;
    let port = ground.watched.sidecar.port();
    // Buffers, connections and pools are at their usual size afterwards.
    let (allowed, failed) = load(port).await;
    assert!(allowed > 0);
    ground.watched.allowed += allowed;
    ground.watched.failed += failed;
    let before = ground.watched.charged().await;
    let (memory, opened) = (ground.watched.sidecar.memory_kib(), ground.proxy.opened());

    ground.redis.pause();
    let (allowed, failed) = load(port).await;
    assert_eq!((allowed, failed), (0, REQUESTS as u64));
    let (grown, connections) =
        (ground.watched.sidecar.memory_kib().saturating_sub(memory), ground.proxy.opened() - opened);
    ground.redis.resume();
    ground.watched.failed += failed;
    let decided = ground.watched.allowed;
    ground.watched.assert_recovers().await;
    let stale = ground.watched.charged().await - before - (ground.watched.allowed - decided);
    println!("grown by {grown} KiB, {connections} more connections, {stale} stale decisions");

    assert!(grown <= 32 * 1024, "memory grew by {grown} KiB");
    assert!(connections <= 20, "{connections} connections were opened");
    // What was under way when it was found out, and a look now and then.
    assert!(stale <= REQUESTS as u64 / 8, "{stale} questions were answered that nobody waited for");
    ground.end(Undecided::PerhapsCharged, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_gone_is_not_stormed() {
    let mut ground = Ground::start().await;
    ground.redis.kill();
    let opened = ground.proxy.opened();
    let (allowed, failed) = load(ground.watched.sidecar.port()).await;
    assert_eq!((allowed, failed), (0, REQUESTS as u64));
    let connections = ground.proxy.opened() - opened;
    println!("{connections} attempts to connect");
    assert!(connections <= 40, "{connections} attempts to connect in two seconds");
    ground.watched.failed += failed;
    ground.redis.restart().await;
    ground.watched.assert_recovers().await;
    ground.end(Undecided::Forgotten, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_may_be_in_flight_is_turned_away_at_once() {
    const IN_FLIGHT: usize = 8;
    const TIMEOUT: Duration = Duration::from_secs(2);
    let redis = Redis::start().await;
    let proxy = Proxy::start(redis.port()).await;
    let sidecar = Sidecar::start_with(&config(&json!({
        "store": format!("redis://127.0.0.1:{}", proxy.port()),
        "store_timeout": "2s",
        "limits": {"in_flight": IN_FLIGHT},
    })))
    .await;
    redis.pause();
    let client = Client::new();
    let mut requests = JoinSet::new();
    for _ in 0..100 {
        let (client, port) = (client.clone(), sidecar.port());
        requests.spawn(async move {
            let start = Instant::now();
            let answer = client.post(port, "/v1/check/any/a", "").await;
            assert_eq!(answer.status, 503, "{answer:?}");
            start.elapsed()
        });
    }
    let times = requests.join_all().await;
    let waited = times.iter().filter(|time| **time > TIMEOUT / 2).count();
    assert!(waited <= IN_FLIGHT, "{waited} waited: {times:?}");
    redis.resume();
    let mut watched = Watched::new(sidecar).await;
    watched.assert_recovers().await;
    let charged = watched.charged().await - watched.allowed;
    assert!(charged <= IN_FLIGHT as u64, "{charged} that were turned away were charged");
    assert_invariants(&redis, &mut [], &[watched.sidecar.process.log()], &[]).await;
}
