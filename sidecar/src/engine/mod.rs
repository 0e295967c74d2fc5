//! From checks to verdicts: resolves policies, asks the store once for a whole batch, and puts its integers
//! into words.

mod in_force;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

pub use in_force::{Counted, InForce};
use sluice_filter::wire::{self, Check, Decision, Lease, Request, Verdict};

use crate::config::Limits;
use crate::keys;
use crate::metrics::{CheckOutcome, Metrics, RequestOutcome};
use crate::policy::{Algorithm, LeaseTerms, Limit, MAX_COUNT, Policies};
use crate::store::{Ahead, Decided, Outcome, Refund, Refunded, Store, StoreCheck, StoreError};

/// Decides requests.
#[derive(Debug)]
pub struct Engine {
    in_force: RwLock<Arc<InForce>>,
    /// Held while a new one is made: they come one after the other.
    replacing: Mutex<()>,
    store: Store,
    metrics: Metrics,
}

/// What is wrong with a check, by field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckProblem {
    /// A policy that is not in the configuration.
    #[error("policy: there is no policy {0:?}")]
    UnknownPolicy(String),
    /// A key that is too long.
    #[error("key: {0} bytes, but a key may have at most {1} (limits.key_bytes)")]
    LongKey(usize, usize),
    /// A cost that is too large.
    #[error("cost: {0} is more than {MAX_COUNT}")]
    Cost(u64),
    /// More wanted ahead than can be.
    #[error("lease: {0} is more than {MAX_COUNT}")]
    Lease(u64),
}

/// Why a request can't be decided, by field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestProblem {
    /// No checks.
    #[error("checks: a request needs at least one check")]
    NoChecks,
    /// Too many checks.
    #[error("checks: {0} checks, but a request may have at most {1} (limits.request_checks)")]
    TooManyChecks(usize, usize),
    /// One of its checks.
    #[error("checks[{0}].{1}")]
    Check(usize, CheckProblem),
}

/// Why charges can't be given back.
#[derive(Debug, thiserror::Error)]
pub enum RefundError {
    /// One of the refunds is not as it must be.
    #[error("refunds[{0}].{1}")]
    Refund(usize, CheckProblem),
    /// The store doesn't answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A request whose policies are resolved: a check without a limit is not asked of the store.
struct Resolved<'a> {
    refundable: bool,
    checks: Vec<(&'a Check, &'a Counted, Option<Limit>)>,
}

impl Engine {
    /// An engine.
    pub fn new(policies: Policies, limits: Limits, store: Store) -> Self {
        let metrics = Metrics::new(&store);
        let in_force = InForce::new(policies, limits, &metrics);
        Self { in_force: RwLock::new(Arc::new(in_force)), replacing: Mutex::default(), store, metrics }
    }

    /// What is in force now. Whoever decides several things together takes it once.
    pub fn in_force(&self) -> Arc<InForce> {
        Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other policies and limits in force, and returns whether that changed anything. What is being decided goes on
    /// with those before. A policy that is gone takes its series along; one that comes, or comes back, starts at 0.
    pub fn replace(&self, policies: Policies, limits: Limits) -> bool {
        let _alone = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.in_force();
        if old.equals(&policies, limits) {
            return false;
        }
        let new = Arc::new(old.next(policies, limits, &self.metrics));
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&new);
        let kept: HashSet<&str> = new.policies().into_iter().map(|(name, _)| name).collect();
        for (name, _) in old.policies().into_iter().filter(|(name, _)| !kept.contains(name)) {
            self.metrics.policies().forget(name);
        }
        true
    }

    /// What is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The store it asks.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Decides a batch, in order, by what is [in force](Self::in_force). A request that can't be decided doesn't hold up
    /// the others.
    ///
    /// # Errors
    ///
    /// If the store can't decide. What of the batch was charged is not known then.
    pub async fn decide<'a>(
        &'a self,
        in_force: &'a InForce,
        requests: impl IntoIterator<Item = &'a Request>,
    ) -> Result<Vec<Result<Decision, RequestProblem>>, StoreError> {
        let resolved: Vec<Result<Resolved<'_>, RequestProblem>> =
            requests.into_iter().map(|request| in_force.resolve(request)).collect();
        let questions: Vec<Vec<StoreCheck>> = resolved.iter().flatten().filter_map(Resolved::question).collect();
        let decided = match questions.as_slice() {
            [] => Ok(Decided { outcomes: Vec::new(), is_degraded: false }),
            questions => {
                let checks = questions.iter().map(Vec::len).sum();
                self.metrics.ask(questions.len(), checks, self.store.decide(questions)).await
            }
        };
        let decided = decided.inspect_err(|_| self.count_undecided(&resolved))?;
        let mut answers = decided.outcomes.into_iter();
        resolved
            .into_iter()
            .map(|resolved| match resolved {
                Err(problem) => {
                    self.metrics.count_requests(RequestOutcome::Refused, 1);
                    Ok(Err(problem))
                }
                Ok(resolved) => {
                    let is_limited = resolved.is_limited();
                    let outcomes = if is_limited { answers.next().unwrap_or_default() } else { Vec::new() };
                    let decision = resolved.decision(outcomes, decided.is_degraded && is_limited)?;
                    self.metrics.count_requests(RequestOutcome::of(&decision), 1);
                    Ok(Ok(decision))
                }
            })
            .collect()
    }

    fn count_undecided(&self, resolved: &[Result<Resolved<'_>, RequestProblem>]) {
        for request in resolved.iter().flatten() {
            self.metrics.count_requests(RequestOutcome::Undecided, 1);
            for (_, counted, _) in &request.checks {
                counted.counters.decisions.add(CheckOutcome::Undecided, 1);
            }
        }
    }

    /// Gives charges back. What no longer counts is told so.
    ///
    /// # Errors
    ///
    /// If the store doesn't answer, or if one of them is not as it must be: none is given back then.
    pub async fn refund(
        &self,
        in_force: &InForce,
        refunds: &[wire::Refund],
    ) -> Result<Vec<wire::Refunded>, RefundError> {
        let resolve = |(index, refund): (usize, &wire::Refund)| {
            let check = Check { policy: refund.policy.clone(), key: refund.key.clone(), cost: refund.cost, lease: 0 };
            let (counted, limit) = in_force.limit(&check).map_err(|problem| RefundError::Refund(index, problem))?;
            // Nothing is ever charged where there is no limit, or one of 0.
            let limit = limit.filter(|limit| limit.rate.count > 0);
            Ok((counted, limit.map(|limit| Refund { check: store_check(&check, None, limit), charge: refund.charge })))
        };
        let resolved: Vec<(&Counted, Option<Refund>)> =
            refunds.iter().enumerate().map(resolve).collect::<Result<_, RefundError>>()?;
        let charges: Vec<Refund> = resolved.iter().filter_map(|(_, refund)| refund.clone()).collect();
        let mut refunded = match charges.as_slice() {
            [] => Vec::new(),
            charges => self.store.refund(charges).await?,
        }
        .into_iter();
        let told = |(counted, refund): (&Counted, Option<Refund>)| match refund
            .and_then(|refund| Some((refund.check.cost, refunded.next()?)))
        {
            Some((cost, Refunded { refunded, remaining, reset_us })) => {
                if refunded {
                    counted.counters.refunded(cost);
                }
                wire::Refunded { refunded, remaining, reset_ms: reset_us.div_ceil(1_000) }
            }
            None => wire::Refunded { refunded: false, remaining: 0, reset_ms: 0 },
        };
        Ok(resolved.into_iter().map(told).collect())
    }
}

impl InForce {
    fn resolve<'a>(&'a self, request: &'a Request) -> Result<Resolved<'a>, RequestProblem> {
        let count = request.checks.len();
        if count == 0 {
            return Err(RequestProblem::NoChecks);
        }
        if count > self.limits().request_checks {
            return Err(RequestProblem::TooManyChecks(count, self.limits().request_checks));
        }
        let resolve = |(index, check): (usize, &'a Check)| {
            let (counted, limit) = self.limit(check).map_err(|problem| RequestProblem::Check(index, problem))?;
            Ok((check, counted, limit))
        };
        let checks = request.checks.iter().enumerate().map(resolve).collect::<Result<_, _>>()?;
        Ok(Resolved { refundable: request.refundable, checks })
    }

    /// A check's policy, and what of it applies: `None` if there is no limit.
    fn limit(&self, check: &Check) -> Result<(&Counted, Option<Limit>), CheckProblem> {
        let bytes = check.key.iter().map(String::len).sum();
        if bytes > self.limits().key_bytes {
            return Err(CheckProblem::LongKey(bytes, self.limits().key_bytes));
        }
        if check.cost > MAX_COUNT {
            return Err(CheckProblem::Cost(check.cost));
        }
        if check.lease > MAX_COUNT {
            return Err(CheckProblem::Lease(check.lease));
        }
        match self.policy(&check.policy) {
            Some(counted) => Ok((counted, counted.policy.limit_for(&check.key))),
            None => Err(CheckProblem::UnknownPolicy(check.policy.clone())),
        }
    }
}

fn store_check(check: &Check, terms: Option<LeaseTerms>, limit: Limit) -> StoreCheck {
    let ahead = terms
        .filter(|_| check.lease > 0)
        .map_or(Ahead::default(), |terms| Ahead { want: check.lease.min(terms.max), share_ppm: terms.share_ppm });
    StoreCheck { key: keys::state_key(&check.policy, &check.key), limit, cost: check.cost, ahead }
}

impl Resolved<'_> {
    fn is_limited(&self) -> bool {
        self.checks.iter().any(|(_, _, limit)| limit.is_some())
    }

    /// What the store is asked: `None` if it is nothing.
    fn question(&self) -> Option<Vec<StoreCheck>> {
        let limited = self.checks.iter().filter_map(|(check, counted, limit)| Some((check, counted, (*limit)?)));
        let checks: Vec<_> =
            limited.map(|(check, counted, limit)| store_check(check, counted.policy.lease, limit)).collect();
        (!checks.is_empty()).then_some(checks)
    }

    fn decision(self, outcomes: Vec<Outcome>, degraded: bool) -> Result<Decision, StoreError> {
        let mut outcomes = outcomes.into_iter();
        let checks = self
            .checks
            .into_iter()
            .map(|(check, counted, limit)| {
                let verdict = match limit {
                    None => unlimited(&check.policy),
                    Some(limit) => {
                        let outcome = outcomes.next().ok_or(StoreError::Malformed("fewer outcomes than checks"))?;
                        counted.counters.charged(&limit, check.cost, &outcome);
                        let lease = counted.policy.lease.filter(|_| outcome.allowed && !degraded);
                        Verdict {
                            lease: lease.map(|terms| lease_of(terms, limit, &outcome)),
                            ..verdict(&check.policy, limit, outcome, self.refundable)
                        }
                    }
                };
                counted.counters.decisions.add(CheckOutcome::of(&verdict, check.cost, degraded), 1);
                Ok(verdict)
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Decision { allowed: checks.iter().all(|verdict| verdict.allowed || verdict.shadow), degraded, checks })
    }
}

/// What was granted, and for how long: never past the end of a fixed window, so that windows stay exact.
fn lease_of(terms: LeaseTerms, limit: Limit, outcome: &Outcome) -> Lease {
    let ttl_us = match limit.algorithm {
        Algorithm::FixedWindow { .. } => terms.ttl_us.min(outcome.reset_us),
        Algorithm::SlidingWindow | Algorithm::TokenBucket { .. } => terms.ttl_us,
    };
    let charge = outcome.charge.filter(|_| outcome.granted > 0).unwrap_or(0);
    // Rounded down: a lease that is too long would not be exact.
    Lease { granted: outcome.granted, ttl_ms: ttl_us / 1_000, charge }
}

fn verdict(policy: &str, limit: Limit, outcome: Outcome, refundable: bool) -> Verdict {
    Verdict {
        policy: policy.to_owned(),
        allowed: outcome.allowed,
        limit: limit.rate.count,
        period_ms: limit.rate.period_us.div_ceil(1_000),
        remaining: outcome.remaining,
        reset_ms: outcome.reset_us.div_ceil(1_000),
        retry_after_ms: outcome.retry_after_us.map(|us| us.div_ceil(1_000)),
        charge: outcome.charge.filter(|_| refundable),
        lease: None,
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
        charge: None,
        lease: None,
        unlimited: true,
        shadow: false,
    }
}
