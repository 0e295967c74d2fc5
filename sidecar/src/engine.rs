//! From checks to verdicts: resolves policies, asks the store once for a whole batch, and puts its integers
//! into words.

use sluice_filter::wire::{Check, Decision, Request, Verdict};

use crate::config::Limits;
use crate::keys;
use crate::policy::{Limit, MAX_COUNT, Policies};
use crate::store::{Outcome, Store, StoreCheck, StoreError};

/// Decides requests.
#[derive(Debug)]
pub struct Engine {
    policies: Policies,
    limits: Limits,
    store: Store,
}

/// Why a request can't be decided. Each names the field, from the request down.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestProblem {
    /// No checks.
    #[error("checks: a request needs at least one check")]
    NoChecks,
    /// Too many checks.
    #[error("checks: {0} checks, but a request may have at most {1} (limits.request_checks)")]
    TooManyChecks(usize, usize),
    /// A policy that is not in the configuration.
    #[error("checks[{0}].policy: there is no policy {1:?}")]
    UnknownPolicy(usize, String),
    /// A key that is too long.
    #[error("checks[{0}].key: {1} bytes, but a key may have at most {2} (limits.key_bytes)")]
    LongKey(usize, usize, usize),
    /// A cost that is too large.
    #[error("checks[{0}].cost: {1} is more than {MAX_COUNT}")]
    Cost(usize, u64),
}

/// A request whose policies are resolved: a check without a limit is not asked of the store.
struct Resolved<'a> {
    checks: Vec<(&'a Check, Option<Limit>)>,
}

impl Engine {
    /// An engine.
    pub fn new(policies: Policies, limits: Limits, store: Store) -> Self {
        Self { policies, limits, store }
    }

    /// The store it asks.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// How many policies there are.
    pub fn policy_count(&self) -> usize {
        self.policies.len()
    }

    /// What a question may be.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Decides a batch, in order. A request that can't be decided doesn't hold up the others.
    ///
    /// # Errors
    ///
    /// If the store can't decide. What of the batch was charged is not known then.
    pub async fn decide<'a>(
        &self,
        requests: impl IntoIterator<Item = &'a Request>,
    ) -> Result<Vec<Result<Decision, RequestProblem>>, StoreError> {
        let resolved: Vec<Result<Resolved<'_>, RequestProblem>> =
            requests.into_iter().map(|request| self.resolve(request)).collect();
        let questions: Vec<Vec<StoreCheck>> = resolved.iter().flatten().filter_map(Resolved::question).collect();
        let answers = if questions.is_empty() { Vec::new() } else { self.store.decide(&questions).await? };

        let mut answers = answers.into_iter();
        resolved
            .into_iter()
            .map(|resolved| match resolved {
                Err(problem) => Ok(Err(problem)),
                Ok(resolved) => {
                    let outcomes = if resolved.is_limited() { answers.next().unwrap_or_default() } else { Vec::new() };
                    resolved.decision(outcomes).map(Ok)
                }
            })
            .collect()
    }

    fn resolve<'a>(&self, request: &'a Request) -> Result<Resolved<'a>, RequestProblem> {
        let count = request.checks.len();
        if count == 0 {
            return Err(RequestProblem::NoChecks);
        }
        if count > self.limits.request_checks {
            return Err(RequestProblem::TooManyChecks(count, self.limits.request_checks));
        }
        let resolve = |(index, check): (usize, &'a Check)| {
            let bytes = check.key.iter().map(String::len).sum();
            if bytes > self.limits.key_bytes {
                return Err(RequestProblem::LongKey(index, bytes, self.limits.key_bytes));
            }
            if check.cost > MAX_COUNT {
                return Err(RequestProblem::Cost(index, check.cost));
            }
            let policy = self
                .policies
                .get(&check.policy)
                .ok_or_else(|| RequestProblem::UnknownPolicy(index, check.policy.clone()))?;
            Ok((check, policy.limit_for(&check.key)))
        };
        Ok(Resolved { checks: request.checks.iter().enumerate().map(resolve).collect::<Result<_, _>>()? })
    }
}

impl Resolved<'_> {
    fn is_limited(&self) -> bool {
        self.checks.iter().any(|(_, limit)| limit.is_some())
    }

    /// What the store is asked: `None` if it is nothing.
    fn question(&self) -> Option<Vec<StoreCheck>> {
        let limited = self.checks.iter().filter_map(|(check, limit)| Some((check, (*limit)?)));
        let checks: Vec<_> = limited
            .map(|(check, limit)| StoreCheck {
                key: keys::state_key(&check.policy, &check.key),
                limit,
                cost: check.cost,
            })
            .collect();
        (!checks.is_empty()).then_some(checks)
    }

    fn decision(self, outcomes: Vec<Outcome>) -> Result<Decision, StoreError> {
        let mut outcomes = outcomes.into_iter();
        let checks = self
            .checks
            .into_iter()
            .map(|(check, limit)| match limit {
                None => Ok(unlimited(&check.policy)),
                Some(limit) => outcomes
                    .next()
                    .map(|outcome| verdict(&check.policy, limit, outcome))
                    .ok_or(StoreError::Malformed("fewer outcomes than checks")),
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Decision { allowed: checks.iter().all(|verdict| verdict.allowed || verdict.shadow), checks })
    }
}

fn verdict(policy: &str, limit: Limit, outcome: Outcome) -> Verdict {
    Verdict {
        policy: policy.to_owned(),
        allowed: outcome.allowed,
        limit: limit.rate.count,
        period_ms: limit.rate.period_us.div_ceil(1_000),
        remaining: outcome.remaining,
        reset_ms: outcome.reset_us.div_ceil(1_000),
        retry_after_ms: outcome.retry_after_us.map(|us| us.div_ceil(1_000)),
        unlimited: false,
        shadow: limit.shadow,
    }
}

/// A key that an override has freed.
fn unlimited(policy: &str) -> Verdict {
    Verdict {
        policy: policy.to_owned(),
        allowed: true,
        limit: MAX_COUNT,
        period_ms: 1,
        remaining: MAX_COUNT,
        reset_ms: 0,
        retry_after_ms: Some(0),
        unlimited: true,
        shadow: false,
    }
}
