//! Rules: which requests they match and which checks they add.

use crate::keys::{CheckSpec, Facts};
use crate::path::PathMatch;

/// Which requests a rule is about. Everything that is absent matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Match {
    /// The path.
    pub path: Option<PathMatch>,
    /// One of these methods, compared byte by byte.
    pub methods: Option<Vec<String>>,
    /// One of these hosts, each as [`host`] gives it.
    pub hosts: Option<Vec<String>>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Which requests it is about.
    pub matches: Match,
    /// What it does with them.
    pub effect: Effect,
}

/// What a rule does with the requests it matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Adds these checks, and goes on with the next rule. A check that two rules add is charged twice.
    Check(Vec<CheckSpec>),
    /// Ends matching: later rules add nothing. What earlier rules added stays.
    Exempt,
}

impl Match {
    /// Whether a request is matched.
    pub fn matches(&self, facts: &Facts<'_>) -> bool {
        let one_of = |list: &Option<Vec<String>>, value: Option<&[u8]>| {
            list.as_ref().is_none_or(|list| value.is_some_and(|value| list.iter().any(|one| one.as_bytes() == value)))
        };
        one_of(&self.methods, facts.method())
            && self.path.as_ref().is_none_or(|path| facts.path().is_some_and(|p| path.matches(p)))
            && one_of(&self.hosts, facts.host())
    }
}

/// The checks that a list of rules wants for a request, in the order of the rules.
pub fn checks<'a>(rules: &'a [Rule], facts: &Facts<'_>) -> Vec<&'a CheckSpec> {
    let mut checks = Vec::new();
    for rule in rules.iter().filter(|rule| rule.matches.matches(facts)) {
        match &rule.effect {
            Effect::Check(more) => checks.extend(more),
            Effect::Exempt => break,
        }
    }
    checks
}

/// An authority as rules compare it: in lower case, without port and trailing dot. `None` if it is empty.
pub fn host(authority: &[u8]) -> Option<Vec<u8>> {
    let host = match authority.iter().rposition(|&byte| byte == b':') {
        // The colons of an IPv6 address stand in brackets; a port stands behind them.
        Some(colon) if !authority.get(colon..).is_some_and(|rest| rest.contains(&b']')) => {
            authority.get(..colon).unwrap_or_default()
        }
        _ => authority,
    };
    let host = host.strip_suffix(b".").unwrap_or(host);
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests;
