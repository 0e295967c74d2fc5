//! Sidecars that are replaced one by one while a gateway asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::policies;
use crate::support::{
    Answer, Client, Envoy, EnvoyOptions, FakeSidecar, Port, Redis, Reply, Sidecar, assert_invariants, eventually,
    plugin_config, repository,
};

/// What `few` gives.
const FEW: u64 = 300;
/// What `many` gives.
const MANY: u64 = 1_000_000_000;

/// The fields of Envoy's cluster that the manual has, in the block that begins with this one.
fn manual(field: &str) -> Value {
    let text = std::fs::read_to_string(repository().join("docs/sidecar.md")).unwrap();
    let begin = format!("```yaml\n{field}:");
    let (_, from) = text.split_once(&begin).unwrap_or_else(|| panic!("no {field} in the manual"));
    let (yaml, _) = from.split_once("```").unwrap();
    serde_saphyr::from_str(&format!("{field}:{yaml}")).unwrap()
}

/// Asks `/many` and `/few` in turn, 500 times a second together, until told to stop; slower, if the machine is too busy for
/// that: what waits too long proves nothing. Returns how many of each were allowed.
async fn load(port: u16, stop: Arc<AtomicBool>) -> [u64; 2] {
    const PATHS: [&str; 2] = ["/many", "/few"];
    const AT_ONCE: usize = 100;
    let (client, mut requests) = (Client::new(), JoinSet::new());
    let (mut allowed, mut denied) = ([0, 0], 0);
    let mut note = |(place, answer): (usize, Answer)| match (place, answer.status) {
        (_, StatusCode::OK) => allowed[place] += 1,
        (1, StatusCode::TOO_MANY_REQUESTS) => denied += 1,
        _ => panic!("{}: {answer:?}", PATHS[place]),
    };
    let mut steps = tokio::time::interval(Duration::from_millis(20));
    steps.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while !stop.load(Ordering::Relaxed) {
        steps.tick().await;
        for place in [0, 1].repeat(5) {
            if requests.len() >= AT_ONCE {
                note(requests.join_next().await.unwrap().unwrap());
            }
            let client = client.clone();
            requests.spawn(async move { (place, client.get(port, PATHS[place], &[]).await) });
        }
    }
    requests.join_all().await.into_iter().for_each(note);
    println!("{allowed:?} allowed, {denied} denied");
    allowed
}

/// Two sidecars are replaced, one after the other, and nobody notices. `more` are further fields of the cluster.
async fn replace_two(more: &Value) {
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
    let mut sidecar_cluster = manual("health_checks");
    sidecar_cluster.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let envoy = Envoy::start(&EnvoyOptions {
        workers: 2,
        plugin,
        sidecars: sidecars.iter().map(Sidecar::port).collect(),
        sidecar_cluster,
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

#[tokio::test(flavor = "multi_thread")]
async fn two_sidecars_are_replaced_and_nobody_notices() {
    replace_two(&json!({})).await;
}

/// Connections that are not closed by an answer, but by a frame at the end.
#[tokio::test(flavor = "multi_thread")]
async fn two_sidecars_are_replaced_over_http2() {
    let kind = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    let options = json!({
        "@type": format!("type.googleapis.com/{kind}"),
        "explicit_http_config": {"http2_protocol_options": {}},
    });
    replace_two(&json!({"typed_extension_protocol_options": {kind: options}})).await;
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

/// Envoy with these sidecars and the manual's retries, and a plugin that lets nothing pass without a decision.
async fn envoy_of(sidecars: Vec<u16>) -> Envoy {
    let plugin = plugin_config(&json!([{"checks": [{"policy": "p", "key": [{"literal": "k"}]}]}]));
    let sidecar_cluster = manual("typed_extension_protocol_options");
    Envoy::start(&EnvoyOptions { plugin, sidecars, sidecar_cluster, ..EnvoyOptions::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_was_not_sent_is_sent_to_another() {
    let redis = Redis::start().await;
    let (sidecar, nobody) = (Sidecar::start(redis.port(), &policies(100)).await, Port::free());
    let envoy = envoy_of(vec![nobody.number(), sidecar.port()]).await;
    for _ in 0..50 {
        let answer = envoy.get("/", &[]).await;
        assert!(answer.is_allowed(), "{answer:?}");
    }
    assert!(envoy.stat("cluster.sluice.upstream_cx_connect_fail").await > 0, "nobody was asked");
    assert_eq!(sidecar.remaining("p", "k").await, 50);
    assert_invariants(&redis, &mut [envoy], &[sidecar.process.log()], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_was_sent_is_not_put_again() {
    let redis = Redis::start().await;
    let fakes = [FakeSidecar::start(Reply::Close).await, FakeSidecar::start(Reply::Close).await];
    let envoy = envoy_of(fakes.iter().map(FakeSidecar::port).collect()).await;
    for _ in 0..50 {
        assert_eq!(envoy.get("/", &[]).await.status, StatusCode::SERVICE_UNAVAILABLE);
    }
    let asked: usize = fakes.iter().map(|fake| fake.batches().len()).sum();
    assert_eq!(asked, 50);
    assert_invariants(&redis, &mut [envoy], &[], &[]).await;
}

#[test]
fn shipped_clusters_have_what_the_manual_has() {
    let read = |file: &str| std::fs::read_to_string(repository().join(file)).unwrap();
    let bootstrap: Value = serde_saphyr::from_str(&read("envoy/compose/envoy.yaml")).unwrap();
    let gateway: Vec<Value> = serde_saphyr::from_multiple(&read("envoy/gateway/gateway.yaml")).unwrap();
    let proxy = gateway.iter().find(|object| object["kind"] == "EnvoyProxy").unwrap();
    for cluster in
        [&bootstrap["static_resources"]["clusters"][0], &proxy["spec"]["bootstrap"]["jsonPatches"][0]["value"]]
    {
        assert_eq!(cluster["name"], "sluice");
        for (field, value) in manual("health_checks").as_object().unwrap() {
            assert_eq!(cluster[field], *value, "{field}");
        }
    }
}
