//! Digests for key parts that must not be seen.

use std::fmt::{self, Write};

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// How many bytes of a digest are kept: enough that two values never share one.
const DIGEST: usize = 16;

/// The least length of a key, in bytes.
pub const MIN_HASH_KEY: usize = 16;

/// The key of all digests. Who knows it can tell whether a digest is that of a value he guesses, who doesn't can't.
#[derive(Clone)]
pub struct HashKey(Hmac<Sha256>);

impl HashKey {
    /// A key. `None` if it is too short.
    pub fn new(secret: &[u8]) -> Option<Self> {
        if secret.len() < MIN_HASH_KEY {
            return None;
        }
        Hmac::new_from_slice(secret).ok().map(Self)
    }

    /// A value's digest as a key part, such as `%hmac-0123456789abcdef0123456789abcdef`. No value can be written
    /// like that: a `%` is always followed by a digit or a letter in upper case.
    pub fn digest(&self, value: &[u8]) -> String {
        let mut mac = self.0.clone();
        mac.update(value);
        let mut text = "%hmac-".to_owned();
        for byte in mac.finalize().into_bytes().into_iter().take(DIGEST) {
            let _ = write!(text, "{byte:02x}"); // a String takes everything
        }
        text
    }
}

/// Two keys are the same if they make the same digests.
impl PartialEq for HashKey {
    fn eq(&self, other: &Self) -> bool {
        self.digest(b"") == other.digest(b"")
    }
}

impl Eq for HashKey {}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey")
    }
}
