//! Reads JSON, and remembers the path of the field that can't be read.
//!
//! Crates do that for any format and any type. Here it is for what the configuration is made of, which makes the plugin
//! a good deal smaller, and an object is read from an object only: serde's derived readers would also take a list of its
//! fields' values, without their names.

use std::cell::RefCell;
use std::fmt::{self, Write};

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::ConfigError;

/// Reads a text to its end.
pub(super) fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, ConfigError> {
    let trail = RefCell::default();
    let mut reader = serde_json::Deserializer::from_slice(json);
    let value = T::deserialize(Tracked { inner: &mut reader, trail: Trail(&trail) });
    let value = value.map_err(|error| ConfigError::field(&path(&trail.borrow()), &error))?;
    reader.end().map_err(|error| ConfigError::syntax(&error))?;
    Ok(value)
}

/// A step from a value to one within it.
enum Step {
    Field(String),
    Item(usize),
}

/// The steps to the value at which reading failed, the last one first.
#[derive(Clone, Copy)]
struct Trail<'t>(&'t RefCell<Vec<Step>>);

impl Trail<'_> {
    /// Notes a step, if what was read behind it failed.
    fn after<T, E>(self, result: Result<T, E>, step: impl FnOnce() -> Step) -> Result<T, E> {
        if result.is_err() {
            self.0.borrow_mut().push(step());
        }
        result
    }
}

/// Such as `rules[0].checks[1].key[0]`.
fn path(trail: &[Step]) -> String {
    let mut path = String::new();
    for step in trail.iter().rev() {
        match step {
            Step::Item(index) => drop(write!(path, "[{index}]")), // a String takes everything
            Step::Field(name) if path.is_empty() => path.push_str(name),
            Step::Field(name) => path.extend([".", name.as_str()]),
        }
    }
    path
}

/// Part of a reader, and the trail that it leaves.
struct Tracked<'t, X> {
    inner: X,
    trail: Trail<'t>,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Tracked<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(Tracked { inner: visitor, trail: self.trail })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_option(Tracked { inner: visitor, trail: self.trail })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_seq(Tracked { inner: visitor, trail: self.trail })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_map(Object(Tracked { inner: visitor, trail: self.trail }))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.deserialize_map(visitor)
    }

    // Nothing is within the rest, so that there is nothing to track.

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_str(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_bool(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_f64(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_enum(name, variants, visitor)
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 char str bytes byte_buf unit unit_struct newtype_struct tuple
        tuple_struct identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Tracked<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<V::Value, E> {
        self.inner.visit_bool(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<V::Value, E> {
        self.inner.visit_i64(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<V::Value, E> {
        self.inner.visit_u64(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        self.inner.visit_f64(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<V::Value, E> {
        self.inner.visit_str(value)
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Tracked { inner: value, trail: self.trail })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(Items { list, trail: self.trail, next: 0 })
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Fields { object, trail: self.trail, name: String::new() })
    }
}

/// What reads an object, and nothing else.
struct Object<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Object<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(object)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Tracked<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Tracked { inner: value, trail: self.trail })
    }
}

struct Items<'t, A> {
    list: A,
    trail: Trail<'t>,
    next: usize,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Items<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let item = self.list.next_element_seed(Tracked { inner: seed, trail: self.trail });
        let index = self.next;
        self.next += 1;
        self.trail.after(item, || Step::Item(index))
    }
}

struct Fields<'t, A> {
    object: A,
    trail: Trail<'t>,
    /// Of the field that was begun.
    name: String,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        let Some(name) = self.object.next_key()? else { return Ok(None) };
        self.name = name;
        let key = seed.deserialize(StrDeserializer::new(&self.name));
        self.trail.after(key.map(Some), || Step::Field(self.name.clone()))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let value = self.object.next_value_seed(Tracked { inner: seed, trail: self.trail });
        self.trail.after(value, || Step::Field(self.name.clone()))
    }
}
