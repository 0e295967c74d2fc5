//! The wire format of `POST /v1/check`, shared by the filter (which asks) and the sidecar (which answers).
//!
//! Durations are integers in milliseconds, rounded up, so that a client that waits as told is allowed.
//! Unknown fields of a *question* are errors (a misspelt `cost` must not silently cost 1); unknown fields
//! of an *answer* are ignored, so that a newer sidecar can serve an older filter.

use serde::{Deserialize, Serialize};

/// The key part that stands for a value that is missing, empty or ambiguous. No real value can equal it:
/// the filter writes every `%` of a value as `%25`.
pub const MISSING_PART: &str = "%missing";

/// The body of `POST /v1/check`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckBody {
    /// The batch, decided in order; each request sees the charges of those before it.
    pub requests: Vec<Request>,
}

/// All checks of one HTTP request: decided all-or-nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// At least one check.
    pub checks: Vec<Check>,
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
#[serde(untagged)]
pub enum Entry {
    /// The request was decided.
    Decided(Decision),
    /// The request was refused; nothing of it was charged, and the rest of the batch is not affected.
    Refused {
        /// What is wrong with it.
        error: RequestError,
    },
}

/// The answer to one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Whether every enforced check allowed. If not, nothing was charged.
    pub allowed: bool,
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
}

/// Why one request of a batch was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestError {
    /// A short, stable text for the kind of error, such as `unknown policy`.
    pub title: String,
    /// What is wrong and where, such as `requests[3].checks[0].policy: there is no policy "x"`.
    pub detail: String,
}
