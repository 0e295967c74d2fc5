//! Requests: several checks decided together, several requests in a row.

use std::collections::HashMap;

use super::{State, Step, decide, muldiv};
use crate::store::{Outcome, StoreCheck};

/// What requests changed: per key the last state, and in how many microseconds it means nothing any more.
pub type Changes = HashMap<String, (State, u64)>;

/// Decides a check, and grants what is wanted ahead: of what remains, at most a share.
fn decide_ahead(state: Option<&State>, now_us: u64, check: &StoreCheck) -> Step {
    let step = decide(state, now_us, &check.limit, check.cost);
    if step.outcome.charge.is_none() {
        return step;
    }
    let (most, _) = muldiv(step.outcome.remaining, u64::from(check.ahead.share_ppm), 1_000_000);
    match check.ahead.want.min(most) {
        0 => step,
        granted => {
            let mut step = decide(state, now_us, &check.limit, check.cost + granted);
            step.outcome.granted = granted;
            step
        }
    }
}

/// Decides requests in order, each all-or-nothing and each seeing the charges of those before it. `stored`
/// looks a key up.
pub fn decide_requests(
    requests: &[Vec<StoreCheck>],
    now_us: u64,
    mut stored: impl FnMut(&str) -> Option<State>,
) -> (Vec<Vec<Outcome>>, Changes) {
    let mut changes = Changes::new();
    let outcomes = requests
        .iter()
        .map(|request| {
            let mut undo = Vec::new();
            let mut outcomes = Vec::with_capacity(request.len());
            let mut admitted = true;
            for check in request {
                let before = changes.get(&check.key).cloned();
                let state = before.as_ref().map(|(state, _)| state.clone()).or_else(|| stored(&check.key));
                let step = decide_ahead(state.as_ref(), now_us, check);
                admitted &= step.outcome.allowed || check.limit.shadow;
                if let Some(write) = step.write {
                    if step.outcome.allowed {
                        undo.push((check.key.clone(), before));
                    }
                    changes.insert(check.key.clone(), write);
                }
                outcomes.push(step.outcome);
            }
            if !admitted {
                for (key, before) in undo.into_iter().rev() {
                    match before {
                        Some(before) => changes.insert(key, before),
                        None => changes.remove(&key),
                    };
                }
                // The checks that allowed have told of a charge that was not made.
                for (check, outcome) in request.iter().zip(&mut outcomes).filter(|(_, outcome)| outcome.allowed) {
                    let state = changes.get(&check.key).map(|(state, _)| state.clone()).or_else(|| stored(&check.key));
                    let peek = decide(state.as_ref(), now_us, &check.limit, 0).outcome;
                    *outcome = Outcome { allowed: true, ..peek };
                }
            }
            outcomes
        })
        .collect();
    (outcomes, changes)
}
