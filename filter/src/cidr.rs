//! Blocks of addresses, such as `10.0.0.0/8`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A block of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    network: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// The block of `prefix` bits that an address is in. More bits than it has are all of them.
    pub fn of(address: IpAddr, prefix: u8) -> Self {
        match address {
            IpAddr::V4(v4) => {
                let prefix = prefix.min(32);
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                Self { network: Ipv4Addr::from_bits(v4.to_bits() & mask).into(), prefix }
            }
            IpAddr::V6(v6) => {
                let prefix = prefix.min(128);
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                Self { network: Ipv6Addr::from_bits(v6.to_bits() & mask).into(), prefix }
            }
        }
    }

    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.network.is_ipv4() == address.is_ipv4() && Self::of(address, self.prefix).network == self.network
    }

    fn is_single(&self) -> bool {
        self.prefix == if self.network.is_ipv4() { 32 } else { 128 }
    }
}

impl FromStr for Cidr {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "expected an address or a block of them, such as 10.0.0.0/8 or 2001:db8::/32";
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| WRONG)?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => bits,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|&prefix: &u8| prefix <= bits).ok_or(WRONG)?
            }
            Some(_) => return Err(WRONG),
        };
        let block = Self::of(address, prefix);
        if block.network != address {
            return Err("this address has bits beyond its prefix: is the prefix right?");
        }
        // Addresses are compared in their canonical form, where an IPv4 address mapped into IPv6 is the IPv4 one.
        Ok(match address.to_canonical() {
            IpAddr::V4(v4) if address.is_ipv6() && prefix >= 96 => Self::of(v4.into(), prefix - 96),
            _ => block,
        })
    }
}

/// A block of one address is written as that address.
impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_single() { self.network.fmt(f) } else { write!(f, "{}/{}", self.network, self.prefix) }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::Cidr;
    #[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn blocks_contain_their_addresses_only() {
        let table: [(&str, &[&str], &[&str]); 8] = [
            ("10.0.0.0/8", &["10.0.0.0", "10.255.255.255"], &["11.0.0.0", "9.255.255.255", "::a00:1"]),
            ("192.0.2.1", &["192.0.2.1"], &["192.0.2.0", "192.0.2.2"]),
            ("192.0.2.1/32", &["192.0.2.1"], &["192.0.2.0"]),
            ("0.0.0.0/0", &["0.0.0.0", "255.255.255.255"], &["::", "::1"]),
            ("::/0", &["::", "ffff::"], &["0.0.0.0"]),
            ("2001:db8::/32", &["2001:db8::", "2001:db8:ffff::1"], &["2001:db9::", "::"]),
            ("::1", &["::1"], &["::", "::2"]),
            ("::ffff:10.0.0.0/104", &["10.1.2.3"], &["11.0.0.0", "::1"]),
        ];
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        for (block, inside, outside) in table {
            let cidr: Cidr = block.parse().unwrap();
            assert!(inside.iter().all(|address| cidr.contains(ip(address))), "{block}");
            assert!(!outside.iter().any(|address| cidr.contains(ip(address))), "{block}");
        }
    }

    #[test]
    fn what_is_no_block_is_refused() {
        for text in [
            "",
            "/",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "10.0.0.1/8",
            "10.0.0/8",
            "::/129",
            "a/8",
            "::1/64",
            "10.0.0.0/8/8",
            " 10.0.0.1",
            "10.0.0.0/256",
        ] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
    }
}
