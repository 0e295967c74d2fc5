//! Redis keys: `sluice:{tag}:policy:parts`. The only module that builds them.
//!
//! The tag decides the cluster slot. It is the parts themselves, so that keys spread, and the checks of one
//! request that share their parts (a per-second and a per-day limit of one tenant) share a slot.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// What every key starts with.
pub const PREFIX: &str = "sluice:";

/// A part that is longer becomes a digest: it bounds the memory that a client can take.
const MAX_PART_BYTES: usize = 64;

/// The state key of a policy and a key.
///
/// No two pairs of policy and parts have the same key: parts are percent-encoded but for letters, digits and
/// `-._~@`, so that none contains the separators `,` and `:` or a brace, and an empty or digested part is
/// marked by a `%` that no encoded byte can follow like this.
pub fn state_key(policy: &str, parts: &[String]) -> String {
    let mut joined = String::with_capacity(parts.iter().map(|part| part.len() + 1).sum());
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            joined.push(',');
        }
        push_part(&mut joined, part);
    }
    format!("{PREFIX}{{{joined}}}:{policy}:{joined}")
}

/// A key that no policy has, for looking whether a server takes charges: the first that is right.
pub fn probe_key(is_right: impl Fn(&str) -> bool) -> Option<String> {
    // A slot is hit by one number in 16384, so that each is by some of these.
    (0..1_000_000_u32).map(|number| format!("{PREFIX}{{{number}}}:")).find(|key| is_right(key))
}

fn push_part(joined: &mut String, part: &str) {
    if part.is_empty() {
        // A list of one empty part is not the empty list.
        joined.push_str("%empty");
    } else if part.len() > MAX_PART_BYTES {
        joined.push_str("%sha256-");
        // 128 bits: a collision takes 2^64 tries to find, and yields a shared bucket.
        for byte in Sha256::digest(part).iter().take(16) {
            push_hex(joined, *byte);
        }
    } else {
        for byte in part.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~@".contains(&byte) {
                joined.push(char::from(byte));
            } else {
                joined.push('%');
                push_hex(joined, byte);
            }
        }
    }
}

fn push_hex(joined: &mut String, byte: u8) {
    // Writing into a String never fails.
    let _ = write!(joined, "{byte:02X}");
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn key(parts: &[&str]) -> String {
        state_key("p", &parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn keys_are_readable_where_they_can_be() {
        assert_eq!(key(&["acme"]), "sluice:{acme}:p:acme");
        assert_eq!(key(&["acme", "203.0.113.7"]), "sluice:{acme,203.0.113.7}:p:acme,203.0.113.7");
        assert_eq!(key(&["2001:db8::1"]), "sluice:{2001%3Adb8%3A%3A1}:p:2001%3Adb8%3A%3A1");
        assert_eq!(key(&[]), "sluice:{}:p:");
        assert_eq!(key(&["{a}"]), "sluice:{%7Ba%7D}:p:%7Ba%7D");
        assert_eq!(key(&["é"]), "sluice:{%C3%A9}:p:%C3%A9");
    }

    #[test]
    fn no_two_lists_share_a_key() {
        let long = "x".repeat(65);
        let digest = key(&[&long]).split_once(":p:").unwrap().1.to_owned();
        let lists: Vec<Vec<&str>> = vec![
            vec![],
            vec![""],
            vec!["", ""],
            vec!["%empty"],
            vec!["a|b", "c"],
            vec!["a", "b|c"],
            vec!["a,b", "c"],
            vec!["a", "b,c"],
            vec!["a", "b", "c"],
            vec!["a:b", "c"],
            vec!["a%2Cb", "c"],
            vec!["a", ""],
            vec!["", "a"],
            vec!["a"],
            vec!["A"],
            vec!["%missing"],
            vec![&long],
            vec![&digest],
            vec![&long[..64]],
            vec!["a\0"],
            vec!["a "],
            vec!["}:p:{"],
        ];
        let mut seen = HashMap::new();
        for list in lists {
            if let Some(other) = seen.insert(key(&list), list.clone()) {
                panic!("{list:?} and {other:?} share {}", key(&list));
            }
        }
    }

    #[test]
    fn long_parts_are_bounded() {
        let long = "s".repeat(60_000);
        assert!(key(&[&long]).len() < 130);
        assert_eq!(key(&[&"é".repeat(32)]).matches("%C3%A9").count(), 64);
    }
}
