//! The keys that one worker watches: a bounded number of them, whatever clients send.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::usage::Usage;
use super::{BUSY, Lease};

/// How many keys are looked at to make room for one.
const LOOKS: usize = 4;

/// A key of a policy that leases.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) usage: Usage,
    pub(super) lease: Option<Lease>,
    /// Until when a question for tokens may be on its way.
    pub(super) asking: Option<Duration>,
    /// Whether somebody will look whether the lease is over.
    pub(super) is_looked_after: bool,
}

impl Key {
    pub(super) fn is_busy(&self, now: Duration) -> bool {
        self.usage.times(now) >= BUSY
    }

    /// Whether it may be forgotten. If there is `room`, only what is not used any more.
    fn is_idle(&self, now: Duration, room: bool) -> bool {
        let used = if room { !self.usage.is_over(now) } else { !self.usage.is_over(now) && self.is_busy(now) };
        self.lease.is_none() && self.asking.is_none_or(|until| until <= now) && !used
    }
}

/// The keys by their [names](crate::name).
#[derive(Debug, Default)]
pub(super) struct Table {
    keys: HashMap<Rc<str>, Key>,
    /// All names, each once: those to be looked at first, when room is needed, in front.
    pub(super) order: VecDeque<Rc<str>>,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Key> {
        self.keys.get_mut(name)
    }

    pub(super) fn name(&self, name: &str) -> Option<Rc<str>> {
        self.keys.get_key_value(name).map(|(name, _)| Rc::clone(name))
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Key> {
        self.keys.values_mut()
    }

    /// A key that is watched from now on. `None` if there is no room, because the others are busy.
    pub(super) fn watch(&mut self, name: &str, entries: usize, ttl: Duration, now: Duration) -> Option<&mut Key> {
        if !self.keys.contains_key(name) {
            self.make_room(entries, now);
            if self.keys.len() >= entries {
                return None;
            }
            let name: Rc<str> = name.into();
            self.order.push_back(Rc::clone(&name));
            let key = Key { usage: Usage::new(ttl, now), lease: None, asking: None, is_looked_after: false };
            self.keys.insert(name, key);
        }
        self.keys.get_mut(name)
    }

    /// Looks at a few keys, so that it costs the same however many there are, and forgets the idle ones.
    fn make_room(&mut self, entries: usize, now: Duration) {
        for _ in 0..LOOKS {
            let room = self.keys.len() < entries;
            let Some(name) = self.order.pop_front() else { return };
            if self.keys.get(&name).is_none_or(|key| key.is_idle(now, room)) {
                self.keys.remove(&name);
            } else {
                self.order.push_back(name);
            }
        }
    }
}
