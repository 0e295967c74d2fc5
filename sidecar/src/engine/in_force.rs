//! What is in force: policies and limits as one value that never changes, and is exchanged as a whole.

use std::collections::HashMap;
use std::time::SystemTime;

use crate::config::Limits;
use crate::metrics::{Metrics, PolicyCounters};
use crate::policy::{Policies, Policy};

/// Policies and limits, as one reading of the configuration gave them. A batch is decided by one of these from its first
/// check to its last, whatever is exchanged meanwhile.
#[derive(Debug)]
pub struct InForce {
    generation: u64,
    loaded_at: SystemTime,
    limits: Limits,
    policies: HashMap<String, Counted>,
}

/// A policy, and what is counted of it.
#[derive(Debug)]
pub struct Counted {
    /// The policy.
    pub policy: Policy,
    /// Its counters: those of the policy of the same name before, if there was one.
    pub counters: PolicyCounters,
}

impl InForce {
    /// The first.
    pub(super) fn new(policies: Policies, limits: Limits, metrics: &Metrics) -> Self {
        let counted = |(name, policy): (String, Policy)| {
            let counters = metrics.policies().of(&name);
            (name, Counted { policy, counters })
        };
        let policies = policies.into_iter().map(counted).collect();
        Self { generation: 1, loaded_at: SystemTime::now(), limits, policies }
    }

    /// The one after this. Policies that stay keep their counters.
    pub(super) fn next(&self, policies: Policies, limits: Limits, metrics: &Metrics) -> Self {
        let counted = |(name, policy): (String, Policy)| {
            let counters =
                self.policies.get(&name).map_or_else(|| metrics.policies().of(&name), |old| old.counters.clone());
            (name, Counted { policy, counters })
        };
        let policies = policies.into_iter().map(counted).collect();
        Self { generation: self.generation + 1, loaded_at: SystemTime::now(), limits, policies }
    }

    /// Whether these would change nothing.
    pub(super) fn equals(&self, policies: &Policies, limits: Limits) -> bool {
        self.limits == limits
            && self.policies.len() == policies.len()
            && self.policies.iter().all(|(name, counted)| policies.get(name) == Some(&counted.policy))
    }

    /// 1 at the start, and one more for each change.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// When it was read.
    pub fn loaded_at(&self) -> SystemTime {
        self.loaded_at
    }

    /// What a question may be.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How many policies there are.
    pub fn policy_count(&self) -> usize {
        self.policies.len()
    }

    /// The policy of this name.
    pub fn policy(&self, name: &str) -> Option<&Counted> {
        self.policies.get(name)
    }

    /// All policies, by name.
    pub fn policies(&self) -> Vec<(&str, &Counted)> {
        let mut policies: Vec<_> = self.policies.iter().map(|(name, counted)| (name.as_str(), counted)).collect();
        policies.sort_unstable_by_key(|(name, _)| *name);
        policies
    }
}

#[cfg(test)]
mod tests {
    use sluice_filter::wire::{Check, Request};

    use crate::config::Config;
    use crate::engine::Engine;
    use crate::store::{Store, StoreAddress, StoreSettings};

    fn config(policies: &str) -> Config {
        Config::parse(&format!("policies: {{{policies}}}"), "x").unwrap()
    }

    fn engine(policies: &str) -> Engine {
        let Config { policies, limits, .. } = config(policies);
        Engine::new(policies, limits, Store::connect(&StoreSettings::new(StoreAddress::Memory)).unwrap())
    }

    fn replace(engine: &Engine, policies: &str) -> bool {
        let Config { policies, limits, .. } = config(policies);
        engine.replace(policies, limits)
    }

    fn request(policy: &str) -> Request {
        let check = Check { policy: policy.to_owned(), key: vec!["k".to_owned()], cost: 1, lease: 0 };
        Request { checks: vec![check], ..Request::default() }
    }

    const A: &str = "a: {algorithm: fixed_window, rate: 3/1h}";
    const B: &str = "b: {algorithm: fixed_window, rate: 3/1h}";

    #[test]
    fn a_generation_is_what_changes_something() {
        let engine = engine(A);
        assert!(!replace(&engine, A));
        assert_eq!(engine.in_force().generation(), 1);
        for (generation, policies) in (2..).zip([
            "a: {algorithm: fixed_window, rate: 4/1h}",
            "a: {algorithm: fixed_window, rate: 4/1h, overrides: [{key: x, unlimited: true}]}",
            "a: {algorithm: fixed_window, rate: 4/1h, overrides: [{key: z, unlimited: true}]}",
            A,
            &format!("{A}, {B}"),
            B,
        ]) {
            assert!(replace(&engine, policies), "{policies}");
            assert!(!replace(&engine, policies), "{policies}");
            assert_eq!(engine.in_force().generation(), generation, "{policies}");
        }
        let Config { policies, mut limits, .. } = config(B);
        limits.request_checks = 1;
        assert!(engine.replace(policies, limits));
        assert_eq!(engine.in_force().limits().request_checks, 1);
    }

    #[tokio::test]
    async fn a_batch_is_decided_by_what_it_began_with() {
        let engine = engine(&format!("{A}, {B}"));
        let before = engine.in_force();
        assert!(replace(&engine, A));
        let requests = [request("a"), request("b")];
        let decided = engine.decide(&before, &requests).await.unwrap();
        assert!(decided.iter().all(Result::is_ok), "{decided:?}");
        let decided = engine.decide(&engine.in_force(), &requests).await.unwrap();
        assert!(decided[0].is_ok() && decided[1].is_err(), "{decided:?}");
    }

    #[tokio::test]
    async fn a_policy_that_stays_keeps_its_counters_and_one_that_goes_loses_them() {
        let engine = engine(&format!("{A}, {B}"));
        let series = |policy: &str| {
            let label = format!("policy=\"{policy}\"");
            let text = engine.metrics().encode();
            let lines = text.lines().filter(|line| line.contains(&label)).map(str::to_owned);
            lines.collect::<Vec<_>>()
        };
        let (all, take) = (series("b").len(), [request("a"), request("b")]);
        assert!(all > 8, "{all}");
        engine.decide(&engine.in_force(), &take).await.unwrap();
        assert!(replace(&engine, "a: {algorithm: fixed_window, rate: 4/1h}"));
        assert_eq!(series("b"), [""; 0]);
        engine.decide(&engine.in_force(), &take).await.unwrap();
        let cost = |policy: &str| engine.in_force().policy(policy).unwrap().counters.cost_admitted();
        assert_eq!(cost("a"), 2);
        assert!(replace(&engine, &format!("{A}, {B}")));
        assert_eq!((cost("a"), cost("b"), series("b").len()), (2, 0, all));
        engine.decide(&engine.in_force(), &take).await.unwrap();
        assert_eq!((cost("a"), cost("b")), (3, 1));
        assert!(series("b").iter().any(|line| line.starts_with("sluice_cost_admitted_total") && line.ends_with(" 1")));
    }
}
