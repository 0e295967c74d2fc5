//! What the sidecar did for a request shows in that request's trace, and costs no decision.

mod away;
mod environment;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{
    Client, Collector, Envoy, EnvoyOptions, FakeSidecar, Redis, Reply, Sidecar, Told, assert_invariants,
    assert_invariants_of, eventually, plugin_config,
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// A key's value, which spans must not hold.
const KEY: &str = "tenant-of-the-test";

fn config(redis: &Redis) -> Value {
    let store = format!("redis://127.0.0.1:{}", redis.port());
    let policies = json!({"per-tenant": {"algorithm": "token_bucket", "rate": "1000000/1h"},
        "none": {"algorithm": "token_bucket", "rate": "1/1h", "overrides": [{"key": "*", "blocked": true}]}});
    json!({"store": store, "store_timeout": "2s", "policies": policies})
}

/// The variables that have spans sent to a collector at once.
fn environment(collector: &Collector) -> Vec<(&'static str, String)> {
    vec![collector.endpoint(), ("OTEL_BSP_SCHEDULE_DELAY", "50".to_owned())]
}

async fn sidecar(environment: &[(&'static str, String)], redis: &Redis) -> Sidecar {
    let mut sidecar = Sidecar::launch_in(environment, &config(redis));
    sidecar.until_ready().await;
    sidecar
}

/// An Envoy whose plugin hands traces on.
async fn envoy(sidecar: &Sidecar) -> Envoy {
    envoy_of(sidecar.port()).await
}

async fn envoy_of(sidecar: u16) -> Envoy {
    let checks = |policy: &str| json!([{"policy": policy, "key": [{"header": "x-tenant-id"}]}]);
    let mut plugin = plugin_config(&json!([
        {"match": {"path": {"prefix": "/none"}}, "checks": checks("none")},
        {"checks": checks("per-tenant")},
    ]));
    plugin["trace_context"] = true.into();
    plugin["denial_cache"] = json!({"max_age": 0});
    Envoy::start(&EnvoyOptions { plugin, sidecars: vec![sidecar], ..EnvoyOptions::default() }).await
}

/// A single check of a sidecar's, in this trace.
async fn take(sidecar: &Sidecar, trace: &str) {
    let request = Request::post(format!("http://127.0.0.1:{}/v1/check/per-tenant/{KEY}", sidecar.port()));
    let request = request.header("traceparent", format!("00-{trace}-{SPAN}-01")).body(Body::empty()).unwrap();
    let answer = Client::without_pool().send(request).await.unwrap();
    assert!(answer.is_allowed(), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_traced_shows_in_its_trace() {
    let (redis, collector) = (Redis::start().await, Collector::start().await);
    let sidecar = sidecar(&environment(&collector), &redis).await;
    let mut envoy = envoy(&sidecar).await;
    let (b3, whole) = (format!("{TRACE}-{SPAN}-1").replace("4bf9", "b300"), format!("00-{TRACE}-{SPAN}-01"));
    let multi = TRACE.replace("4bf9", "b3b3");
    let tables: [(&str, &[(&str, &str)]); 3] = [
        (TRACE, &[("traceparent", &whole), ("tracestate", "vendor=opaque-to-us")]),
        (&b3[..32], &[("b3", &b3)]),
        (&multi, &[("x-b3-traceid", &multi), ("x-b3-spanid", SPAN), ("x-b3-sampled", "1")]),
    ];
    for (trace, headers) in tables {
        // Another one, which nobody wants recorded.
        let unsampled = whole.replace("4bf9", "eeee").replace("-01", "-00");
        assert!(envoy.get("/", &[("x-tenant-id", KEY), ("traceparent", &unsampled)]).await.is_allowed());
        let headers: Vec<_> = [("x-tenant-id", KEY)].iter().chain(headers).copied().collect();
        assert!(envoy.get("/?secret-query", &headers).await.is_allowed());

        let spans = collector.spans_of(trace, 2).await;
        let [script, question] = spans.as_slice() else { panic!("{spans:?}") };
        assert_eq!((question.name(), question.parent()), ("POST /v1/check", SPAN.to_owned()));
        assert_eq!((script.name(), script.parent()), ("EVALSHA", question.id()));
        assert!(question.links().is_empty() && !question.is_error() && !script.is_error());
        let told = |name: &str| question.attribute(name).unwrap();
        let counts = ["requests", "checks", "allowed", "denied", "degraded", "refused"];
        assert_eq!(counts.map(|count| told(&format!("sluice.{count}"))), ["1", "1", "1", "0", "0", "0"]);
        assert_eq!((told("http.route"), told("http.response.status_code")), ("/v1/check".to_owned(), "200".to_owned()));
        let told = |name: &str| script.attribute(name).unwrap();
        assert_eq!([told("db.system.name"), told("db.stored_procedure.name")], ["redis", "decide"]);
        assert_eq!([told("server.address"), told("server.port")], ["127.0.0.1".to_owned(), redis.port().to_string()]);
        // Nothing else is told, so that nothing else needs to be looked at for what it gives away.
        assert_eq!(
            question.attributes(),
            [
                "http.request.method",
                "http.response.status_code",
                "http.route",
                "sluice.allowed",
                "sluice.checks",
                "sluice.degraded",
                "sluice.denied",
                "sluice.refused",
                "sluice.requests",
            ]
        );
        assert_eq!(
            script.attributes(),
            ["db.operation.name", "db.stored_procedure.name", "db.system.name", "server.address", "server.port"]
        );
    }
    assert_eq!(collector.spans().len(), 6, "{:?}", collector.spans());

    let denied = TRACE.replace("4bf9", "dead");
    let traceparent = format!("00-{denied}-{SPAN}-01");
    assert_eq!(envoy.get("/none", &[("x-tenant-id", KEY), ("traceparent", &traceparent)]).await.status, 429);
    let question = collector.spans_of(&denied, 2).await.pop().unwrap();
    assert_eq!(["allowed", "denied"].map(|count| question.attribute(&format!("sluice.{count}")).unwrap()), ["0", "1"]);

    let text = collector.text();
    for secret in [KEY, "per-tenant", "secret-query", "opaque-to-us"] {
        assert!(!text.contains(secret), "{secret} is told: {text}");
    }
    let told = [("sluice_spans_exported_total", 8), ("sluice_spans_dropped_total", 0)];
    for (metric, count) in told {
        assert_eq!(sidecar.metrics().await.count(metric), count, "{metric}");
    }
    assert_invariants(&redis, std::slice::from_mut(&mut envoy), &[sidecar.process.log()], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_batch_are_linked() {
    const REQUESTS: usize = 48;
    let (redis, collector) = (Redis::start().await, Collector::start().await);
    let sidecar = sidecar(&environment(&collector), &redis).await;
    let mut envoy = envoy(&sidecar).await;

    let (client, port) = (Client::new(), envoy.port());
    let traces: Vec<_> = (1..=REQUESTS).map(|number| format!("{number:032x}")).collect();
    let mut users = JoinSet::new();
    for trace in traces.clone() {
        let client = client.clone();
        users.spawn(async move {
            let traceparent = format!("00-{trace}-{SPAN}-01");
            let answer = client.get(port, "/", &[("x-tenant-id", KEY), ("traceparent", &traceparent)]).await;
            assert!(answer.is_allowed(), "{answer:?}");
        });
    }
    users.join_all().await;
    let callouts = usize::try_from(envoy.metric("callouts").await).unwrap();
    assert!(callouts < REQUESTS, "no callout had more than one request");

    let questions = eventually("all questions are told", async || {
        let spans: Vec<_> = collector.spans().into_iter().filter(|span| span.name() == "POST /v1/check").collect();
        (spans.len() == callouts).then_some(spans)
    })
    .await;
    let mut seen: Vec<_> = questions.iter().map(|span| (span.trace(), span.parent())).collect();
    seen.extend(questions.iter().flat_map(Told::links));
    seen.sort();
    let expected: Vec<_> = traces.into_iter().map(|trace| (trace, SPAN.to_owned())).collect();
    assert_eq!(seen, expected, "each request is a parent or a link, once");
    assert_invariants(&redis, std::slice::from_mut(&mut envoy), &[sidecar.process.log()], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_question_itself_shows_a_trace_if_there_is_one() {
    let fake = FakeSidecar::start(Reply::Allow).await;
    let mut envoy = envoy_of(fake.port()).await;
    let whole = format!("00-{TRACE}-{SPAN}-01");
    for (traceparent, is_shown) in [(whole.clone(), true), (whole.replace("-01", "-00"), false)] {
        assert!(envoy.get("/", &[("x-tenant-id", KEY), ("traceparent", &traceparent)]).await.is_allowed());
        let (head, batch) = (fake.heads().pop().unwrap(), fake.batches().pop().unwrap());
        assert_eq!(head.contains(&format!("\r\ntraceparent: {whole}\r\n")), is_shown, "{head}");
        assert_eq!(head.contains("traceparent"), is_shown, "{head}");
        assert_eq!(batch.requests[0].traceparent.is_some(), is_shown, "{batch:?}");
    }
    assert_invariants_of(&[], std::slice::from_mut(&mut envoy), &[], &[]).await;
}

/// The traces of a batch, and that of whoever sends it.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_is_the_parent() {
    let (redis, collector) = (Redis::start().await, Collector::start().await);
    let sidecar = sidecar(&environment(&collector), &redis).await;
    let trace = |number: usize| format!("{number:032x}");
    let sampled = |number: usize, span: &str| format!("00-{}-{span}-01", trace(number));
    let below = "1111111111111111";
    let of = |number: usize| (trace(number), SPAN.to_owned());
    // The header, the requests' traces, and what the span belongs and is linked to.
    let table = [
        // The filter's own: it shows the first.
        (Some(sampled(1, SPAN)), vec![1, 2], Some((1, SPAN)), vec![of(2)]),
        // A proxy has put a span of its own in between.
        (Some(sampled(3, below)), vec![3, 4], Some((3, below)), vec![of(4)]),
        // Somebody else's.
        (Some(sampled(5, below)), vec![6, 7], Some((5, below)), vec![of(6), of(7)]),
        (Some("nonsense".to_owned()), vec![8], Some((8, SPAN)), vec![]),
        (Some(sampled(9, SPAN).replace("-01", "-00")), vec![10], Some((10, SPAN)), vec![]),
        (Some(sampled(11, SPAN).replace("-01", "-00")), vec![], None, vec![]),
        (None, vec![], None, vec![]),
    ];
    for (header, traces, parent, links) in table {
        let mut requests = vec![json!({"checks": [{"policy": "per-tenant", "key": [KEY]}]})];
        for number in &traces {
            let checks = json!([{"policy": "per-tenant", "key": [KEY]}]);
            requests.push(json!({"checks": checks, "traceparent": sampled(*number, SPAN)}));
        }
        let before = collector.spans().len();
        let mut request = Request::post(format!("http://127.0.0.1:{}/v1/check", sidecar.port()));
        if let Some(header) = &header {
            request = request.header("traceparent", header);
        }
        let request = request.body(Body::from(json!({"requests": requests}).to_string())).unwrap();
        let answer = Client::new().send(request).await.unwrap();
        assert_eq!(answer.json()["decisions"].as_array().unwrap().len(), 1 + traces.len(), "{answer:?}");
        let Some((number, span)) = parent else {
            // What comes after it comes alone.
            let marker = trace(900 + collector.spans().len());
            take(&sidecar, &marker).await;
            collector.spans_of(&marker, 2).await;
            assert_eq!(collector.spans().len(), before + 2, "{header:?}");
            continue;
        };
        let spans = collector.spans_of(&trace(number), 2).await;
        let question = spans.iter().find(|told| told.name() == "POST /v1/check").unwrap();
        assert_eq!((question.parent(), question.links()), (span.to_owned(), links), "{header:?} {traces:?}");
    }
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_shows() {
    let (mut redis, collector) = (Redis::start().await, Collector::start().await);
    let mut variables = environment(&collector);
    variables.push(("RUST_LOG", "debug".to_owned()));
    let sidecar = sidecar(&variables, &redis).await;
    redis.kill();
    let request = Request::post(format!("http://127.0.0.1:{}/v1/check/per-tenant/{KEY}", sidecar.port()));
    let request = request.header("traceparent", format!("00-{TRACE}-{SPAN}-01")).body(Body::empty()).unwrap();
    assert_eq!(Client::new().send(request).await.unwrap().status, 503);
    let spans = collector.spans_of(TRACE, 2).await;
    let [script, question] = spans.as_slice() else { panic!("{spans:?}") };
    assert!(script.is_error() && question.is_error(), "{spans:?}");
    assert_eq!(question.name(), "POST /v1/check/{policy}/{key}");
    assert_eq!(question.attribute("http.response.status_code").as_deref(), Some("503"));
    let reason = script.attribute("error.type").unwrap();
    assert!(["unreachable", "not_asked"].contains(&reason.as_str()), "{reason}");
    assert!(!collector.text().contains(KEY));

    // A line of the log that is written below a span, of which it tells nothing.
    let refund = json!({"policy": "per-tenant", "key": [KEY], "charge": 1});
    let request = Request::post(format!("http://127.0.0.1:{}/v1/check", sidecar.port()));
    let request = request.header("traceparent", format!("00-{TRACE}-{SPAN}-01"));
    let request = request.body(Body::from(json!({"requests": [], "refunds": [refund]}).to_string())).unwrap();
    assert!(Client::new().send(request).await.unwrap().is_allowed());
    let log = sidecar.process.log();
    assert!(log.contains("DEBUG sluice::http::batch: leases were not given back"), "{log}");
}
