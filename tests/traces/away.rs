//! A collector that is away, or slow, costs spans and nothing else.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use rustix::process::Signal;

use super::{environment, sidecar, take};
use crate::support::{Collector, Port, Redis, assert_invariants, eventually};

/// More than fit into the queue.
const REQUESTS: usize = 100;
const QUEUE: usize = 16;

fn trace(number: usize) -> String {
    format!("{:032x}", number + 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_go_on_while_it_is_away() {
    let (redis, port) = (Redis::start().await, Port::free());
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://127.0.0.1:{}", port.number())),
        ("OTEL_BSP_SCHEDULE_DELAY", "50".to_owned()),
    ];
    let sidecar = sidecar(&variables, &redis).await;
    let dropped = async || sidecar.metrics().await.count("sluice_spans_dropped_total");
    take(&sidecar, &trace(0)).await;
    eventually("the first spans are dropped", async || (dropped().await == 2).then_some(())).await;
    take(&sidecar, &trace(1)).await;
    eventually("more are", async || (dropped().await == 4).then_some(())).await;
    let collector = Collector::start_on(port).await;
    collector.set(StatusCode::SERVICE_UNAVAILABLE);
    take(&sidecar, &trace(2)).await;
    // It may be asked again before they are given up.
    eventually("it is not well yet", async || (collector.connections() > 0).then_some(())).await;
    collector.set(StatusCode::OK);
    take(&sidecar, &trace(3)).await;
    collector.spans_of(&trace(3), 2).await;
    let log = eventually("the log says so", async || {
        Some(sidecar.process.log()).filter(|log| log.contains("spans are exported again"))
    })
    .await;
    for line in ["spans can't be exported", "spans are exported again"] {
        assert_eq!(log.matches(line).count(), 1, "{log}");
    }
    assert_invariants(&redis, &mut [], &[log], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_dropped_and_the_end_does_not_wait() {
    let redis = Redis::start().await;
    // It takes connections, and is silent.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", silent.local_addr().unwrap())),
        ("OTEL_BSP_SCHEDULE_DELAY", "50".to_owned()),
        ("OTEL_BSP_MAX_QUEUE_SIZE", QUEUE.to_string()),
        // Longer than the test.
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "60000".to_owned()),
    ];
    let mut sidecar = sidecar(&variables, &redis).await;
    for number in 0..REQUESTS {
        take(&sidecar, &trace(number)).await;
    }
    let metrics = sidecar.metrics().await;
    let dropped = usize::try_from(metrics.count("sluice_spans_dropped_total")).unwrap();
    // A queue full, one that was taken out of it, and no more.
    assert!(dropped >= 2 * REQUESTS - 2 * QUEUE, "{dropped} spans were dropped");
    assert_eq!(metrics.count("sluice_spans_exported_total"), 0);
    sidecar.process.signal(Signal::TERM);
    let start = Instant::now();
    assert!(sidecar.process.ended().await.success());
    // The collector had a minute. A busy machine has time enough here.
    assert!(start.elapsed() < Duration::from_secs(20), "it waited for {:?}", start.elapsed());
    assert!(sidecar.process.log().contains("the last spans were not exported"), "{}", sidecar.process.log());
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_spans_are_sent_at_the_end() {
    let (redis, collector) = (Redis::start().await, Collector::start().await);
    let mut variables = environment(&collector);
    variables.push(("OTEL_BSP_SCHEDULE_DELAY", "3600000".to_owned()));
    let mut sidecar = sidecar(&variables, &redis).await;
    take(&sidecar, &trace(0)).await;
    assert!(collector.spans().is_empty());
    sidecar.process.signal(Signal::TERM);
    assert!(sidecar.process.ended().await.success());
    assert_eq!(collector.spans().len(), 2);
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}
