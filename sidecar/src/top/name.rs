//! A policy and a key in a bounded amount of memory.

/// Bytes of a policy's name and a key together. What is longer is cut: only whoever sends such keys has to find them.
const MAX_BYTES: usize = 256;

/// Parts of a key.
const MAX_PARTS: usize = 16;

/// A policy's name, and as much of a key as is kept. Its memory is used again for the next one.
#[derive(Debug, Default)]
pub struct Name {
    text: String,
    /// Where the policy's name and each part end.
    ends: Vec<usize>,
    is_cut: bool,
}

impl Name {
    /// Becomes the name of this policy and key.
    pub fn write(&mut self, policy: &str, key: &[String]) {
        self.text.clear();
        self.ends.clear();
        self.is_cut = key.len() > MAX_PARTS;
        for piece in std::iter::once(policy).chain(key.iter().take(MAX_PARTS).map(String::as_str)) {
            let fitting = piece.floor_char_boundary(MAX_BYTES - self.text.len());
            self.text.push_str(piece.get(..fitting).unwrap_or_default());
            self.ends.push(self.text.len());
            if fitting < piece.len() {
                self.is_cut = true;
                break;
            }
        }
    }

    /// The policy's name.
    pub fn policy(&self) -> &str {
        self.pieces().next().unwrap_or_default()
    }

    /// The parts of the key, of which the last ones may be missing if it [is cut](Self::is_cut).
    pub fn key(&self) -> impl Iterator<Item = &str> {
        self.pieces().skip(1)
    }

    /// Whether this is not all of it.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    fn pieces(&self) -> impl Iterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().filter_map(move |end| {
            let piece = self.text.get(start..*end);
            start = *end;
            piece
        })
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &mut Name, policy: &str, key: &[&str]) -> (String, Vec<String>, bool) {
        name.write(policy, &key.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>());
        (name.policy().to_owned(), name.key().map(str::to_owned).collect(), name.is_cut())
    }

    #[test]
    fn a_name_is_kept_as_it_is_and_the_next_one_takes_its_place() {
        let mut name = Name::default();
        for (policy, key) in [
            ("per-tenant", &["acme", "GET"] as &[&str]),
            ("p", &[]),
            ("p", &[""]),
            ("p", &["", "é", ""]),
            ("q", &["x"]),
        ] {
            let parts: Vec<String> = key.iter().map(|part| (*part).to_owned()).collect();
            assert_eq!(written(&mut name, policy, key), (policy.to_owned(), parts, false));
        }
    }

    #[test]
    fn what_is_long_is_cut_between_characters() {
        let mut name = Name::default();
        let long = "é".repeat(10_000);
        let (policy, key, is_cut) = written(&mut name, "p", &["a", &long, "b"]);
        assert_eq!((policy.as_str(), key.len(), is_cut), ("p", 2, true));
        assert_eq!(key[1], "é".repeat((MAX_BYTES - 2) / 2));
        let many = vec![""; 16 << 10];
        assert_eq!(written(&mut name, "p", &many), ("p".to_owned(), vec![String::new(); MAX_PARTS], true));
        assert!(name.bytes() <= 2 * MAX_BYTES + 32 * size_of::<usize>(), "{}", name.bytes());
    }
}
