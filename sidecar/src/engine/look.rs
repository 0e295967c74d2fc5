//! What those who run Sluice ask of a single key: what is kept of it, what a check would say, and to forget it.

use sluice_filter::wire::Check;

use super::{CheckProblem, Counted, Engine, InForce, store_check, unlimited, verdict};
use crate::admin::{Forgotten, Inspection, Peeked};
use crate::metrics::CheckOutcome;
use crate::policy::{Limit, Rate};
use crate::store::{Ahead, StoreCheck, StoreError};
use crate::{inspect, keys};

/// Why a key can't be looked at.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// A policy that is not in force, and those that are.
    #[error("policy: there is no policy {0:?}; the configuration has {1}")]
    UnknownPolicy(String, String),
    /// The key or the cost is not as it must be.
    #[error(transparent)]
    Check(CheckProblem),
    /// The store doesn't answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// What is kept of a key. Nothing is changed.
    ///
    /// # Errors
    ///
    /// If there is no such policy, or if the store doesn't answer.
    pub async fn inspect(&self, policy: &str, key: &[String]) -> Result<Inspection, LookError> {
        let in_force = self.in_force();
        let (_, limit) = found(&in_force, &check(policy, key, 0))?;
        let redis_key = keys::state_key(policy, key);
        match limit {
            None => Ok(inspect::unlimited(policy, key, redis_key)),
            Some(limit) => {
                let kept = self.store.kept(&redis_key).await?;
                Ok(inspect::limited(policy, key, redis_key, &limit, kept))
            }
        }
    }

    /// What a check of this cost would say now, as the script decides it. Nothing is charged.
    ///
    /// # Errors
    ///
    /// If the check is not as it must be, or if the store doesn't answer and [`OnStoreError`](crate::store::OnStoreError)
    /// is to fail.
    pub async fn peek(&self, policy: &str, key: &[String], cost: u64) -> Result<Peeked, LookError> {
        let in_force = self.in_force();
        let check = check(policy, key, cost);
        let (counted, limit) = found(&in_force, &check)?;
        let (verdict, degraded) = match limit {
            None => (unlimited(policy), false),
            Some(limit) => {
                let mut question = vec![store_check(&check, None, limit)];
                if cost > 0 {
                    question.push(barrier(&check, limit));
                }
                let questions = [question];
                let asked = self.store.decide(&questions);
                let decided = self.metrics.ask(0, 1, asked).await?;
                let outcome = decided.outcomes.first().and_then(|outcomes| outcomes.first());
                let outcome = *outcome.ok_or(StoreError::Malformed("fewer outcomes than checks"))?;
                (verdict(policy, limit, outcome, false), decided.is_degraded)
            }
        };
        counted.counters.decisions.add(CheckOutcome::of(&verdict, 0, degraded), 1);
        Ok(Peeked { verdict, degraded })
    }

    /// Forgets a key: its limit is all there again. What filters hold of it by lease stays theirs.
    ///
    /// # Errors
    ///
    /// If there is no such policy, or if the store doesn't answer.
    pub async fn forget(&self, policy: &str, key: &[String]) -> Result<Forgotten, LookError> {
        found(&self.in_force(), &check(policy, key, 0))?;
        let existed = self.store.forget(&keys::state_key(policy, key)).await?;
        Ok(Forgotten { policy: policy.to_owned(), key: key.to_vec(), existed })
    }
}

fn check(policy: &str, key: &[String], cost: u64) -> Check {
    Check { policy: policy.to_owned(), key: key.to_vec(), cost, lease: 0 }
}

fn found<'a>(in_force: &'a InForce, check: &Check) -> Result<(&'a Counted, Option<Limit>), LookError> {
    in_force.limit(check).map_err(|problem| match problem {
        CheckProblem::UnknownPolicy(name) => {
            let names: Vec<&str> = in_force.policies().into_iter().map(|(name, _)| name).collect();
            LookError::UnknownPolicy(name, names.join(", "))
        }
        problem => LookError::Check(problem),
    })
}

/// A check that always denies, and with it the request: so nothing of that is charged. It names the same key, and
/// doesn't read it, so that there is one slot.
fn barrier(check: &Check, limit: Limit) -> StoreCheck {
    let limit = Limit { rate: Rate { count: 0, ..limit.rate }, shadow: false, ..limit };
    StoreCheck { key: keys::state_key(&check.policy, &check.key), limit, cost: 1, ahead: Ahead::default() }
}
