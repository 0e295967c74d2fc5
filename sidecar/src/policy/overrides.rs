//! Exceptions for single keys: the first override that matches applies.

use std::collections::HashMap;

use super::Limit;

/// What an override does to the keys it matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Another limit.
    Limit(Limit),
    /// No limit: the check always allows and nothing is counted.
    Unlimited,
    /// The check always denies.
    Blocked,
}

/// One part of an override's key: `*` stands for any run of characters, also none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

/// One override.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// A pattern per part; it matches only keys of as many parts.
    pub key: Vec<Pattern>,
    /// What it does.
    pub effect: Effect,
}

/// All overrides of a policy, in order. Looking a key up costs the same for one exact override and for
/// thousands; each pattern before it costs a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    effects: Vec<Effect>,
    exact: HashMap<Vec<String>, usize>,
    patterns: Vec<(usize, Vec<Pattern>)>,
}

impl Pattern {
    /// A pattern from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    fn is_exact(&self) -> bool {
        !self.0.contains('*')
    }

    /// Whether the pattern stands for this text. Linear: after the first piece, which must start the text,
    /// and before the last, which must end it, each piece is taken at its first place.
    pub fn matches(&self, text: &str) -> bool {
        let mut pieces = self.0.split('*');
        let first = pieces.next().unwrap_or_default();
        let Some(mut rest) = text.strip_prefix(first) else { return false };
        let Some(last) = pieces.next_back() else { return rest.is_empty() };
        for piece in pieces {
            let Some((_, after)) = rest.split_once(piece) else { return false };
            rest = after;
        }
        rest.ends_with(last)
    }
}

impl Overrides {
    /// Puts overrides in order.
    pub fn new(overrides: Vec<Override>) -> Self {
        let mut all = Self::default();
        for (index, Override { key, effect }) in overrides.into_iter().enumerate() {
            all.effects.push(effect);
            if key.iter().all(Pattern::is_exact) {
                // A second override of the same key never applies.
                all.exact.entry(key.into_iter().map(|part| part.0).collect()).or_insert(index);
            } else {
                all.patterns.push((index, key));
            }
        }
        all
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.effects.len()
    }

    /// What the first override that matches this key does.
    pub fn find(&self, key: &[String]) -> Option<&Effect> {
        if self.effects.is_empty() {
            return None;
        }
        let exact = self.exact.get(key).copied();
        let pattern = self
            .patterns
            .iter()
            .take_while(|(index, _)| exact.is_none_or(|exact| *index < exact))
            .find(|(_, patterns)| {
                patterns.len() == key.len() && patterns.iter().zip(key).all(|(pattern, part)| pattern.matches(part))
            })
            .map(|(index, _)| *index);
        self.effects.get(pattern.or(exact)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_they_read() {
        let table = [
            ("acme", "acme", true),
            ("acme", "acme2", false),
            ("internal-*", "internal-", true),
            ("internal-*", "internal-a", true),
            ("internal-*", "xinternal-a", false),
            ("*-x", "a-x", true),
            ("*-x", "a-xy", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("ab*bc", "abc", false),
            ("a*a", "a", false),
            ("*", "", true),
            ("**", "x", true),
            ("a*é*", "aéé", true),
            ("", "", true),
            ("", "x", false),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(Pattern::new(pattern).matches(text), expected, "{pattern:?} against {text:?}");
        }
    }

    #[test]
    fn the_first_override_that_matches_applies() {
        let parts = |texts: &[&str]| texts.iter().map(|text| Pattern::new(*text)).collect();
        let key = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let overrides = Overrides::new(vec![
            Override { key: parts(&["a"]), effect: Effect::Blocked },
            Override { key: parts(&["a*"]), effect: Effect::Unlimited },
            Override { key: parts(&["ab"]), effect: Effect::Blocked },
            Override { key: parts(&["x", "*"]), effect: Effect::Blocked },
            Override { key: parts(&["a"]), effect: Effect::Unlimited },
        ]);
        assert_eq!(overrides.find(&key(&["a"])), Some(&Effect::Blocked));
        assert_eq!(overrides.find(&key(&["ab"])), Some(&Effect::Unlimited));
        assert_eq!(overrides.find(&key(&["x", "y"])), Some(&Effect::Blocked));
        assert_eq!(overrides.find(&key(&["x"])), None);
        assert_eq!(overrides.find(&key(&["x", "y", "z"])), None);
        assert_eq!(overrides.find(&key(&["b"])), None);
        assert_eq!(overrides.find(&[]), None);
        assert_eq!(Overrides::default().find(&key(&["a"])), None);
    }
}
