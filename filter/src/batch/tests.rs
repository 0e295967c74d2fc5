#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
use wasm_bindgen_test::wasm_bindgen_test as test;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::{Asked, Batch, MAX_BYTES, MAX_CHECKS, Sent, Slot, SlotRef, State};
use crate::wire::{Check, CheckBody, Request};

fn slot(context: u32) -> SlotRef {
    Rc::new(RefCell::new(Slot { context, grpc: false, asked: Asked::default(), state: State::Waiting }))
}

fn request(checks: usize, part: &str) -> Request {
    let check = Check { policy: "p".to_owned(), key: vec![part.to_owned()], cost: 1, lease: 0 };
    Request { checks: vec![check; checks], ..Request::default() }
}

fn join(batch: &mut Batch, slot: &SlotRef, request: &Request, deadline: u64) {
    batch.join(slot, request, || Duration::from_millis(deadline)).unwrap();
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_turn_is_one_parcel_in_order() {
    let mut batch = Batch::default();
    assert!(batch.is_empty() && batch.is_sent());
    let slots: Vec<_> = (0..3).map(slot).collect();
    for (slot, name) in slots.iter().zip(["a", "b", "c"]) {
        join(&mut batch, slot, &request(1, name), 50);
    }
    assert!(!batch.is_sent());
    let parcels = batch.take_waiting();
    assert_eq!(parcels.len(), 1);
    let body: CheckBody = serde_json::from_str(&parcels[0].body).unwrap();
    assert_eq!(body.requests, ["a", "b", "c"].map(|name| request(1, name)));
    assert_eq!(parcels[0].checks(), 3);
    let contexts: Vec<_> = parcels[0].members.iter().map(|m| m.waiting().unwrap().borrow().context).collect();
    assert_eq!(contexts, [0, 1, 2]);
    assert!(batch.take_waiting().is_empty());
}

#[test]
fn parcels_end_at_their_most_checks() {
    let mut batch = Batch::default();
    let slots: Vec<_> = (0..130).map(slot).collect();
    for slot in &slots {
        join(&mut batch, slot, &request(2, "a"), 50);
    }
    let parcels = batch.take_waiting();
    assert_eq!(parcels.iter().map(super::Parcel::checks).collect::<Vec<_>>(), [MAX_CHECKS, 4]);
    for parcel in &parcels {
        let body: CheckBody = serde_json::from_str(&parcel.body).unwrap();
        assert_eq!(body.requests.len(), parcel.members.len());
    }
}

#[test]
fn parcels_end_at_their_most_bytes() {
    let mut batch = Batch::default();
    let part = "a".repeat(1024);
    let slots: Vec<_> = (0..256).map(slot).collect();
    for slot in &slots {
        join(&mut batch, slot, &request(1, &part), 50);
    }
    let parcels = batch.take_waiting();
    assert_eq!(parcels.len(), 2);
    assert!(parcels.iter().all(|parcel| parcel.body.len() <= MAX_BYTES));
    assert!(parcels[0].body.len() > MAX_BYTES - 1100, "filled as far as it goes");
    assert_eq!(parcels.iter().map(super::Parcel::checks).sum::<usize>(), MAX_CHECKS);
}

#[test]
fn a_request_larger_than_a_parcel_goes_alone() {
    let mut batch = Batch::default();
    let slots: Vec<_> = (0..3).map(slot).collect();
    join(&mut batch, &slots[0], &request(1, "a"), 50);
    join(&mut batch, &slots[1], &request(MAX_CHECKS + 1, "b"), 50);
    join(&mut batch, &slots[2], &request(1, "c"), 50);
    let parcels = batch.take_waiting();
    assert_eq!(parcels.iter().map(super::Parcel::checks).collect::<Vec<_>>(), [1, MAX_CHECKS + 1, 1]);
}

#[test]
fn requests_that_are_gone_are_not_sent() {
    let mut batch = Batch::default();
    let (kept, dropped, ended) = (slot(1), slot(2), slot(3));
    for slot in [&dropped, &kept, &ended] {
        join(&mut batch, slot, &request(1, "a"), 50);
    }
    drop(dropped);
    ended.borrow_mut().state = State::Answered;
    let parcels = batch.take_waiting();
    assert_eq!(parcels.len(), 1);
    assert_eq!(parcels[0].members.len(), 1);

    let mut batch = Batch::default();
    join(&mut batch, &slot(1), &request(1, "a"), 50); // gone at once
    assert!(batch.take_waiting().is_empty());
    assert!(batch.is_empty());
}

#[test]
fn deadlines_hold_before_and_after_sending() {
    let mut batch = Batch::default();
    let (sent, waiting) = (slot(1), slot(2));
    join(&mut batch, &sent, &request(1, "a"), 50);
    let parcel = batch.take_waiting().remove(0);
    batch.sent(7, Sent { members: parcel.members, deadline: parcel.deadline });
    join(&mut batch, &waiting, &request(1, "b"), 60);

    let expired = batch.expire(ms(49));
    assert!(expired.members.is_empty() && expired.callouts == 0);
    let expired = batch.expire(ms(50));
    assert_eq!((expired.members.len(), expired.callouts), (1, 1));
    assert!(batch.take_sent(7).is_none(), "a late answer finds nobody");
    let expired = batch.expire(ms(60));
    assert_eq!((expired.members.len(), expired.callouts), (1, 0));
    assert!(batch.is_empty());
}

#[test]
fn a_turn_has_one_deadline() {
    let mut batch = Batch::default();
    let slots = [slot(1), slot(2)];
    join(&mut batch, &slots[0], &request(1, "a"), 50);
    batch.join(&slots[1], &request(1, "a"), || panic!("the clock is read once per turn")).unwrap();
    let parcel = batch.take_waiting().remove(0);
    batch.sent(1, Sent { members: parcel.members, deadline: parcel.deadline });
    assert_eq!(batch.expire(ms(50)).members.len(), 2);
}
