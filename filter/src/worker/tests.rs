#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::time::Duration;

use serde_json::{Value, json};

use super::{CallAnswer, Start, TICK, Worker};
use crate::answer::Status;
use crate::batch::{SlotRef, State};
use crate::config::Config;
use crate::host::HostError;
use crate::host::fake::{Did, FakeHost};
use crate::metrics::Metric;

mod answers;
mod asked;
mod leases;
mod repeated;
mod traces;

fn worker_with(more: &str) -> Worker {
    let config = format!(
        r#"{{"sidecar":{{"cluster":"sluice"}},{more}
        "rules":[{{"match":{{"path":{{"exact":"/free"}}}},"exempt":true}},
            {{"checks":[{{"policy":"p","key":[{{"header":"x-id"}}]}}]}}]}}"#
    );
    Worker::new(Config::parse(config.as_bytes()).unwrap())
}

fn worker() -> Worker {
    worker_with("")
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Starts a request that has to wait.
fn wait(worker: &mut Worker, host: &FakeHost, context: u32) -> SlotRef {
    host.set_headers(&[(":path", b"/"), ("x-id", b"a")]);
    match worker.request(host, context) {
        Start::Wait(slot) => slot,
        other => panic!("{other:?}"),
    }
}

/// Starts requests 1 to `count`, and sends them.
fn sent(worker: &mut Worker, host: &FakeHost, count: u32) -> Vec<SlotRef> {
    let slots = (1..=count).map(|context| wait(worker, host, context)).collect();
    worker.wake_up(host);
    host.take();
    slots
}

fn entry(allowed: bool) -> Value {
    json!({"allowed": allowed, "checks": [{"policy": "p", "allowed": allowed, "limit": 10, "period_ms": 1000,
        "remaining": 4, "reset_ms": 600, "retry_after_ms": if allowed { 0 } else { 1200 }}]})
}

fn answer(entries: &[Value]) -> CallAnswer {
    let body = json!({"decisions": entries}).to_string().into_bytes();
    CallAnswer { status: 200, body }
}

fn statuses(did: &[Did]) -> Vec<(u32, Status)> {
    did.iter()
        .map(|did| match did {
            Did::Reply(context, reply) => (*context, reply.status),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_turn_is_woken_once_and_sent_once() {
    let (mut worker, host) = (worker(), FakeHost::default());
    let slots: Vec<_> = (1..=3).map(|context| wait(&mut worker, &host, context)).collect();
    assert_eq!(host.take(), [Did::Wake, Did::Tick(TICK)]);

    worker.wake_up(&host);
    let one = r#"{"checks":[{"policy":"p","key":["a"]}]}"#;
    let body = format!(r#"{{"requests":[{one},{one},{one}]}}"#);
    assert_eq!(host.take(), [Did::Drain, Did::Call { token: 1, body }]);
    assert_eq!(host.counted(Metric::Pending), 3);
    assert_eq!(host.counted(Metric::Callouts), 1);
    assert_eq!(host.counted(Metric::Checks), 3);

    worker.wake_up(&host); // a second wake-up has nothing to send
    assert_eq!(host.take(), [Did::Drain]);

    let slot = wait(&mut worker, &host, 4);
    assert_eq!(host.take(), [Did::Wake], "the next turn has its own");
    drop((slots, slot));
}

#[test]
fn a_check_left_out_leaves_the_others() {
    let config = json!({"sidecar": {"cluster": "s"}, "rules": [
        {"denied": {"status": 503}, "checks": [{"policy": "a", "key": [{"header": "x-a"}], "on_missing": "skip"}]},
        {"checks": [{"policy": "p", "key": []}]},
    ]});
    let mut worker = Worker::new(Config::parse(config.to_string().as_bytes()).unwrap());
    let host = FakeHost::with(&[(":path", b"/")]);
    let start = worker.request(&host, 1);
    worker.wake_up(&host);
    let body = r#"{"requests":[{"checks":[{"policy":"p","key":[]}]}]}"#.to_owned();
    assert_eq!(host.take().last(), Some(&Did::Call { token: 1, body }));
    worker.answered(&host, 1, Some(answer(&[entry(false)])));
    assert_eq!(statuses(&host.take()), [(1, Status::Http(429))], "not with the answer of the check left out");
    drop(start);
}

#[test]
fn each_request_gets_its_own_decision() {
    let (mut worker, host) = (worker(), FakeHost::default());
    let slots = sent(&mut worker, &host, 3);
    worker.answered(&host, 1, Some(answer(&[entry(true), entry(false), entry(true)])));
    let did = host.take();
    assert_eq!(did.len(), 3);
    assert_eq!((&did[0], &did[2]), (&Did::Resume(1), &Did::Resume(3)));
    assert_eq!(statuses(&did[1..2]), [(2, Status::Http(429))]);
    let fields = vec![("ratelimit-policy", r#""p";q=10;w=1"#.to_owned()), ("ratelimit", r#""p";r=4;t=1"#.to_owned())];
    assert_eq!(slots[0].borrow().state, State::Resumed(fields));
    assert_eq!(slots[1].borrow().state, State::Answered, "its fields are in the reply");
    assert_eq!(host.counted(Metric::Allowed), 2);
    assert_eq!(host.counted(Metric::Denied), 1);
    assert_eq!(host.counted(Metric::Pending), 0);

    worker.answered(&host, 1, Some(answer(&[entry(true), entry(true), entry(true)])));
    assert!(host.take().is_empty(), "nobody is answered twice");
}

#[test]
fn unusable_answers_fail_the_whole_batch() {
    let bad = |status, body: &str| Some(CallAnswer { status, body: body.as_bytes().to_vec() });
    let no_checks = json!({"allowed": true, "checks": []});
    let good_but_503 = Some(CallAnswer { status: 503, ..answer(&[entry(true), entry(true)]) });
    let answers = [
        None,
        good_but_503,
        bad(503, ""),
        bad(504, "upstream request timeout"),
        bad(204, ""),
        bad(200, ""),
        bad(200, "{\"decisions\":["),
        bad(200, "{\"decisions\":[{},{}]}"),
        bad(200, "\u{0}"),
        Some(answer(&[entry(true)])),
        Some(answer(&[entry(true), entry(true), entry(true)])),
        Some(answer(&[entry(true), no_checks])),
    ];
    for answer in answers {
        let (mut worker, host) = (worker(), FakeHost::default());
        let slots = sent(&mut worker, &host, 2);
        worker.answered(&host, 1, answer.clone());
        assert_eq!(host.take(), [Did::Resume(1), Did::Resume(2)], "{answer:?}");
        assert_eq!(slots[0].borrow().state, State::Resumed(vec![]));
        assert_eq!(host.counted(Metric::FailedOpen), 2);
        assert_eq!(host.counted(Metric::CalloutsFailed), 1);
        assert_eq!(host.counted(Metric::Pending), 0);
        assert_eq!(host.warnings.borrow().len(), 1, "{answer:?}");

        let (mut worker, host) = (worker_with(r#""on_error":"deny","#), FakeHost::default());
        let _slots = sent(&mut worker, &host, 2);
        worker.answered(&host, 1, answer);
        assert_eq!(statuses(&host.take()), [(1, Status::Http(503)), (2, Status::Http(503))]);
        assert_eq!(host.counted(Metric::FailedClosed), 2);
        assert_eq!(host.counted(Metric::Pending), 0);
    }
}

#[test]
fn a_refused_request_does_not_spoil_its_batch() {
    let (mut worker, host) = (worker_with(r#""on_error":"deny","#), FakeHost::default());
    let _slots = sent(&mut worker, &host, 3);
    let refused = json!({"error": {"title": "unknown policy", "detail": "there is no policy \"p\""}});
    worker.answered(&host, 1, Some(answer(&[entry(true), refused, entry(true)])));
    let did = host.take();
    assert_eq!((&did[0], &did[2]), (&Did::Resume(1), &Did::Resume(3)));
    assert_eq!(statuses(&did[1..2]), [(2, Status::Http(503))]);
    assert_eq!(host.counted(Metric::CalloutsFailed), 0);
    assert!(host.warnings.borrow()[0].contains("unknown policy"));
}

#[test]
fn a_callout_that_fails_at_once_fails_its_requests_at_once() {
    for error in [HostError::Unknown, HostError::Failed] {
        let (mut worker, host) = (worker(), FakeHost::default());
        host.call_error.set(Some(error));
        let _slots = [wait(&mut worker, &host, 1), wait(&mut worker, &host, 2)];
        host.take();
        worker.wake_up(&host);
        assert_eq!(host.take(), [Did::Drain, Did::Resume(1), Did::Resume(2)]);
        assert_eq!(host.counted(Metric::FailedOpen), 2);
        assert_eq!(host.counted(Metric::Callouts), 1);
        assert_eq!(host.counted(Metric::CalloutsFailed), 1);
        assert_eq!(host.counted(Metric::Checks), 0);
        assert_eq!(host.counted(Metric::Pending), 0);
        assert!(host.warnings.borrow()[0].contains("cluster \"sluice\""));
    }
}

#[test]
fn a_request_that_wakes_nobody_fails_at_once() {
    let host = FakeHost::with(&[(":path", b"/"), ("x-id", b"a")]);
    host.no_queue.set(true);
    assert!(matches!(worker().request(&host, 1), Start::Pass));
    assert!(host.take().is_empty(), "it was never paused: nothing to resume");
    assert_eq!(host.counted(Metric::FailedOpen), 1);
    assert!(matches!(worker_with(r#""on_error":"deny","#).request(&host, 0), Start::Stop));
    assert_eq!(statuses(&host.take()), [(0, Status::Http(503))]);
    assert_eq!(host.counted(Metric::FailedClosed), 1);
    assert_eq!(host.counted(Metric::Pending), 0);
}

#[test]
fn a_deadline_ends_every_wait_and_late_answers_are_ignored() {
    let (mut worker, host) = (worker(), FakeHost::default());
    host.now.set(ms(1000));
    let _slots = sent(&mut worker, &host, 2);
    host.now.set(ms(1049));
    worker.tick(&host);
    assert!(host.take().is_empty());
    host.now.set(ms(1050));
    worker.tick(&host);
    assert_eq!(host.take(), [Did::Resume(1), Did::Resume(2), Did::Tick(Duration::ZERO)]);
    assert_eq!(host.counted(Metric::FailedOpen), 2);
    assert_eq!(host.counted(Metric::CalloutsFailed), 1);
    assert_eq!(host.counted(Metric::Pending), 0);
    worker.answered(&host, 1, Some(answer(&[entry(false), entry(false)])));
    assert!(host.take().is_empty());
    assert_eq!(host.counted(Metric::Denied), 0);
}

#[test]
fn a_lost_wake_up_costs_a_tick() {
    let (mut worker, host) = (worker(), FakeHost::default());
    let _slot = wait(&mut worker, &host, 1);
    host.take();
    worker.tick(&host);
    assert!(matches!(host.take().as_slice(), [Did::Call { token: 1, .. }]));
    worker.answered(&host, 1, Some(answer(&[entry(true)])));
    assert_eq!(host.take(), [Did::Resume(1)]);
}

#[test]
fn the_tick_runs_only_while_somebody_waits() {
    let (mut worker, host) = (worker(), FakeHost::default());
    let _slots = sent(&mut worker, &host, 1);
    worker.tick(&host);
    assert!(host.take().is_empty(), "still waiting");
    worker.answered(&host, 1, Some(answer(&[entry(true)])));
    host.take();
    let _second = wait(&mut worker, &host, 2);
    assert_eq!(host.take(), [Did::Wake], "the tick still runs");
    worker.wake_up(&host);
    worker.answered(&host, 2, Some(answer(&[entry(true)])));
    host.take();
    worker.tick(&host);
    assert_eq!(host.take(), [Did::Tick(Duration::ZERO)]);
    let _third = wait(&mut worker, &host, 3);
    assert_eq!(host.take(), [Did::Wake, Did::Tick(TICK)]);
}

#[test]
fn requests_that_are_gone_are_neither_sent_nor_answered() {
    let (mut worker, host) = (worker(), FakeHost::default());
    let first = wait(&mut worker, &host, 1);
    let second = wait(&mut worker, &host, 2);
    worker.gone(&host, &first);
    drop(first);
    worker.wake_up(&host);
    assert_eq!(host.counted(Metric::Checks), 1);
    assert_eq!(host.counted(Metric::Pending), 1);
    host.take();

    worker.gone(&host, &second);
    worker.gone(&host, &second); // counted once
    drop(second);
    assert_eq!(host.counted(Metric::Pending), 0, "without waiting for a tick");
    worker.answered(&host, 1, Some(answer(&[entry(false)])));
    assert!(host.take().is_empty());
    assert_eq!(host.counted(Metric::Pending), 0);
    assert_eq!(host.counted(Metric::Denied), 0);
}

#[test]
fn a_request_that_the_host_has_forgotten_is_left_alone() {
    let (mut worker, host) = (worker(), FakeHost::default());
    let _slots = sent(&mut worker, &host, 3);
    host.gone.borrow_mut().extend([1, 2]);
    worker.answered(&host, 1, Some(answer(&[entry(true), entry(false), entry(true)])));
    assert_eq!(host.take(), [Did::Resume(3)]);
    assert_eq!(host.counted(Metric::Pending), 0);
    assert_eq!(host.counted(Metric::Allowed), 1);
}

#[test]
fn requests_without_checks_pass_uncounted() {
    let (mut worker, host) = (worker(), FakeHost::with(&[(":path", b"/free?x")]));
    assert!(matches!(worker.request(&host, 1), Start::Pass));
    assert!(host.take().is_empty());
    assert!(host.counts.borrow().is_empty());
}

#[test]
fn a_missing_key_part_can_deny_without_asking() {
    let config = br#"{"sidecar":{"cluster":"s"},"rules":[
        {"checks":[{"policy":"p","key":[{"header":"x-id"}],"on_missing":"deny"}]}]}"#;
    let mut worker = Worker::new(Config::parse(config).unwrap());
    let host = FakeHost::with(&[(":path", b"/")]);
    assert!(matches!(worker.request(&host, 0), Start::Stop));
    assert_eq!(statuses(&host.take()[..1]), [(0, Status::Http(429))]);
    worker.tick(&host);
    host.take();
    assert_eq!(host.counted(Metric::Denied), 1);
    host.set_headers(&[(":path", b"/"), ("content-type", b"application/grpc")]);
    assert!(matches!(worker.request(&host, 0), Start::Stop));
    assert_eq!(statuses(&host.take()[..1]), [(0, Status::GrpcResourceExhausted)]);
}

#[test]
fn grpc_clients_get_grpc_statuses() {
    let (mut worker, host) = (worker_with(r#""on_error":"deny","#), FakeHost::default());
    host.set_headers(&[(":path", b"/s/m"), ("x-id", b"a"), ("content-type", b"application/grpc+proto")]);
    for (context, answer) in [(1, None), (2, Some(answer(&[entry(false)])))] {
        let start = worker.request(&host, context);
        worker.wake_up(&host);
        host.take();
        worker.answered(&host, context, answer);
        drop(start);
        let wanted = [Status::GrpcUnavailable, Status::GrpcResourceExhausted][context as usize - 1];
        assert_eq!(statuses(&host.take()), [(context, wanted)]);
    }
}

#[test]
fn a_failure_is_logged_once_and_then_every_ten_seconds() {
    let (mut worker, host) = (worker(), FakeHost::default());
    for (token, now) in [(1, 0), (2, 1), (3, 9_999), (4, 10_000), (5, 10_001)] {
        host.now.set(ms(now));
        let _slots = sent(&mut worker, &host, 1);
        worker.answered(&host, token, None);
    }
    let warnings = host.warnings.borrow().clone();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[1].contains("(2 more"), "{warnings:?}");
    host.call_error.set(Some(HostError::Unknown));
    let _slots = sent(&mut worker, &host, 1);
    assert_eq!(host.warnings.borrow().len(), 3, "another kind has its own time");
}

#[test]
fn logs_hold_no_keys() {
    let (mut worker, host) = (worker(), FakeHost::default());
    host.set_headers(&[(":path", b"/"), ("x-id", b"s3cret")]);
    let start = worker.request(&host, 1);
    worker.wake_up(&host);
    let body = br#"{"decisions":["s3cret"]}"#.to_vec();
    worker.answered(&host, 1, Some(CallAnswer { status: 200, body }));
    drop(start);
    let warnings = host.warnings.borrow();
    assert!(!warnings.is_empty() && warnings.iter().all(|line| !line.contains("s3cret")), "{warnings:?}");
}

#[test]
fn callouts_show_the_token_and_logs_do_not() {
    let config = br#"{"sidecar":{"cluster":"s","token_env":"T"},"rules":[{"checks":[{"policy":"p","key":[]}]}]}"#;
    let mut config = Config::parse(config).unwrap();
    config.read_secrets(|_| Some("a-token-of-24-characters".to_owned())).unwrap();
    let (mut worker, host) = (Worker::new(config), FakeHost::default());
    let slots = sent(&mut worker, &host, 1);
    assert_eq!(host.authorization.borrow().as_deref(), Some("Bearer a-token-of-24-characters"));
    worker.answered(&host, 1, Some(CallAnswer { status: 401, body: Vec::new() }));
    assert!(!matches!(slots[0].borrow().state, State::Waiting));
    assert_eq!((host.counted(Metric::FailedOpen), host.counted(Metric::CalloutsFailed)), (1, 1));
    let warnings = host.warnings.borrow().join("\n");
    assert!(warnings.contains("sidecar.token_env") && !warnings.contains("a-token"), "{warnings}");
    assert!(!format!("{worker:?}").contains("a-token"));
}

#[test]
fn without_a_token_none_is_shown() {
    let (mut worker, host) = (worker(), FakeHost::default());
    sent(&mut worker, &host, 1);
    assert_eq!(*host.authorization.borrow(), None);
}
