use super::*;
#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use wasm_bindgen_test::wasm_bindgen_test as test;

const FIRST: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const SECOND: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// Starts a request with this trace.
fn traced(worker: &mut Worker, host: &FakeHost, context: u32, traceparent: &str) -> SlotRef {
    host.set_headers(&[(":path", b"/"), ("x-id", b"a"), ("traceparent", traceparent.as_bytes())]);
    match worker.request(host, context) {
        Start::Wait(slot) => slot,
        other => panic!("{other:?}"),
    }
}

/// The body of the one callout, and the trace that it shows.
fn called(worker: &mut Worker, host: &FakeHost) -> (String, Option<String>) {
    host.take();
    worker.wake_up(host);
    let did = host.take();
    let Some(Did::Call { body, .. }) = did.last() else { panic!("{did:?}") };
    (body.clone(), host.trace.get().map(|trace| trace.to_string()))
}

#[test]
fn sampled_traces_go_with_their_requests() {
    let (mut worker, host) = (worker_with(r#""trace_context":true,"#), FakeHost::default());
    let traces = [UNSAMPLED, "nonsense", FIRST, SECOND];
    let slots: Vec<_> = (1..).zip(traces).map(|(context, trace)| traced(&mut worker, &host, context, trace)).collect();
    let plain = r#"{"checks":[{"policy":"p","key":["a"]}]}"#;
    let with = |trace: &str| format!(r#"{{"checks":[{{"policy":"p","key":["a"]}}],"traceparent":"{trace}"}}"#);
    let body = format!(r#"{{"requests":[{plain},{plain},{},{}]}}"#, with(FIRST), with(SECOND));
    assert_eq!(called(&mut worker, &host), (body, Some(FIRST.to_owned())));
    drop(slots);
}

#[test]
fn a_request_that_is_gone_takes_its_trace_along() {
    let (mut worker, host) = (worker_with(r#""trace_context":true,"#), FakeHost::default());
    let gone = traced(&mut worker, &host, 1, FIRST);
    let slot = traced(&mut worker, &host, 2, SECOND);
    drop(gone);
    let (body, trace) = called(&mut worker, &host);
    assert!(!body.contains(FIRST), "{body}");
    assert_eq!(trace.as_deref(), Some(SECOND));
    drop(slot);
}

#[test]
fn nobody_is_told_of_traces_unless_asked_to() {
    let (mut worker, host) = (worker(), FakeHost::default());
    let slot = traced(&mut worker, &host, 1, FIRST);
    let (body, trace) = called(&mut worker, &host);
    assert!(!body.contains("traceparent"), "{body}");
    assert_eq!(trace, None);
    drop(slot);
}
