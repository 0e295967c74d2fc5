//! Rules: which requests they match and which checks they add.

use crate::cidr::Cidr;
use crate::keys::{CheckSpec, Facts};
use crate::path::PathMatch;
use crate::pattern::ValueMatch;

/// Which requests a rule is about. Everything that is absent matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Match {
    /// The path.
    pub path: Option<PathMatch>,
    /// One of these methods, compared byte by byte.
    pub methods: Option<Vec<String>>,
    /// One of these hosts.
    pub hosts: Option<Vec<HostMatch>>,
    /// All of these headers, by name in lower case.
    pub headers: Vec<(String, ValueMatch)>,
    /// All of these query parameters, by name, decoded.
    pub query: Vec<(String, ValueMatch)>,
    /// The client's address is in one of these blocks.
    pub client_ip: Option<Vec<Cidr>>,
    /// This does not match.
    pub not: Option<Box<Self>>,
}

/// Which hosts a rule matches, each as [`host`] gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostMatch {
    /// This one.
    Exact(String),
    /// All that end in this, which begins with a dot, and have something before it.
    Suffix(String),
}

impl HostMatch {
    fn matches(&self, host: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => host == exact.as_bytes(),
            Self::Suffix(suffix) => host.strip_suffix(suffix.as_bytes()).is_some_and(|rest| !rest.is_empty()),
        }
    }
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
        self.methods.as_ref().is_none_or(|methods| {
            facts.method().is_some_and(|value| methods.iter().any(|method| method.as_bytes() == value))
        }) && self.path.as_ref().is_none_or(|path| facts.path().is_some_and(|value| path.matches(value)))
            && self
                .hosts
                .as_ref()
                .is_none_or(|hosts| facts.host().is_some_and(|value| hosts.iter().any(|host| host.matches(value))))
            && self.headers.iter().all(|(name, value)| match name.as_str() {
                ":authority" => value.matches(facts.host().into_iter()),
                name => value.matches(facts.header_values(name)),
            })
            && self.query.iter().all(|(name, value)| value.matches(facts.query_values(name)))
            && self.client_ip.as_ref().is_none_or(|blocks| {
                facts.client_address().is_some_and(|address| blocks.iter().any(|block| block.contains(address)))
            })
            && self.not.as_ref().is_none_or(|not| !not.matches(facts))
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
