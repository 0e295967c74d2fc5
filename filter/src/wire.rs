//! The wire format of `POST /v1/check`, shared by the filter (which asks) and the sidecar (which answers).
//!
//! Durations are integers in milliseconds, rounded up, so that a client that waits as told is allowed.
//! Unknown fields of a *question* are errors (a misspelt `cost` must not silently cost 1); unknown fields
//! of an *answer* are ignored, so that a newer sidecar can serve an older filter.

use serde::{Deserialize, Serialize};

use crate::trace::{self, TraceContext};

/// The key part that stands for a value that is missing, empty or ambiguous. No real value can equal it:
/// the filter writes every `%` of a value as `%25`.
pub const MISSING_PART: &str = "%missing";

/// The body of `POST /v1/check`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckBody {
    /// The batch, decided in order; each request sees the charges of those before it.
    pub requests: Vec<Request>,
    /// Charges to be given back before that, such as what is left of a lease. They are given back as far as they
    /// still count; the answer says nothing of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refunds: Vec<Refund>,
}

/// All checks of one HTTP request: decided all-or-nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// At least one check.
    pub checks: Vec<Check>,
    /// Whether the verdicts should say what is needed to give a charge back.
    #[serde(default, skip_serializing_if = "is_false")]
    pub refundable: bool,
    /// The trace that the request is recorded in, as a `traceparent`. What is none is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "trace::lenient")]
    pub traceparent: Option<TraceContext>,
}

/// One policy, one key, one cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The policy's name in the sidecar's configuration.
    pub policy: String,
    /// Who or what is limited: an ordered list of parts.
    pub key: Vec<String>,
    /// How much is taken, 0 to 1,000,000,000. 0 is a peek: nothing is written, the numbers are true.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub cost: u64,
    /// How much is wanted ahead, on top of the cost: what will likely be used within the policy's lease time. 0 to
    /// 1,000,000,000; policies without leases grant nothing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lease: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_false(flag: &bool) -> bool {
    !flag
}

fn one() -> u64 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_one(cost: &u64) -> bool {
    *cost == 1
}

/// The answer to a [`CheckBody`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckAnswer {
    /// One entry per request, in the same order.
    pub decisions: Vec<Entry>,
}

/// One request's entry: a decision, or why this request could not be decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, try_from = "AnyEntry")]
pub enum Entry {
    /// The request was decided.
    Decided(Decision),
    /// The request was refused; nothing of it was charged, and the rest of the batch is not affected.
    Refused {
        /// What is wrong with it.
        error: RequestError,
    },
}

/// An entry as it is read: serde's own `untagged` would keep a copy of every entry to try it twice.
#[derive(Deserialize)]
struct AnyEntry {
    allowed: Option<bool>,
    #[serde(default)]
    degraded: bool,
    checks: Option<Vec<Verdict>>,
    error: Option<RequestError>,
}

impl TryFrom<AnyEntry> for Entry {
    type Error = &'static str;

    fn try_from(entry: AnyEntry) -> Result<Self, Self::Error> {
        match entry {
            AnyEntry { allowed: Some(allowed), degraded, checks: Some(checks), .. } => {
                Ok(Self::Decided(Decision { allowed, degraded, checks }))
            }
            AnyEntry { error: Some(error), .. } => Ok(Self::Refused { error }),
            AnyEntry { .. } => Err("an entry needs `allowed` and `checks`, or `error`"),
        }
    }
}

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Whether every check allowed, but for shadows. If not, nothing was charged.
    pub allowed: bool,
    /// Whether the sidecar decided this without its store, as its `on_store_error` says. Left out where it didn't.
    #[serde(default, skip_serializing_if = "is_false")]
    pub degraded: bool,
    /// One verdict per check, in the same order.
    pub checks: Vec<Verdict>,
}

/// One check's part of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The policy's name.
    pub policy: String,
    /// Whether this check by itself allowed.
    pub allowed: bool,
    /// How many per [`period_ms`](Self::period_ms): the count of the policy's rate.
    pub limit: u64,
    /// The duration of the policy's rate.
    pub period_ms: u64,
    /// How much could be taken now, after this decision. A token bucket whose burst is larger than the
    /// count of its rate can have more remaining than `limit`.
    pub remaining: u64,
    /// Until the whole limit is available again if nothing else is taken.
    pub reset_ms: u64,
    /// How long to wait before the same check can be allowed: 0 if it was, `null` if waiting doesn't help
    /// (a limit of 0, or a cost that never fits).
    pub retry_after_ms: Option<u64>,
    /// For `POST /v1/refund`: names what was charged. Only if asked for, and if something was charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge: Option<u64>,
    /// What was taken ahead. Told for every check of a policy with leases, be it nothing: so the filter learns of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// Whether this key has no limit at all; the numbers mean nothing then.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unlimited: bool,
    /// Whether the policy is only tried out: it counts, but it never denies the request, and clients are not
    /// told of it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shadow: bool,
}

/// Tokens taken ahead of use. They are charged already; [`remaining`](Verdict::remaining) is what is left beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// How many, 0 if none.
    pub granted: u64,
    /// How long they may be spent, from when the answer arrives: never past the end of a fixed window.
    pub ttl_ms: u64,
    /// For [`Refund::charge`], to give back what was not spent. 0 if nothing was granted.
    pub charge: u64,
}

/// The body of `POST /v1/refund`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefundBody {
    /// What is to be given back.
    pub refunds: Vec<Refund>,
}

/// One charge, as it was asked for and answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refund {
    /// The check's policy.
    pub policy: String,
    /// The check's key.
    pub key: Vec<String>,
    /// The check's cost.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub cost: u64,
    /// The verdict's [`charge`](Verdict::charge).
    pub charge: u64,
}

/// The answer to a [`RefundBody`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundAnswer {
    /// One entry per refund, in the same order.
    pub refunds: Vec<Refunded>,
}

/// What became of a refund.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refunded {
    /// Whether it was given back. If not, it does not count any more.
    pub refunded: bool,
    /// How much could be taken now.
    pub remaining: u64,
    /// Until the whole limit is available again if nothing else is taken.
    pub reset_ms: u64,
}

/// Why one request of a batch was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestError {
    /// A short, stable text for the kind of error, such as `unknown policy`.
    pub title: String,
    /// What is wrong and where, such as `requests[3].checks[0].policy: there is no policy "x"`.
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::{Check, CheckAnswer, CheckBody, Entry};
    #[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn questions_are_strict() {
        let body = r#"{"requests":[{"checks":[{"policy":"p","key":["a"]},{"policy":"p","key":[],"cost":0}]}]}"#;
        let question: CheckBody = serde_json::from_str(body).unwrap();
        let wanted = Check { policy: "p".to_owned(), key: vec!["a".to_owned()], cost: 1, lease: 0 };
        assert_eq!(question.requests[0].checks[0], wanted);
        assert_eq!(question.requests[0].checks[1].cost, 0);
        assert_eq!(serde_json::to_string(&question).unwrap(), body);
        for body in [
            r#"{"requests":[{"checks":[{"policy":"p","key":[],"cots":2}]}]}"#,
            r#"{"requests":[{"checks":[{"policy":"p","key":[],"cost":-1}]}]}"#,
            r#"{"requests":[{"checks":[{"policy":"p","key":[],"cost":1.5}]}]}"#,
        ] {
            assert!(serde_json::from_str::<CheckBody>(body).is_err(), "{body}");
        }
    }

    #[test]
    fn a_trace_is_taken_or_ignored() {
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let body = format!(r#"{{"requests":[{{"checks":[],"traceparent":"{trace}"}}]}}"#);
        let question: CheckBody = serde_json::from_str(&body).unwrap();
        assert_eq!(serde_json::to_string(&question).unwrap(), body);
        for ignored in ["", "00-0-0-01", r"\u0000", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-"] {
            let body = body.replace(trace, ignored);
            let question: CheckBody = serde_json::from_str(&body).unwrap();
            assert_eq!(question.requests[0].traceparent, None, "{body}");
        }
    }

    #[test]
    fn an_entry_is_a_decision_or_an_error_and_may_hold_more() {
        let body = r#"{"decisions":[{"allowed":true,"checks":[]},{"error":{"title":"t","detail":"d"}}]}"#;
        let answer: CheckAnswer = serde_json::from_str(body).unwrap();
        assert!(matches!(answer.decisions.as_slice(), [Entry::Decided(_), Entry::Refused { .. }]));
        assert_eq!(serde_json::to_string(&answer).unwrap(), body);
        let newer = r#"{"decisions":[{"allowed":true,"checks":[],"new":1}],"new":[]}"#;
        assert!(serde_json::from_str::<CheckAnswer>(newer).is_ok());
        for entry in ["{}", r#"{"allowed":true}"#, r#"{"checks":[]}"#, r#"{"error":{}}"#, "1"] {
            let body = format!(r#"{{"decisions":[{entry}]}}"#);
            assert!(serde_json::from_str::<CheckAnswer>(&body).is_err(), "{body}");
        }
    }
}
