//! Whose request is it? The client's address, from the peer's and from what trusted proxies say.

use std::net::{IpAddr, SocketAddr};

use crate::cidr::Cidr;

#[cfg(test)]
mod tests;

/// Which entries of `x-forwarded-for` are believed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// None: the client is the peer, as Envoy knows it.
    #[default]
    Peer,
    /// The client is the entry at this place from the right, from 1: so many machines that are trusted have added
    /// their peer to the list, Envoy among them if it does (`use_remote_address`).
    Hops(usize),
    /// Those that such proxies added, from the peer on: the client is the first, from the right, that is none of
    /// them.
    Cidrs(Vec<Cidr>),
}

/// How the client's address is found, and which addresses are one client. What is absent is inherited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientIpSettings {
    /// Whom to believe.
    pub trust: Option<Trust>,
    /// How many bits of an IPv4 address tell clients apart, 1 to 32.
    pub ipv4_prefix: Option<u8>,
    /// The same for IPv6, 1 to 128.
    pub ipv6_prefix: Option<u8>,
}

impl ClientIpSettings {
    /// These settings, and where they say nothing, those.
    #[must_use]
    pub fn or(&self, base: &Self) -> Self {
        Self {
            trust: self.trust.clone().or_else(|| base.trust.clone()),
            ipv4_prefix: self.ipv4_prefix.or(base.ipv4_prefix),
            ipv6_prefix: self.ipv6_prefix.or(base.ipv6_prefix),
        }
    }

    /// The client's address in its canonical form, from the peer's and the lines of `x-forwarded-for`. What can't be
    /// understood leads back to the peer; `None` if that is no IP address either, such as that of a Unix socket.
    pub fn resolve<'a>(&self, peer: Option<&[u8]>, lines: impl DoubleEndedIterator<Item = &'a [u8]>) -> Option<IpAddr> {
        let peer = peer.and_then(parse);
        // The lines are one list. Empty entries are none, RFC 9110 section 5.6.1.
        let mut entries = lines
            .rev()
            .flat_map(|line| line.rsplit(|&byte| byte == b','))
            .map(<[u8]>::trim_ascii)
            .filter(|entry| !entry.is_empty());
        match self.trust.as_ref().unwrap_or(&Trust::Peer) {
            Trust::Peer => peer,
            Trust::Hops(hops) => entries.nth(hops.saturating_sub(1)).and_then(parse).or(peer),
            Trust::Cidrs(trusted) => {
                let mut client = peer?;
                while trusted.iter().any(|block| block.contains(client)) {
                    let Some(entry) = entries.next() else { break };
                    let Some(address) = parse(entry) else { return peer };
                    client = address;
                }
                Some(client)
            }
        }
    }

    /// The block of addresses that counts as one client.
    pub fn group(&self, address: IpAddr) -> Cidr {
        let prefix = if address.is_ipv4() { self.ipv4_prefix.unwrap_or(32) } else { self.ipv6_prefix.unwrap_or(64) };
        Cidr::of(address, prefix)
    }
}

/// An address, with or without a port, brackets and a zone.
fn parse(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    // The zone of a link-local address names an interface of somebody else's machine.
    let text: String = match text.split_once('%') {
        Some((address, rest)) => match rest.find(']') {
            Some(end) => [address, rest.get(end..)?].concat(),
            None => address.to_owned(),
        },
        None => text.to_owned(),
    };
    let ip = match text.parse::<SocketAddr>() {
        Ok(address) => address.ip(),
        Err(_) => text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&text).parse().ok()?,
    };
    Some(ip.to_canonical())
}
