//! What clients, upstreams and access logs are told, and what is told without asking.

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use wasm_bindgen_test::wasm_bindgen_test as test;

use serde_json::json;

use super::{answer, entry, ms, sent, wait, worker, worker_with};
use crate::answer::{Reply, Status};
use crate::config::Config;
use crate::host::fake::{Did, FakeHost};
use crate::metrics::Metric;
use crate::worker::{CallAnswer, Start, Worker};

fn replies(host: &FakeHost) -> Vec<Reply> {
    let replies = host.take().into_iter().filter_map(|did| match did {
        Did::Reply(_, reply) => Some(reply),
        _ => None,
    });
    replies.collect()
}

fn value<'a>(reply: &'a Reply, name: &str) -> Option<&'a str> {
    reply.headers.iter().find(|(n, _)| *n == name).map(|(_, value)| value.as_str())
}

/// Denies a first request; the denial says to wait 1200 ms.
fn deny(worker: &mut Worker, host: &FakeHost) {
    let _slots = sent(worker, host, 1);
    worker.answered(host, 1, Some(answer(&[entry(false)])));
    host.take();
}

#[test]
fn a_denial_is_repeated_without_asking() {
    let (mut worker, host) = (worker_with(r#""denial_cache":{"max_age":"10s"},"#), FakeHost::default());
    deny(&mut worker, &host);
    host.now.set(ms(250));
    host.context.set(2);
    assert!(matches!(worker.request(&host, 2), Start::Stop));
    let reply = replies(&host).remove(0);
    assert_eq!(reply.status, Status::Http(429));
    assert_eq!(value(&reply, "retry-after"), Some("1"));
    assert!(reply.body.contains("\"retry_after_ms\":950"), "{}", reply.body);
    assert_eq!(value(&reply, "ratelimit"), Some(r#""p";r=4;t=1"#));
    assert_eq!(host.property_of(2, "sluice.decision").as_deref(), Some("denied"));
    assert_eq!(host.property_of(2, "sluice.policy").as_deref(), Some("p"));
    worker.tick(&host);
    assert_eq!(host.counted(Metric::DeniedLocally), 1);
    assert_eq!(host.counted(Metric::Denied), 2);
    assert_eq!((host.counted(Metric::Checks), host.counted(Metric::Pending)), (1, 0));

    host.set_headers(&[(":path", b"/"), ("x-id", b"other")]);
    assert!(matches!(worker.request(&host, 3), Start::Wait(_)), "another key is asked about");
    host.set_headers(&[(":path", b"/"), ("x-id", b"a")]);
    host.now.set(ms(1200));
    assert!(matches!(worker.request(&host, 4), Start::Wait(_)), "so is who waited as told");
}

#[test]
fn the_cache_can_be_off_and_counts_from_when_the_answer_came() {
    let (mut worker, host) = (worker_with(r#""denial_cache":{"max_age":0},"#), FakeHost::default());
    deny(&mut worker, &host);
    wait(&mut worker, &host, 2);

    let (mut worker, host) = (worker_with(""), FakeHost::default());
    let _slots = sent(&mut worker, &host, 1);
    host.now.set(ms(40));
    worker.answered(&host, 1, Some(answer(&[entry(false)])));
    host.now.set(ms(1039));
    assert!(matches!(worker.request(&host, 2), Start::Stop));
    host.now.set(ms(1040)); // a second is the most by default
    wait(&mut worker, &host, 3);
}

#[test]
fn of_several_checks_the_one_that_denied_denies_again_with_its_own_answer() {
    let config = json!({
        "sidecar": {"cluster": "s"},
        "denied": {"body": "{policy}: {retry_after}", "headers": {"x-why": "general"}},
        "rules": [
            {"checks": [{"policy": "all", "key": []}]},
            {"match": {"path": {"prefix": "/api"}}, "checks": [{"policy": "api", "key": [{"header": "x-id"}], "cost": 2}],
             "denied": {"status": 503, "body": "API {policy}", "content_type": "text/html"}},
            {"match": {"path": {"prefix": "/key"}},
             "checks": [{"policy": "key", "key": [{"header": "x-key"}], "on_missing": "deny"}],
             "denied": {"body": "no key"}},
        ],
    });
    let mut worker = Worker::new(Config::parse(config.to_string().as_bytes()).unwrap());
    let host = FakeHost::with(&[(":path", b"/api"), ("x-id", b"a")]);
    let verdict = |policy: &str, allowed: bool| {
        json!({"policy": policy, "allowed": allowed, "limit": 1, "period_ms": 1000, "remaining": 0, "reset_ms": 900,
            "retry_after_ms": if allowed { 0 } else { 900 }})
    };
    let decide = |checks: &[_]| {
        let body = json!({"decisions": [{"allowed": false, "checks": checks}]}).to_string().into_bytes();
        Some(CallAnswer { status: 200, body })
    };
    let first = worker.request(&host, 1);
    worker.wake_up(&host);
    worker.answered(&host, 1, decide(&[verdict("all", true), verdict("api", false)]));
    assert!(matches!(worker.request(&host, 2), Start::Stop));
    drop(first);
    let answers = replies(&host);
    assert_eq!(answers.len(), 2);
    for reply in answers {
        assert_eq!((reply.status, reply.body.as_str()), (Status::Http(503), "API api"));
        assert_eq!(value(&reply, "content-type"), Some("text/html"));
        assert!(reply.custom.is_empty(), "a rule's answer stands instead of the general one");
    }

    // What did not deny is asked about, and denies with the general answer.
    host.set_headers(&[(":path", b"/")]);
    let second = worker.request(&host, 3);
    assert!(matches!(second, Start::Wait(_)));
    worker.wake_up(&host);
    worker.answered(&host, 2, decide(&[verdict("all", false)]));
    let reply = replies(&host).remove(0);
    assert_eq!((reply.status, reply.body.as_str()), (Status::Http(429), "all: 1"));
    assert_eq!(reply.custom, [("x-why".to_owned(), "general".to_owned())]);

    host.set_headers(&[(":path", b"/key")]);
    assert!(matches!(worker.request(&host, 4), Start::Stop));
    assert_eq!(replies(&host).remove(0).body, "no key");
}

#[test]
fn preflights_pass_unless_they_are_to_be_checked() {
    let preflight: [(&str, &[u8]); 5] = [
        (":method", b"OPTIONS"),
        (":path", b"/"),
        ("origin", b"https://a.example"),
        ("access-control-request-method", b"PUT"),
        ("x-id", b"a"),
    ];
    let host = FakeHost::with(&preflight);
    assert!(matches!(worker().request(&host, 1), Start::Pass));
    assert!(host.take().is_empty() && host.counts.borrow().is_empty());
    let checked = r#""cors_preflight":"check","#;
    assert!(matches!(worker_with(checked).request(&host, 1), Start::Wait(_)));
    // Each of the three makes it one.
    host.set_headers(&[&[(":method", b"PUT".as_slice())], &preflight[1..]].concat());
    assert!(matches!(worker().request(&host, 1), Start::Wait(_)));
    for without in [2, 3] {
        let mut headers = preflight.to_vec();
        headers.remove(without);
        host.set_headers(&headers);
        assert!(matches!(worker().request(&host, 1), Start::Wait(_)), "without {:?}", preflight[without]);
    }
}

#[test]
fn copies_of_our_headers_are_removed_and_ours_put_on() {
    let spoofed: [(&str, &[u8]); 7] = [
        (":path", b"/free"),
        ("x-sluice-policy", b"p"),
        ("x-sluice-policy", b"\xff"),
        ("x-ratelimit-limit", b"1"),
        ("ratelimit", b""),
        ("x-envoy-ratelimited", b"true"),
        ("x-id", b"a"),
    ];
    let removed = ["x-sluice-policy", "x-ratelimit-limit", "ratelimit", "x-envoy-ratelimited"];
    let host = FakeHost::with(&spoofed);
    assert!(matches!(worker().request(&host, 1), Start::Pass));
    assert_eq!(*host.removed.borrow(), removed, "also where no rule applies");

    // Another instance was there before: what stands there is its word.
    let host = FakeHost::with(&spoofed);
    host.properties.borrow_mut().insert((0, "sluice.decision".to_owned()), "allowed".to_owned());
    worker().request(&host, 0);
    assert!(host.removed.borrow().is_empty());

    for (more, put) in [("", false), (r#""forward_headers":true,"#, true)] {
        let (mut worker, host) = (worker_with(more), FakeHost::default());
        let _slots = sent(&mut worker, &host, 2);
        worker.answered(&host, 1, Some(answer(&[entry(true), entry(false)])));
        let wanted = [(1, "x-sluice-policy", "p"), (1, "x-sluice-remaining", "4")];
        let wanted = wanted.map(|(context, name, value)| (context, name.to_owned(), value.to_owned()));
        assert_eq!(*host.put.borrow(), if put { wanted.as_slice() } else { &[] });
    }
}

#[test]
fn access_logs_can_tell_how_a_request_ended() {
    let (mut worker, host) = (worker(), FakeHost::default());
    let _slots = sent(&mut worker, &host, 3);
    let refused = json!({"error": {"title": "t", "detail": "d"}});
    worker.answered(&host, 1, Some(answer(&[entry(true), entry(false), refused.clone()])));
    let told = |host: &FakeHost, context| {
        ["sluice.decision", "sluice.policy"].map(|name| host.property_of(context, name).unwrap_or_default())
    };
    assert_eq!(told(&host, 1), ["allowed", ""]);
    assert_eq!(told(&host, 2), ["denied", "p"]);
    assert_eq!(told(&host, 3), ["failed_open", ""]);
    let (mut worker, host) = (worker_with(r#""on_error":"deny","#), FakeHost::default());
    let _slots = sent(&mut worker, &host, 1);
    worker.answered(&host, 1, Some(answer(&[refused])));
    assert_eq!(told(&host, 1), ["failed_closed", ""]);
    // Nor does one that never waited end without a word.
    host.no_queue.set(true);
    host.context.set(2);
    assert!(matches!(worker.request(&host, 2), Start::Stop));
    assert_eq!(told(&host, 2), ["failed_closed", ""]);
}
