//! OpenTelemetry's variables.

use tempfile::TempDir;

use super::{KEY, SPAN, TRACE, config, environment, sidecar, take};
use crate::support::{Authority, Collector, Redis, Sidecar, assert_invariants};

/// What the collector wants to see.
const TOKEN: &str = "token-of-the-collector";

#[tokio::test(flavor = "multi_thread")]
async fn names_and_headers_are_the_environments() {
    let (redis, collector) = (Redis::start().await, Collector::start().await);
    let mut variables = environment(&collector);
    variables.push(("OTEL_SERVICE_NAME", "limits".to_owned()));
    variables.push(("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,service.name=other".to_owned()));
    variables.push(("OTEL_EXPORTER_OTLP_HEADERS", format!("authorization=Bearer%20{TOKEN}")));
    variables.push(("RUST_LOG", "trace".to_owned()));
    let sidecar = sidecar(&variables, &redis).await;
    take(&sidecar, TRACE).await;
    collector.spans_of(TRACE, 2).await;
    let resource = collector.resource();
    let told = |name: &str| resource.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    assert_eq!(told("service.name"), Some("limits"), "{resource:?}");
    assert_eq!(told("service.version"), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(told("deployment.environment"), Some("test"));
    assert_eq!(collector.headers()["authorization"], format!("Bearer {TOKEN}"));
    assert_eq!(collector.headers()["content-type"], "application/x-protobuf");
    let log = sidecar.process.log();
    assert!(log.contains("spans are exported"), "{log}");
    assert!(!log.contains(KEY), "{log}");
    assert_invariants(&redis, &mut [], &[log], &[TOKEN]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn samplers_are_obeyed() {
    let redis = Redis::start().await;
    // Whether a question with a sampled trace, and one without any, are recorded.
    for (sampler, argument, traced, others) in [
        ("always_on", "", true, true),
        ("always_off", "", false, false),
        ("traceidratio", "0", false, false),
        ("parentbased_always_on", "", true, true),
        ("parentbased_traceidratio", "0", true, false),
        ("parentbased_always_off", "", true, false),
    ] {
        let collector = Collector::start().await;
        let mut variables = environment(&collector);
        variables.push(("OTEL_TRACES_SAMPLER", sampler.to_owned()));
        variables.push(("OTEL_TRACES_SAMPLER_ARG", argument.to_owned()));
        let mut sidecar = sidecar(&variables, &redis).await;
        take(&sidecar, TRACE).await;
        assert!(sidecar.take("per-tenant", KEY).await.is_allowed());
        sidecar.process.signal(rustix::process::Signal::TERM);
        assert!(sidecar.process.ended().await.success());
        let spans = collector.spans();
        let of_trace = spans.iter().filter(|span| span.trace() == TRACE).count();
        assert_eq!(of_trace, if traced { 2 } else { 0 }, "{sampler}: {spans:?}");
        assert_eq!(spans.len() - of_trace, if others { 2 } else { 0 }, "{sampler}: {spans:?}");
        assert!(spans.iter().filter(|span| span.trace() == TRACE).any(|span| span.parent() == SPAN) == traced);
    }
    assert_invariants(&redis, &mut [], &[], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn switched_off_nobody_is_called() {
    let (redis, collector) = (Redis::start().await, Collector::start().await);
    let tables =
        [vec![], vec![("OTEL_SDK_DISABLED", "true".to_owned())], vec![("OTEL_TRACES_EXPORTER", "none".to_owned())]];
    for switch in tables {
        let mut variables = if switch.is_empty() { Vec::new() } else { environment(&collector) };
        variables.extend(switch);
        let mut sidecar = sidecar(&variables, &redis).await;
        take(&sidecar, TRACE).await;
        sidecar.process.signal(rustix::process::Signal::TERM);
        assert!(sidecar.process.ended().await.success());
        assert!(!sidecar.process.log().contains("spans"), "{}", sidecar.process.log());
    }
    assert_eq!(collector.connections(), 0);
    assert_invariants(&redis, &mut [], &[], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_supported_is_refused_by_name() {
    let redis = Redis::start().await;
    for (name, value, hint) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"),
        ("OTEL_TRACES_SAMPLER", "xray", "parentbased_always_on"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem", "/nowhere/ca.pem"),
    ] {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://127.0.0.1:4318".to_owned());
        let mut sidecar = Sidecar::launch_in(&[endpoint, (name, value.to_owned())], &config(&redis));
        assert!(!sidecar.process.ended().await.success());
        let log = sidecar.process.log();
        assert!(log.starts_with(&format!("sluice: {name}: ")) && log.contains(hint), "{log}");
        assert_eq!(log.lines().count(), 1, "{log}");
    }
    assert_invariants(&redis, &mut [], &[], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_may_want_tls() {
    let (redis, directory) = (Redis::start().await, TempDir::new().unwrap());
    let (good, other) = (Authority::new("collectors"), Authority::new("others"));
    let collector = Collector::start_with_tls(&good.certificate("127.0.0.1"), &directory).await;
    let mut logs = Vec::new();
    for (authority, is_trusted) in [(&other, false), (&good, true)] {
        let file = directory.path().join("ca.pem");
        std::fs::write(&file, &authority.pem).unwrap();
        let mut variables = environment(&collector);
        variables.push(("OTEL_EXPORTER_OTLP_CERTIFICATE", file.to_str().unwrap().to_owned()));
        let mut sidecar = sidecar(&variables, &redis).await;
        take(&sidecar, TRACE).await;
        sidecar.process.signal(rustix::process::Signal::TERM);
        assert!(sidecar.process.ended().await.success());
        assert_eq!(collector.spans().len(), if is_trusted { 2 } else { 0 });
        logs.push(sidecar.process.log());
        assert_eq!(logs.last().unwrap().contains("UnknownIssuer"), !is_trusted, "{logs:?}");
    }
    assert_invariants(&redis, &mut [], &logs, &[]).await;
}
