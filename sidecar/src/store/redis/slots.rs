//! Requests across cluster slots: reserve, then refund.
//!
//! A script of a Redis cluster may only touch keys of one slot. A batch is therefore split into one script
//! run per slot, and a request whose checks fall into several is decided in each of them; if one denies,
//! what the others took is given back.
//!
//! That leaves a window: between the two steps, others see the charge that is about to be given back, and may
//! be denied for it. It errs on the side of the limit, as does a refund that is lost: the charge then stays
//! until its window ends. Checks of one request that share their key's parts share a slot and have no such
//! window.

use std::collections::BTreeMap;

use crc::{CRC_16_XMODEM, Crc};

use super::super::{Outcome, Refund, Refunded, StoreCheck};

const CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// The number of slots of every cluster.
pub const SLOTS: u16 = 16_384;

/// The slot of a key: the CRC of what stands between the first braces, or of all if that is nothing, as the
/// [cluster specification](https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/) has it.
pub fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    CRC.checksum(tag.filter(|tag| !tag.is_empty()).unwrap_or(key).as_bytes()) % SLOTS
}

/// The part of a batch that falls into one slot.
#[derive(Debug, Default)]
pub struct Part {
    /// What is asked there: the requests that have checks in this slot, each with those checks only.
    pub requests: Vec<Vec<StoreCheck>>,
    /// Where each of their checks stands in the batch, as request and check.
    places: Vec<Vec<(usize, usize)>>,
}

/// Splits a batch by slot. The order of requests stays the same within each part.
pub fn split(requests: &[Vec<StoreCheck>]) -> Vec<Part> {
    let mut parts: BTreeMap<u16, Part> = BTreeMap::new();
    for (r, request) in requests.iter().enumerate() {
        for (c, check) in request.iter().enumerate() {
            let part = parts.entry(slot(&check.key)).or_default();
            match (part.places.last_mut(), part.requests.last_mut()) {
                (Some(places), Some(checks)) if places.first().is_some_and(|(request, _)| *request == r) => {
                    places.push((r, c));
                    checks.push(check.clone());
                }
                _ => {
                    part.places.push(vec![(r, c)]);
                    part.requests.push(vec![check.clone()]);
                }
            }
        }
    }
    parts.into_values().collect()
}

/// What the parts of a batch were answered, put together again.
#[derive(Debug)]
pub struct Joined {
    outcomes: Vec<Vec<Option<Outcome>>>,
}

/// What was charged for a request that is denied elsewhere, and where its check stands.
#[derive(Debug)]
pub struct Owed {
    /// The charge.
    pub refund: Refund,
    place: (usize, usize),
}

impl Joined {
    /// A batch without answers yet.
    pub fn new(requests: &[Vec<StoreCheck>]) -> Self {
        Self { outcomes: requests.iter().map(|request| vec![None; request.len()]).collect() }
    }

    /// Adds the answer to a part.
    pub fn add(&mut self, part: &Part, outcomes: &[Vec<Outcome>]) {
        for (place, outcome) in part.places.iter().flatten().zip(outcomes.iter().flatten()) {
            if let Some(slot) = self.at(*place) {
                *slot = Some(*outcome);
            }
        }
    }

    /// What has to be given back: the charges of requests of which a check denied or is unanswered. By slot,
    /// for one script run each.
    pub fn owed(&self, requests: &[Vec<StoreCheck>]) -> Vec<Vec<Owed>> {
        let mut owed: BTreeMap<u16, Vec<Owed>> = BTreeMap::new();
        for (r, (request, outcomes)) in requests.iter().zip(&self.outcomes).enumerate() {
            let mut answers = request.iter().zip(outcomes);
            if answers.all(|(check, outcome)| outcome.is_some_and(|outcome| outcome.allowed || check.limit.shadow)) {
                continue;
            }
            for (c, (check, outcome)) in request.iter().zip(outcomes).enumerate() {
                if let Some(Outcome { charge: Some(charge), granted, .. }) = outcome {
                    // What was granted ahead was charged with the cost.
                    let check = StoreCheck { cost: check.cost + granted, ..check.clone() };
                    let slot = slot(&check.key);
                    let refund = Refund { check, charge: *charge };
                    owed.entry(slot).or_default().push(Owed { refund, place: (r, c) });
                }
            }
        }
        owed.into_values().collect()
    }

    /// Notes what was given back: the verdicts tell of it.
    pub fn give_back(&mut self, owed: &[Owed], refunded: &[Refunded]) {
        for (Owed { place, .. }, refunded) in owed.iter().zip(refunded) {
            if let Some(Some(outcome)) = self.at(*place) {
                (outcome.remaining, outcome.reset_us) = (refunded.remaining, refunded.reset_us);
                (outcome.charge, outcome.granted) = (None, 0);
            }
        }
    }

    /// The outcomes, or `None` if any is missing.
    pub fn into_outcomes(self) -> Option<Vec<Vec<Outcome>>> {
        self.outcomes.into_iter().map(|request| request.into_iter().collect()).collect()
    }

    fn at(&mut self, (request, check): (usize, usize)) -> Option<&mut Option<Outcome>> {
        self.outcomes.get_mut(request)?.get_mut(check)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Ahead;
    use super::*;
    use crate::policy::{Algorithm, Limit, Rate};

    #[test]
    fn slots_are_those_of_the_specification() {
        // As `CLUSTER KEYSLOT` tells them.
        for (key, number) in [
            ("foo", 12182),
            ("{foo}bar", 12182),
            ("x{foo}", 12182),
            ("123456789", 12739),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
            ("foo{bar}{zap}", 5061),
            ("", 0),
        ] {
            assert_eq!(slot(key), number, "{key}");
        }
    }

    fn check(key: &str, shadow: bool) -> StoreCheck {
        let rate = Rate { count: 1, period_us: 1_000 };
        StoreCheck {
            key: key.to_owned(),
            limit: Limit { algorithm: Algorithm::SlidingWindow, rate, shadow },
            cost: 1,
            ahead: Ahead::default(),
        }
    }

    fn outcome(allowed: bool, charge: Option<u64>) -> Outcome {
        Outcome { allowed, remaining: 5, retry_after_us: Some(0), reset_us: 9, charge, granted: 0 }
    }

    #[test]
    fn a_batch_is_split_and_joined_again() {
        let requests =
            vec![vec![check("{a}1", false), check("{b}1", false), check("{a}2", false)], vec![check("{b}1", false)]];
        let parts = split(&requests);
        assert_eq!(parts.len(), 2);
        let mut joined = Joined::new(&requests);
        for part in &parts {
            let keys: Vec<Vec<&str>> =
                part.requests.iter().map(|checks| checks.iter().map(|check| check.key.as_str()).collect()).collect();
            match keys[0][0] {
                "{a}1" => assert_eq!(keys, [["{a}1", "{a}2"]]),
                _ => assert_eq!(keys, [["{b}1"], ["{b}1"]]),
            }
            let outcomes: Vec<Vec<Outcome>> =
                part.requests.iter().map(|checks| checks.iter().map(|_| outcome(true, Some(7))).collect()).collect();
            joined.add(part, &outcomes);
        }
        assert!(joined.owed(&requests).is_empty());
        assert_eq!(joined.into_outcomes().unwrap().iter().map(Vec::len).collect::<Vec<_>>(), [3, 1]);
    }

    #[test]
    fn what_a_denied_request_took_elsewhere_is_owed() {
        let requests = vec![
            vec![check("{a}", false), check("{b}", false)],
            vec![check("{a}", false), check("{b}", true)],
            vec![check("{a}", false), check("{c}", false)],
        ];
        let mut joined = Joined::new(&requests);
        for part in split(&requests) {
            let outcomes: Vec<Vec<Outcome>> = part
                .requests
                .iter()
                .map(|checks| vec![if checks[0].key == "{a}" { outcome(true, Some(7)) } else { outcome(false, None) }])
                .collect();
            if part.requests[0][0].key != "{c}" {
                joined.add(&part, &outcomes);
            }
        }
        // The first was denied, the second only by a shadow, of the third nobody knows.
        let owed = joined.owed(&requests);
        let places: Vec<_> = owed.iter().flatten().map(|owed| owed.place).collect();
        assert_eq!(places, [(0, 0), (2, 0)]);
        let refunded = Refunded { refunded: true, remaining: 6, reset_us: 8 };
        joined.give_back(&owed[0], &[refunded, refunded]);
        assert_eq!(joined.outcomes[0][0], Some(Outcome { remaining: 6, reset_us: 8, ..outcome(true, None) }));
        assert_eq!(joined.outcomes[1][0], Some(outcome(true, Some(7))));
        assert!(joined.into_outcomes().is_none());
    }
}
