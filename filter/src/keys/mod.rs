//! Keys: takes the parts of each check's key from a request.

use std::cell::OnceCell;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::denied::Denied;
use crate::host::{HeaderList, Host};
use crate::wire::{self, MISSING_PART};
use crate::{path, rules};

pub mod encode;
#[cfg(test)]
mod tests;

/// One check of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckSpec {
    /// The policy's name in the sidecar's configuration.
    pub policy: String,
    /// Who or what is limited. No part at all means one bucket for everybody.
    pub key: Vec<KeyPart>,
    /// How much a request takes, 0 to 1,000,000,000; 0 only looks.
    pub cost: u64,
    /// What a missing part means.
    pub on_missing: OnMissing,
    /// Its rule's answer to a request that it denies.
    pub denied: Option<Arc<Denied>>,
}

/// Where one part of a key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPart {
    /// The client's address without its port, as Envoy knows it.
    ClientIp,
    /// A header, by its name in lower case. `:authority` is taken as rules compare it: see
    /// [`rules::host`].
    Header(String),
    /// A constant, already encoded.
    Literal(String),
}

/// What a key part that is missing, empty or ambiguous (a repeated header) means for its check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnMissing {
    /// All such requests share one bucket, distinct from every real value's.
    #[default]
    Bucket,
    /// The check is left out.
    Skip,
    /// The request is denied.
    Deny,
}

/// What rules and keys look at, read from the host once per request.
pub struct Facts<'a> {
    host: &'a dyn Host,
    headers: HeaderList,
    authority: OnceCell<Option<Vec<u8>>>,
    client_ip: OnceCell<Option<String>>,
}

impl<'a> Facts<'a> {
    /// Reads the current request.
    pub fn read(host: &'a dyn Host) -> Self {
        Self { host, headers: host.request_headers(), authority: OnceCell::new(), client_ip: OnceCell::new() }
    }

    /// A header's value, if it is there exactly once and not empty.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let mut values = self.headers.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_slice());
        let value = values.next().filter(|value| !value.is_empty());
        if values.next().is_some() { None } else { value }
    }

    /// The names of all headers, in lower case, repeated ones repeatedly.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.headers.iter().map(|(name, _)| name.as_str())
    }

    /// Whether a browser asks beforehand whether it may send a request.
    pub fn is_preflight(&self) -> bool {
        self.method() == Some(b"OPTIONS")
            && self.header("origin").is_some()
            && self.header("access-control-request-method").is_some()
    }

    /// The method.
    pub fn method(&self) -> Option<&[u8]> {
        self.header(":method")
    }

    /// The path without its query.
    pub fn path(&self) -> Option<&[u8]> {
        self.header(":path").map(path::without_query)
    }

    /// The host as rules compare it: see [`rules::host`].
    pub fn host(&self) -> Option<&[u8]> {
        self.authority.get_or_init(|| self.header(":authority").and_then(rules::host)).as_deref()
    }

    /// Whether the answer has to be a gRPC one. Never true for a request that Envoy takes for plain HTTP:
    /// the HTTP status of a gRPC answer is 200.
    pub fn is_grpc(&self) -> bool {
        let kind = self.header("content-type").and_then(|kind| kind.strip_prefix(b"application/grpc"));
        kind.is_some_and(|rest| rest.first().is_none_or(|&byte| byte == b'+')) && self.path().is_some()
    }

    fn client_ip(&self) -> Option<&str> {
        let read = || {
            let address = String::from_utf8(self.host.source_address()?).ok()?;
            client_ip(&address)
        };
        self.client_ip.get_or_init(read).as_deref()
    }

    fn part(&self, part: &KeyPart) -> Option<String> {
        match part {
            KeyPart::ClientIp => self.client_ip().map(str::to_owned),
            // Spelt in another way, or with another port, it would be another bucket of the client's choice.
            KeyPart::Header(name) if name == ":authority" => self.host().map(encode::part),
            KeyPart::Header(name) => self.header(name).map(encode::part),
            KeyPart::Literal(text) => Some(text.clone()),
        }
    }
}

/// The address in `address:port`, in its canonical text form: an IPv4 address mapped into IPv6 is the IPv4
/// address. `None` if it is no IP address, such as that of a Unix socket.
pub fn client_ip(address: &str) -> Option<String> {
    let ip = match address.parse::<SocketAddr>() {
        Ok(address) => address.ip(),
        Err(_) => address.parse::<IpAddr>().ok()?,
    };
    Some(ip.to_canonical().to_string())
}

/// A request whose key can't be built, where that means it is denied.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyMissing {
    /// The policy of the check.
    pub policy: String,
}

/// Builds the checks of one request. The result may be empty.
///
/// # Errors
/// If a part is missing and its check says `on_missing: deny`.
pub fn build(specs: &[&CheckSpec], facts: &Facts<'_>) -> Result<Vec<wire::Check>, KeyMissing> {
    let mut checks = Vec::with_capacity(specs.len());
    'checks: for spec in specs {
        let mut key = Vec::with_capacity(spec.key.len());
        for part in &spec.key {
            match (facts.part(part), spec.on_missing) {
                (Some(value), _) => key.push(value),
                (None, OnMissing::Bucket) => key.push(MISSING_PART.to_owned()),
                (None, OnMissing::Skip) => continue 'checks,
                (None, OnMissing::Deny) => {
                    return Err(KeyMissing { policy: spec.policy.clone() });
                }
            }
        }
        checks.push(wire::Check { policy: spec.policy.clone(), key, cost: spec.cost });
    }
    Ok(checks)
}
