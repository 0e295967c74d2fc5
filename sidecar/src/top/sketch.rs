//! The Space-Saving algorithm of A. Metwally, D. Agrawal and A. El Abbadi, "Efficient Computation of Frequent and Top-k
//! Elements in Data Streams" (ICDT 2005): finds the most frequent names of a stream in a fixed amount of memory.
//!
//! A name that has no entry takes the place of the least frequent one and goes on from its count. So a count is never
//! too low, and too high by at most what that one had: after N names in m entries that is N/m at most, and every name
//! that came more often than N/m has an entry.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::name::Name;

/// Counts names that are known by a hash. Hashes are believed: they are keyed, and of 64 bits.
#[derive(Debug)]
pub struct Sketch {
    capacity: usize,
    /// Those in use are the first, as many as are in the heap. The others wait with their buffers for the next names.
    slots: Vec<Slot>,
    /// The entry with the least count is the first, and so on downwards. Only kept in order while there are
    /// as many as there can be: before that, nobody has to make room.
    heap: Vec<Node>,
    slot_of: HashMap<u64, usize, BuildHasherDefault<AsItIs>>,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    count: u64,
    slot: usize,
}

#[derive(Debug, Default)]
struct Slot {
    hash: u64,
    error: u64,
    place: usize,
    name: Name,
}

/// An entry.
#[derive(Debug, Clone, Copy)]
pub struct Counted<'a> {
    /// The name's hash.
    pub hash: u64,
    /// How often it came, at most.
    pub count: u64,
    /// By how much that can be too high.
    pub error: u64,
    /// The name.
    pub name: &'a Name,
}

impl Sketch {
    /// With so many entries, at least 1.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        // Twice as large as it gets: what is taken out can be cleaned up without a larger table.
        let slot_of = HashMap::with_capacity_and_hasher(2 * capacity, BuildHasherDefault::default());
        Self { capacity, slots: Vec::new(), heap: Vec::with_capacity(capacity), slot_of }
    }

    /// Counts a name once. `write` writes it down, if it has no entry yet.
    pub fn count(&mut self, hash: u64, write: impl FnOnce(&mut Name)) {
        let slot = match self.slot_of.get(&hash) {
            Some(slot) => *slot,
            None => self.admit(hash, write),
        };
        let Some(place) = self.slots.get(slot).map(|slot| slot.place) else { return };
        if let Some(node) = self.heap.get_mut(place) {
            node.count += 1;
        }
        if self.is_full() {
            self.sink(place);
        }
    }

    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        self.heap.clear();
        self.slot_of.clear();
    }

    /// All entries.
    pub fn entries(&self) -> impl Iterator<Item = Counted<'_>> {
        self.heap.iter().filter_map(|node| {
            let Slot { hash, error, name, .. } = self.slots.get(node.slot)?;
            Some(Counted { hash: *hash, count: node.count, error: *error, name })
        })
    }

    /// How often a name without an entry can have come at most.
    pub fn least(&self) -> u64 {
        if self.is_full() { self.heap.first().map_or(0, |node| node.count) } else { 0 }
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let names: usize = self.slots.iter().map(|slot| slot.name.bytes()).sum();
        let table = self.slot_of.capacity() * size_of::<(u64, usize)>();
        names + self.slots.capacity() * size_of::<Slot>() + self.heap.capacity() * size_of::<Node>() + table
    }

    fn is_full(&self) -> bool {
        self.heap.len() >= self.capacity
    }

    /// An entry for a name that has none, as if it had come as often as whoever makes room for it.
    fn admit(&mut self, hash: u64, write: impl FnOnce(&mut Name)) -> usize {
        let (index, is_new) = match self.heap.first() {
            Some(least) if self.is_full() => (least.slot, false),
            _ => (self.heap.len(), true),
        };
        if index == self.slots.len() {
            self.slots.push(Slot::default());
        }
        let error = self.least();
        if let Some(slot) = self.slots.get_mut(index) {
            if !is_new {
                self.slot_of.remove(&slot.hash);
            }
            (slot.hash, slot.error) = (hash, error);
            write(&mut slot.name);
            self.slot_of.insert(hash, index);
            if is_new {
                slot.place = self.heap.len();
                self.heap.push(Node { count: 0, slot: index });
                if self.is_full() {
                    self.put_in_order();
                }
            }
        }
        index
    }

    fn put_in_order(&mut self) {
        self.heap.sort_unstable_by_key(|node| node.count);
        for (place, node) in self.heap.iter().enumerate() {
            if let Some(slot) = self.slots.get_mut(node.slot) {
                slot.place = place;
            }
        }
    }

    /// Moves a node whose count has grown down to where it belongs.
    fn sink(&mut self, mut place: usize) {
        let Some(node) = self.heap.get(place).copied() else { return };
        loop {
            let children = [2 * place + 1, 2 * place + 2];
            let child = |at: usize| Some((at, *self.heap.get(at)?));
            let least = children.into_iter().filter_map(child).min_by_key(|(_, child)| child.count);
            match least {
                Some((at, least)) if least.count < node.count => {
                    self.put(place, least);
                    place = at;
                }
                _ => break,
            }
        }
        self.put(place, node);
    }

    fn put(&mut self, place: usize, node: Node) {
        if let (Some(at), Some(slot)) = (self.heap.get_mut(place), self.slots.get_mut(node.slot)) {
            *at = node;
            slot.place = place;
        }
    }
}

/// What is a hash already needs no further one.
#[derive(Debug, Default)]
pub struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
