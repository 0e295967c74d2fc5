//! Answers that are kept for those who are denied again, and how the host comes to know of them.

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::time::Duration;

use serde_json::{Value, json};

use super::{answer, entry, ms, sent, worker_with};
use crate::answer::{Reply, Status};
use crate::config::Config;
use crate::host::fake::{Did, FakeHost};
use crate::metrics::Metric;
use crate::worker::{CallAnswer, Start, TICK, Worker};

/// A worker that remembers denials for long, with these rules.
fn with_rules(rules: &Value) -> Worker {
    let config = json!({"sidecar": {"cluster": "s"}, "denial_cache": {"max_age": "60s"}, "rules": rules});
    Worker::new(Config::parse(config.to_string().as_bytes()).unwrap())
}

/// A denial by `p` of so many ms, with nothing taken any more a second later.
fn denial(retry_after_ms: Option<u64>) -> Value {
    let mut entry = entry(false);
    entry["checks"][0]["retry_after_ms"] = json!(retry_after_ms);
    entry["checks"][0]["reset_ms"] = json!(retry_after_ms.unwrap_or(0) + 1000);
    entry
}

/// Has the current request denied by the sidecar.
fn deny(worker: &mut Worker, host: &FakeHost, answer: CallAnswer) {
    let start = worker.request(host, 1);
    assert!(matches!(start, Start::Wait(_)), "{start:?}");
    worker.wake_up(host);
    let call = host.take().into_iter().find_map(|did| match did {
        Did::Call { token, .. } => Some(token),
        _ => None,
    });
    worker.answered(host, call.unwrap(), Some(answer));
    host.take();
}

/// What the current request is told without asking.
fn told(worker: &mut Worker, host: &FakeHost) -> Reply {
    assert!(matches!(worker.request(host, 2), Start::Stop));
    let reply = host.take().into_iter().find_map(|did| match did {
        Did::Reply(_, reply) => Some(reply),
        _ => None,
    });
    reply.unwrap()
}

fn value<'a>(reply: &'a Reply, name: &str) -> Option<&'a str> {
    reply.headers.iter().find(|(n, _)| *n == name).map(|(_, value)| value.as_str())
}

#[test]
fn what_is_told_again_counts_down() {
    let mut worker = with_rules(&json!([{"checks": [{"policy": "p", "key": [{"header": "x-id"}]}]}]));
    let host = FakeHost::with(&[(":path", b"/"), ("x-id", b"a")]);
    host.now.set(ms(7));
    deny(&mut worker, &host, answer(&[denial(Some(2500))]));
    // The milliseconds each time, the seconds when they are others: never a moment early.
    let table = [(0, 2500, "3", 4), (1, 2499, "3", 4), (1, 2499, "3", 4), (499, 2001, "3", 4), (500, 2000, "2", 3)];
    let more = [(501, 1999, "2", 3), (1499, 1001, "2", 3), (1500, 1000, "1", 2), (2499, 1, "1", 2)];
    for (elapsed, left_ms, retry_after, reset) in table.into_iter().chain(more) {
        host.now.set(ms(7 + elapsed));
        let reply = told(&mut worker, &host);
        assert_eq!(reply.status, Status::Http(429));
        assert_eq!(value(&reply, "retry-after"), Some(retry_after), "after {elapsed} ms");
        assert_eq!(value(&reply, "ratelimit"), Some(format!("\"p\";r=4;t={reset}").as_str()), "after {elapsed} ms");
        let body: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(body["retry_after_ms"], left_ms, "after {elapsed} ms");
        let detail = format!("The limit of policy \"p\" is reached; retry in {retry_after} s.");
        assert_eq!(body["detail"], detail, "after {elapsed} ms");
    }
    host.now.set(ms(7 + 2500));
    deny(&mut worker, &host, answer(&[denial(Some(9000))]));
    assert_eq!(value(&told(&mut worker, &host), "retry-after"), Some("9"), "a later denial is another one");
    host.set_headers(&[(":path", b"/"), ("x-id", b"b")]);
    deny(&mut worker, &host, answer(&[denial(Some(5000))]));
    assert_eq!(value(&told(&mut worker, &host), "retry-after"), Some("5"), "and so is that of another key");
}

#[test]
fn who_wants_another_answer_does_not_get_the_one_that_is_kept() {
    let rule = |path: &str, denied: Value| {
        json!({"match": {"path": {"prefix": path}}, "denied": denied,
            "checks": [{"policy": "p", "key": [{"header": "x-id"}], "cost": {"header": "x-cost", "max": 9}}]})
    };
    let mut worker = with_rules(&json!([
        rule("/a", json!({"body": "wait {retry_after}}"})),
        rule("/b", json!({"status": 503})),
        {"match": {"not": {"headers": {"x-other": {"present": true}}}}, "checks": [{"policy": "p", "key": [{"header": "x-id"}]}]},
    ]));
    let host = FakeHost::default();
    let grpc: (&str, &[u8]) = ("content-type", b"application/grpc");
    let other: (&str, &[u8]) = ("x-other", b"");
    host.set_headers(&[(":path", b"/"), ("x-id", b"a")]);
    deny(&mut worker, &host, answer(&[denial(Some(2500))]));
    // Each twice: made and kept.
    for elapsed in [0, 1] {
        host.now.set(ms(elapsed));
        host.set_headers(&[(":path", b"/"), ("x-id", b"a")]);
        let reply = told(&mut worker, &host);
        assert!(reply.body.ends_with(&format!(",\"retry_after_ms\":{}}}", 2500 - elapsed)), "{}", reply.body);

        host.set_headers(&[(":path", b"/a"), ("x-id", b"a"), other]);
        for _ in 0..2 {
            let reply = told(&mut worker, &host);
            assert_eq!((reply.status, reply.body.as_str()), (Status::Http(429), "wait 3}"));
        }
        host.set_headers(&[(":path", b"/b"), ("x-id", b"a"), other]);
        for _ in 0..2 {
            assert_eq!(told(&mut worker, &host).status, Status::Http(503));
        }
        // Who wants more waits until nothing is taken any more.
        host.set_headers(&[(":path", b"/b"), ("x-id", b"a"), ("x-cost", b"5"), other]);
        assert_eq!(value(&told(&mut worker, &host), "retry-after"), Some("4"));

        host.set_headers(&[(":path", b"/"), ("x-id", b"a"), grpc]);
        for _ in 0..2 {
            let reply = told(&mut worker, &host);
            assert_eq!(reply.status, Status::GrpcResourceExhausted);
            assert_eq!(reply.body, "The limit of policy \"p\" is reached; retry in 3 s.");
        }
    }
}

#[test]
fn who_can_wait_for_ever_is_told_so_again() {
    let mut worker = with_rules(&json!([{"checks": [{"policy": "p", "key": []}]}]));
    let host = FakeHost::with(&[(":path", b"/")]);
    deny(&mut worker, &host, answer(&[denial(None)]));
    for elapsed in [0, 1, 5000] {
        host.now.set(ms(elapsed));
        let reply = told(&mut worker, &host);
        assert_eq!(value(&reply, "retry-after"), None);
        let body: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(body["violated-policies"], json!(["p"]), "the body is whole");
    }
}

#[test]
fn the_tick_counts_what_was_denied_here_and_then_stops() {
    let (mut worker, host) = (worker_with(""), FakeHost::default());
    let _slots = sent(&mut worker, &host, 1);
    worker.answered(&host, 1, Some(answer(&[entry(false)])));
    worker.tick(&host);
    assert_eq!(host.take().last(), Some(&Did::Tick(Duration::ZERO)), "nothing waits");

    let denied_here = |host: &FakeHost| (host.counted(Metric::Denied), host.counted(Metric::DeniedLocally));
    for round in 0..2 {
        for request in 0..3 {
            assert!(matches!(worker.request(&host, 2), Start::Stop));
            let did = host.take();
            assert!(matches!(did.as_slice(), [Did::Reply(..), ticks @ ..] if ticks.len() == usize::from(request == 0)));
            assert_eq!(did.get(1).cloned(), (request == 0).then_some(Did::Tick(TICK)), "once");
        }
        assert_eq!(denied_here(&host), (1 + 3 * round, 3 * round), "not one by one");
        worker.tick(&host);
        assert_eq!(denied_here(&host), (4 + 3 * round, 3 + 3 * round));
        assert_eq!(host.take(), [Did::Tick(Duration::ZERO)], "there is nothing more to count");
    }
    // A worker that ends has told everything.
    assert!(matches!(worker.request(&host, 2), Start::Stop));
    worker.stop(&host);
    assert_eq!(denied_here(&host), (8, 7));
}

#[test]
fn the_tick_goes_on_for_who_waits() {
    let (mut worker, host) = (worker_with(""), FakeHost::default());
    let _slots = sent(&mut worker, &host, 1);
    worker.answered(&host, 1, Some(answer(&[entry(false)])));
    host.take();
    assert!(matches!(worker.request(&host, 2), Start::Stop));
    host.set_headers(&[(":path", b"/"), ("x-id", b"b")]);
    let start = worker.request(&host, 3);
    worker.wake_up(&host);
    host.take();
    worker.tick(&host);
    assert!(host.take().is_empty());
    assert_eq!(host.counted(Metric::DeniedLocally), 1);
    drop(start);
}
