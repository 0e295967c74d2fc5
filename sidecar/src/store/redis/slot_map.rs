//! Which node of a cluster has which slots.

use redis::{FromRedisValue, Value};

use super::super::address::Endpoint;
use super::slots::SLOTS;

/// The primaries of a cluster and their slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotMap {
    primaries: Vec<Endpoint>,
    /// An index into `primaries` for each slot.
    owners: Vec<Option<u16>>,
}

impl SlotMap {
    /// The map that an answer to `CLUSTER SLOTS` tells of. A node that doesn't know its own name is where it
    /// was asked.
    pub fn read(answer: &Value, asked: &Endpoint) -> Option<Self> {
        let Value::Array(ranges) = answer else { return None };
        let mut map = Self { primaries: Vec::new(), owners: vec![None; usize::from(SLOTS)] };
        for range in ranges {
            let Value::Array(range) = range else { return None };
            let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = range.as_slice() else {
                return None;
            };
            let [host, Value::Int(port), ..] = primary.as_slice() else { return None };
            let host = Option::<String>::from_redis_value_ref(host).ok()?.unwrap_or_default();
            let endpoint = endpoint_of(&host, u16::try_from(*port).ok()?, asked);
            let owner = map.index(endpoint)?;
            let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
            map.owners.get_mut(first..=last).filter(|slots| !slots.is_empty())?.fill(Some(owner));
        }
        Some(map)
    }

    /// The node that has this slot.
    pub fn owner(&self, slot: u16) -> Option<&Endpoint> {
        let owner = self.owners.get(usize::from(slot)).copied().flatten()?;
        self.primaries.get(usize::from(owner))
    }

    /// A slot has moved.
    pub fn set_owner(&mut self, slot: u16, endpoint: &Endpoint) {
        let owner = self.index(endpoint.clone());
        if let Some(place) = self.owners.get_mut(usize::from(slot)) {
            *place = owner;
        }
    }

    /// The nodes that have slots.
    pub fn primaries(&self) -> &[Endpoint] {
        &self.primaries
    }

    /// How many slots have no node.
    pub fn uncovered(&self) -> usize {
        self.owners.iter().filter(|owner| owner.is_none()).count()
    }

    fn index(&mut self, endpoint: Endpoint) -> Option<u16> {
        let known = self.primaries.iter().position(|primary| *primary == endpoint);
        let index = known.unwrap_or_else(|| {
            self.primaries.push(endpoint);
            self.primaries.len() - 1
        });
        u16::try_from(index).ok()
    }
}

/// The node that a redirect or a map names: an empty or unknown host is the one that was asked.
pub fn endpoint_of(host: &str, port: u16, asked: &Endpoint) -> Endpoint {
    match asked {
        Endpoint::Tcp(same, _) if host.is_empty() || host == "?" => Endpoint::Tcp(same.clone(), port),
        _ => Endpoint::Tcp(host.to_owned(), port),
    }
}

/// The node of an error such as `MOVED 3999 127.0.0.1:6381`.
pub fn redirect(address: &str, asked: &Endpoint) -> Option<Endpoint> {
    let (host, port) = address.rsplit_once(':')?;
    Some(endpoint_of(host.trim_start_matches('[').trim_end_matches(']'), port.parse().ok()?, asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Endpoint {
        Endpoint::Tcp(host.to_owned(), port)
    }

    fn range(first: i64, last: i64, host: Option<&str>, port: i64) -> Value {
        let host = host.map_or(Value::Nil, |host| Value::BulkString(host.as_bytes().to_vec()));
        let node = Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec()), Value::Array(vec![])]);
        Value::Array(vec![Value::Int(first), Value::Int(last), node.clone(), node])
    }

    #[test]
    fn a_map_tells_who_has_a_slot() {
        let asked = tcp("asked", 1);
        let answer = Value::Array(vec![
            range(0, 99, Some("a"), 7000),
            range(100, 199, None, 7001),
            range(200, 200, Some(""), 7001),
            range(300, 16383, Some("2001:db8::1"), 7002),
        ]);
        let mut map = SlotMap::read(&answer, &asked).unwrap();
        let table = [
            (0, Some(tcp("a", 7000))),
            (99, Some(tcp("a", 7000))),
            (100, Some(tcp("asked", 7001))),
            (200, Some(tcp("asked", 7001))),
            (201, None),
            (16383, Some(tcp("2001:db8::1", 7002))),
            (16384, None),
        ];
        for (slot, owner) in table {
            assert_eq!(map.owner(slot), owner.as_ref(), "{slot}");
        }
        assert_eq!((map.primaries().len(), map.uncovered()), (3, 99));
        map.set_owner(201, &tcp("new", 1));
        map.set_owner(0, &tcp("asked", 7001));
        assert_eq!((map.owner(201), map.owner(0)), (Some(&tcp("new", 1)), Some(&tcp("asked", 7001))));
    }

    #[test]
    fn what_is_no_map_is_refused() {
        let bad = [
            Value::Okay,
            Value::Array(vec![Value::Okay]),
            Value::Array(vec![range(0, 16384, Some("a"), 1)]),
            Value::Array(vec![range(5, 4, Some("a"), 1)]),
            Value::Array(vec![range(0, 1, Some("a"), 65536)]),
            Value::Array(vec![Value::Array(vec![Value::Int(0), Value::Int(1)])]),
        ];
        for answer in bad {
            assert!(SlotMap::read(&answer, &tcp("asked", 1)).is_none(), "{answer:?}");
        }
    }

    #[test]
    fn redirects_name_a_node() {
        let asked = tcp("asked", 1);
        assert_eq!(redirect("127.0.0.1:6381", &asked), Some(tcp("127.0.0.1", 6381)));
        assert_eq!(redirect("2001:db8::1:6381", &asked), Some(tcp("2001:db8::1", 6381)));
        assert_eq!(redirect(":6381", &asked), Some(tcp("asked", 6381)));
        assert_eq!(redirect("?:6381", &asked), Some(tcp("asked", 6381)));
        assert_eq!(redirect("nonsense", &asked), None);
    }
}
