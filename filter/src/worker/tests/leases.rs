//! What is decided by leases, and what becomes of them.

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::time::Duration;

use serde_json::{Value, json};

use super::{answer, entry, ms, wait, worker, worker_with};
use crate::batch::{MAX_CHECKS, State};
use crate::headers::Field;
use crate::host::fake::{Did, FakeHost};
use crate::leases::BUSY;
use crate::metrics::Metric;
use crate::worker::{CallAnswer, Start, Worker};

const TTL: u64 = 200;

/// An entry that leases.
fn granted(granted: u64) -> Value {
    let mut entry = entry(true);
    entry["checks"][0]["lease"] = json!({"granted": granted, "ttl_ms": TTL, "charge": 77});
    entry
}

/// The body of the last callout, and its token.
fn last_call(host: &FakeHost) -> (u32, Value) {
    let mut calls = host.take().into_iter().filter_map(|did| match did {
        Did::Call { token, body } => Some((token, serde_json::from_str(&body).unwrap())),
        _ => None,
    });
    calls.next_back().expect("no callout")
}

/// Sends what waits, and answers it.
fn answered(worker: &mut Worker, host: &FakeHost, answer: CallAnswer) {
    worker.wake_up(host);
    let (token, _) = last_call(host);
    worker.answered(host, token, Some(answer));
    host.take();
}

/// Has the worker know that `p` leases and that its key is busy, and returns what the next request asks for.
fn ask(worker: &mut Worker, host: &FakeHost) -> (u32, crate::batch::SlotRef, Value) {
    for _ in 0..=BUSY {
        let _slot = wait(worker, host, 1);
        answered(worker, host, answer(&[granted(0)]));
    }
    let slot = wait(worker, host, 2);
    worker.wake_up(host);
    let (token, body) = last_call(host);
    (token, slot, body)
}

/// Leases so many tokens at once.
fn lease(worker: &mut Worker, host: &FakeHost, tokens: u64) {
    let (token, _slot, _) = ask(worker, host);
    worker.answered(host, token, Some(answer(&[granted(tokens)])));
    host.take();
}

/// The header fields of a request that is decided at once.
fn fields(worker: &mut Worker, host: &FakeHost, context: u32) -> Option<Vec<Field>> {
    host.set_headers(&[(":path", b"/"), ("x-id", b"a")]);
    host.context.set(context);
    match worker.request(host, context) {
        Start::Go(fields) => Some(fields),
        _ => None,
    }
}

fn counted(host: &FakeHost) -> [i64; 4] {
    [Metric::Leased, Metric::LeaseSpent, Metric::LeaseExpired, Metric::LeaseRefunded].map(|metric| host.counted(metric))
}

#[test]
fn a_busy_key_asks_ahead_once_and_is_then_decided_here() {
    let (mut worker, host) = (worker_with(r#""forward_headers":true,"#), FakeHost::default());
    let (token, first, body) = ask(&mut worker, &host);
    let wanted = &body["requests"][0]["checks"][0];
    assert!(wanted["lease"].as_u64().is_some_and(|wanted| wanted > 0), "{body}");
    let second = wait(&mut worker, &host, 3);
    worker.wake_up(&host);
    let (next, body) = last_call(&host);
    assert!(body["requests"][0]["checks"][0].get("lease").is_none(), "a question is on its way: {body}");

    host.now.set(ms(30));
    worker.answered(&host, token, Some(answer(&[granted(2)])));
    worker.answered(&host, next, Some(answer(&[granted(0)])));
    let told = |remaining, reset| {
        let limit = format!(r#""p";r={remaining};t={reset}"#);
        vec![("ratelimit-policy", r#""p";q=10;w=1"#.to_owned()), ("ratelimit", limit)]
    };
    assert_eq!(first.borrow().state, State::Resumed(told(4 + 2, 1)));
    assert_eq!(second.borrow().state, State::Resumed(told(4 + 2, 1)));
    host.take();

    assert_eq!(fields(&mut worker, &host, 10), Some(told(5, 1)));
    host.now.set(ms(TTL - 1));
    assert_eq!(fields(&mut worker, &host, 11), Some(told(4, 1)));
    assert!(host.take().is_empty(), "neither a wake-up nor a callout, and nothing to resume");
    assert_eq!(host.property_of(11, "sluice.decision").as_deref(), Some("allowed"));
    let forwarded: Vec<_> = host.put.borrow().iter().filter(|(context, ..)| *context == 11).cloned().collect();
    assert_eq!(forwarded.len(), 2);
    assert_eq!(forwarded[1], (11, "x-sluice-remaining".to_owned(), "4".to_owned()));

    assert_eq!(fields(&mut worker, &host, 12), None, "there is no more");
    let allowed = host.counted(Metric::Allowed);
    worker.tick(&host);
    assert_eq!((host.counted(Metric::Allowed), host.counted(Metric::AllowedLocally)), (allowed + 2, 2));
    assert_eq!(counted(&host), [2, 2, 0, 0]);
}

#[test]
fn what_is_not_spent_goes_back_with_the_next_batch() {
    let (mut worker, host) = (worker(), FakeHost::default());
    lease(&mut worker, &host, 5);
    assert!(fields(&mut worker, &host, 3).is_some());
    host.now.set(ms(TTL));
    assert_eq!(fields(&mut worker, &host, 4), None, "its time is over, whether or not somebody has looked");
    host.now.set(ms(TTL + 10));
    worker.tick(&host);
    host.take();
    let _slot = wait(&mut worker, &host, 5);
    worker.wake_up(&host);
    let (_, body) = last_call(&host);
    assert_eq!(body["refunds"], json!([{"policy": "p", "key": ["a"], "cost": 4, "charge": 77}]));
    assert_eq!(body["requests"].as_array().map(Vec::len), Some(1));
    assert_eq!(counted(&host), [5, 1, 4, 4]);
    let _slot = wait(&mut worker, &host, 6);
    worker.wake_up(&host);
    assert!(last_call(&host).1.get("refunds").is_none(), "once");
}

#[test]
fn without_a_batch_the_tick_gives_back_and_then_stops() {
    let (mut worker, host) = (worker(), FakeHost::default());
    lease(&mut worker, &host, 5);
    worker.tick(&host);
    assert!(host.take().is_empty(), "it goes on as long as something is leased");
    host.now.set(ms(TTL));
    worker.tick(&host);
    assert!(host.take().is_empty(), "a batch may come");
    host.now.set(ms(TTL + 10));
    worker.tick(&host);
    let did = host.take();
    let body = r#"{"requests":[],"refunds":[{"policy":"p","key":["a"],"cost":5,"charge":77}]}"#.to_owned();
    let [Did::Call { token, body: sent }] = did.as_slice() else { panic!("{did:?}") };
    assert_eq!(*sent, body);
    assert_eq!(counted(&host), [5, 0, 5, 5]);
    worker.tick(&host);
    assert!(host.take().is_empty(), "its answer is waited for");
    worker.answered(&host, *token, Some(answer(&[])));
    worker.tick(&host);
    assert_eq!(host.take(), [Did::Tick(Duration::ZERO)]);
    assert_eq!(host.counted(Metric::CalloutsFailed), 0);
    assert!(host.warnings.borrow().is_empty());
}

#[test]
fn the_first_of_several_callouts_gives_back() {
    let (mut worker, host) = (worker(), FakeHost::default());
    lease(&mut worker, &host, 5);
    host.now.set(ms(TTL));
    worker.tick(&host);
    let slots: Vec<_> = (0..=MAX_CHECKS).map(|_| wait(&mut worker, &host, 5)).collect();
    host.take();
    worker.wake_up(&host);
    let did = host.take();
    let gives_back = |did: &Did| matches!(did, Did::Call { body, .. } if body.contains("refunds"));
    assert_eq!(did.iter().map(gives_back).collect::<Vec<_>>(), [false, true, false], "after the wake-up");
    assert_eq!(counted(&host), [5, 0, 5, 5]);
    drop(slots);
}

#[test]
fn a_refund_that_fails_is_not_sent_again() {
    let late = |worker: &mut Worker, host: &FakeHost, _: u32| {
        host.now.set(ms(TTL + 10 + 50));
        worker.tick(host);
    };
    let broken = |worker: &mut Worker, host: &FakeHost, token: u32| worker.answered(host, token, None);
    let fail: [fn(&mut Worker, &FakeHost, u32); 2] = [late, broken];
    for fail in fail {
        let (mut worker, host) = (worker(), FakeHost::default());
        lease(&mut worker, &host, 5);
        host.now.set(ms(TTL));
        worker.tick(&host);
        host.now.set(ms(TTL + 10));
        worker.tick(&host);
        let (token, _) = last_call(&host);
        fail(&mut worker, &host, token);
        worker.tick(&host);
        assert!(!host.take().iter().any(|did| matches!(did, Did::Call { .. })));
        assert_eq!(host.counted(Metric::CalloutsFailed), 1);
        assert_eq!(host.warnings.borrow().len(), 1);
    }
}

#[test]
fn failures_and_degraded_answers_grant_nothing() {
    let mut degraded = granted(5);
    degraded["degraded"] = json!(true);
    let refused = json!({"error": {"title": "unknown policy", "detail": ""}});
    let mut denied = granted(0);
    denied["allowed"] = json!(false);
    for answer in [None, Some(answer(&[degraded])), Some(answer(&[refused])), Some(answer(&[denied]))] {
        let (mut worker, host) = (worker_with(r#""denial_cache":{"max_age":0},"#), FakeHost::default());
        let (token, _slot, _) = ask(&mut worker, &host);
        worker.answered(&host, token, answer.clone());
        host.take();
        assert_eq!(fields(&mut worker, &host, 3), None, "{answer:?}");
        worker.tick(&host);
        assert_eq!(counted(&host), [0; 4]);
        // It asks again, when nothing can be on its way any more.
        host.now.set(ms(50));
        let _slot = wait(&mut worker, &host, 4);
        worker.wake_up(&host);
        let (_, body) = last_call(&host);
        assert!(body.to_string().contains("\"lease\""), "{answer:?}: {body}");
    }
}

#[test]
fn tokens_are_kept_although_the_request_is_gone() {
    let (mut worker, host) = (worker(), FakeHost::default());
    let (token, slot, _) = ask(&mut worker, &host);
    worker.gone(&host, &slot);
    drop(slot);
    worker.answered(&host, token, Some(answer(&[granted(1)])));
    assert!(host.take().is_empty());
    assert!(fields(&mut worker, &host, 3).is_some());
    assert_eq!(host.counted(Metric::Pending), 0);
}

#[test]
fn a_lease_comes_before_a_denial() {
    let (mut worker, host) = (worker(), FakeHost::default());
    let (token, _slot, _) = ask(&mut worker, &host);
    let _denied = wait(&mut worker, &host, 3);
    worker.wake_up(&host);
    let (next, _) = last_call(&host);
    worker.answered(&host, token, Some(answer(&[granted(1)])));
    worker.answered(&host, next, Some(answer(&[entry(false)])));
    host.take();
    assert!(fields(&mut worker, &host, 4).is_some(), "it is paid for");
    assert!(matches!(worker.request(&host, 5), Start::Stop));
    worker.tick(&host);
    assert_eq!(host.counted(Metric::DeniedLocally), 1);
}

#[test]
fn a_new_configuration_drops_leases() {
    let (mut worker, host) = (worker(), FakeHost::default());
    lease(&mut worker, &host, 5);
    assert!(fields(&mut worker, &host, 3).is_some());
    worker.stop(&host);
    assert_eq!(counted(&host), [5, 1, 4, 0]);
    assert!(host.counted(Metric::AllowedLocally) == 1 && host.take().is_empty());
    assert_eq!(fields(&mut worker, &host, 4), None);
}

#[test]
fn without_leases_nobody_asks() {
    let (mut worker, host) = (worker_with(r#""leases":"off","#), FakeHost::default());
    let (_, _slot, body) = ask(&mut worker, &host);
    assert!(!body.to_string().contains("\"lease\""), "{body}");
}
