//! What a worker decides without asking: by leases, and by denials that it remembers.

use std::time::Duration;

use super::outcome::{Outcome, mark};
use super::{Start, Worker};
use crate::answer::{self, Reply};
use crate::batch::{Asked, Parcel};
use crate::denials::told::Form;
use crate::headers::{self, Field};
use crate::host::Host;
use crate::metrics::Metric;
use crate::spoofed;
use crate::wire::{Check, Decision, Verdict};

impl Worker {
    /// Decides a request here, if that can be done.
    pub(super) fn decided_locally(&mut self, host: &dyn Host, asked: &Asked, grpc: bool) -> Option<Start> {
        // What is leased is paid for: it comes first.
        let may_lease = self.leases.concern(&asked.checks);
        if !may_lease && self.denials.is_empty() {
            return None;
        }
        let now = host.now();
        if may_lease && let Some(verdict) = self.leases.spend(&asked.checks, now, &mut self.tally) {
            // The tick, which hands these to the host, runs as long as there are leases.
            self.tally.add(Metric::Allowed, 1);
            self.tally.add(Metric::AllowedLocally, 1);
            return Some(Start::Go(self.let_through(host, Outcome::Allowed, Some(&verdict))));
        }
        self.denied_locally(host, asked, grpc, now)?;
        self.tally.add(Metric::DeniedLocally, 1);
        self.tally.add(Metric::Denied, 1);
        self.keep_ticking(host);
        Some(Start::Stop)
    }

    /// Marks a request that goes on. Returns the fields that its response gets.
    pub(super) fn let_through(&self, host: &dyn Host, outcome: Outcome, shown: Option<&Verdict>) -> Vec<Field> {
        mark(host, outcome, None);
        let Some(verdict) = shown else { return Vec::new() };
        if self.config.forward_headers {
            host.put_request_header(spoofed::POLICY, &headers::plain(&verdict.policy));
            host.put_request_header(spoofed::REMAINING, &verdict.remaining.to_string());
        }
        headers::fields(verdict, &self.config.headers)
    }

    /// Answers a request of which some check would be denied as it was a moment ago. `None` if there is none.
    fn denied_locally(&mut self, host: &dyn Host, asked: &Asked, grpc: bool, now: Duration) -> Option<()> {
        let Self { denials, told, config, .. } = self;
        let checks = asked.checks.iter().zip(&asked.denied);
        let found: Vec<_> =
            checks.filter_map(|(check, denied)| Some((check, denied, denials.find(check, now)?))).collect();
        if let [(check, denied, found)] = found.as_slice() {
            let (denied, policy) = (denied.as_ref(), check.policy.as_str());
            let make = || {
                let verdict = denials.verdict(check, found)?;
                Some(answer::denied_as(denied.map(AsRef::as_ref), policy, &[verdict], &config.headers, grpc))
            };
            let reply = told.repeat(*found, Form { denied, grpc }, make)?;
            mark(host, Outcome::Denied, Some(policy));
            host.reply(reply);
            return Some(());
        }
        // Which of several is shown, and what stands beside it, is another matter each time.
        let (mut known, mut verdicts) = (Asked::default(), Vec::new());
        for (check, denied, found) in found {
            verdicts.extend(denials.verdict(check, &found));
            known.checks.push(check.clone());
            known.denied.push(denied.clone());
        }
        (!verdicts.is_empty()).then(|| host.reply(&self.denial(host, &known, &verdicts, grpc)))
    }

    /// The answer to a denied request, which is marked as such.
    pub(super) fn denial(&self, host: &dyn Host, asked: &Asked, verdicts: &[Verdict], grpc: bool) -> Reply {
        let shown = headers::shown(verdicts, false);
        let index = shown.and_then(|shown| verdicts.iter().position(|verdict| std::ptr::eq(verdict, shown)));
        let policy = index.and_then(|index| asked.checks.get(index)).map(|check| check.policy.as_str());
        let denied = index.and_then(|index| asked.denied.get(index)).and_then(Option::as_deref);
        mark(host, Outcome::Denied, policy);
        answer::denied_as(denied, policy.unwrap_or_default(), verdicts, &self.config.headers, grpc)
    }

    /// Has the checks of a request that is about to be sent ask for tokens ahead.
    pub(super) fn ask_ahead(&mut self, host: &dyn Host, checks: &mut [Check]) {
        if self.leases.concern(checks) {
            let now = host.now();
            self.leases.ask(checks, now, now + self.config.sidecar.timeout);
        }
    }

    /// Takes what a decision leases, and makes it say so.
    pub(super) fn learn(&mut self, checks: &[Check], decision: &mut Decision, sent: Duration, now: Duration) {
        // The store may be back at any time, and know nothing of it.
        if decision.degraded {
            checks.iter().filter(|check| check.lease > 0).for_each(|check| self.leases.asked_in_vain(check));
        } else {
            self.leases.learn(checks, &mut decision.checks, sent, now, &mut self.tally);
        }
    }

    /// Gives back what is left of leases with the first of these callouts. If there is none, the tick has one of its own.
    pub(super) fn give_back(&mut self, parcels: &mut Vec<Parcel>, on_tick: Option<Duration>) -> u64 {
        let deadline = on_tick.map(|now| now + self.config.sidecar.timeout);
        if parcels.is_empty() && deadline.is_none() {
            return 0;
        }
        let Some((refunds, cost)) = self.leases.take_refunds() else { return 0 };
        if let Some(deadline) = deadline.filter(|_| parcels.is_empty()) {
            parcels.push(Parcel::empty(deadline));
        }
        if let Some(first) = parcels.first_mut() {
            first.give_back(&refunds);
        }
        cost
    }
}
