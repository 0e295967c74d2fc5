//! Sidecars that are replaced one by one while a gateway asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::policies;
use crate::support::{
    Client, Envoy, EnvoyOptions, Redis, Sidecar, assert_invariants, eventually, plugin_config, repository,
};

/// What `few` gives.
const FEW: u64 = 300;
/// What `many` gives.
const MANY: u64 = 1_000_000_000;

/// The fields of Envoy's cluster that the manual has.
fn cluster() -> Value {
    let text = std::fs::read_to_string(repository().join("docs/sidecar.md")).unwrap();
    let (_, from) = text.split_once("```yaml\nhealth_checks:").expect("the manual has them");
    let (yaml, _) = from.split_once("```").unwrap();
    serde_saphyr::from_str(&format!("health_checks:{yaml}")).unwrap()
}

/// Asks `/many` and `/few` in turn, 500 times a second together, until told to stop. Returns how many of each were
/// allowed.
async fn load(port: u16, stop: Arc<AtomicBool>) -> [u64; 2] {
    const PATHS: [&str; 2] = ["/many", "/few"];
    let (client, mut requests) = (Client::new(), JoinSet::new());
    let mut steps = tokio::time::interval(Duration::from_millis(20));
    while !stop.load(Ordering::Relaxed) {
        steps.tick().await;
        for place in [0, 1].repeat(5) {
            let client = client.clone();
            requests.spawn(async move { (place, client.get(port, PATHS[place], &[]).await) });
        }
    }
    let (mut allowed, mut denied) = ([0, 0], 0);
    while let Some(request) = requests.join_next().await {
        match request.unwrap() {
            (place, answer) if answer.is_allowed() => allowed[place] += 1,
            (1, answer) if answer.status == StatusCode::TOO_MANY_REQUESTS => denied += 1,
            (place, answer) => panic!("{}: {answer:?}", PATHS[place]),
        }
    }
    println!("{allowed:?} allowed, {denied} denied");
    allowed
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sidecars_are_replaced_and_nobody_notices() {
    let redis = Redis::start().await;
    let config = json!({
        "store": format!("redis://127.0.0.1:{}", redis.port()),
        "store_timeout": "2s",
        "drain": "3s",
        "policies": {
            "many": {"algorithm": "fixed_window", "rate": format!("{MANY}/1h")},
            "few": {"algorithm": "fixed_window", "rate": format!("{FEW}/1h")},
        },
    });
    let mut sidecars = [Sidecar::start_with(&config).await, Sidecar::start_with(&config).await];
    let rule = |policy: &str| {
        let path = format!("/{policy}");
        json!({"match": {"path": {"exact": path}}, "checks": [{"policy": policy, "key": [{"literal": "k"}]}]})
    };
    let mut plugin = plugin_config(&json!([rule("many"), rule("few")]));
    plugin["on_error"] = "allow".into();
    let envoy = Envoy::start(&EnvoyOptions {
        workers: 2,
        plugin,
        sidecars: sidecars.iter().map(Sidecar::port).collect(),
        sidecar_cluster: cluster(),
        ..EnvoyOptions::default()
    })
    .await;
    let healthy = async |count: u64| {
        eventually("Envoy knows who is well", async || {
            (envoy.stat("cluster.sluice.membership_healthy").await == count).then_some(())
        })
        .await;
    };
    healthy(2).await;
    let stop = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn(load(envoy.port(), Arc::clone(&stop)));
    for sidecar in &mut sidecars {
        sidecar.roll().await;
        healthy(2).await;
    }
    stop.store(true, Ordering::Relaxed);
    let [many, few] = load.await.unwrap();

    assert_eq!(few, FEW);
    let charged = MANY - sidecars[0].remaining("many", "k").await;
    assert_eq!(charged, many, "what was admitted is what was charged");
    for failed in ["failed_open", "failed_closed", "callouts_failed"] {
        assert_eq!(envoy.metric(failed).await, 0, "{failed}");
    }
    for sidecar in &sidecars {
        // Both were asked: neither test of theirs is one of a sidecar that nobody uses.
        assert!(sidecar.metrics().await.get(r#"sluice_decisions_total{policy="many",outcome="allowed"}"#) > 0.5);
    }
    let logs: Vec<String> = sidecars.iter().map(|sidecar| sidecar.process.log()).collect();
    assert_invariants(&redis, &mut [envoy], &logs, &[]).await;
}

/// What goes on during `drain`, and that it can be cut short.
#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_that_goes_says_so_and_answers() {
    let redis = Redis::start().await;
    let store = format!("redis://127.0.0.1:{}", redis.port());
    let config = json!({"store": store, "store_timeout": "2s", "drain": "5m", "policies": policies(9)});
    let mut sidecar = Sidecar::start_with(&config).await;
    let client = Client::new();
    assert_eq!(sidecar.take("p", "k").await.header("connection"), None);
    sidecar.process.signal(Signal::TERM);
    for port in [sidecar.port(), sidecar.admin_port()] {
        let answer = eventually("it is not ready", async || {
            Some(client.get(port, "/readyz", &[]).await).filter(|answer| answer.status == 503)
        })
        .await;
        assert_eq!(answer.json()["draining"], true);
    }
    assert!(client.get(sidecar.port(), "/livez", &[]).await.is_allowed());
    let answer = sidecar.take("p", "k").await;
    assert!(answer.is_allowed(), "{answer:?}");
    assert_eq!(answer.header("connection"), Some("close"));
    assert_eq!(answer.rate_limit(), ("p", 7));
    sidecar.process.signal(Signal::TERM);
    assert!(sidecar.process.ended().await.success());
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}
