//! A check's name in the tables of a worker.

use std::fmt::Write;

use crate::wire::Check;

/// Writes a name that no other policy and key have: each part stands behind its length.
pub(crate) fn write(name: &mut String, check: &Check) {
    name.clear();
    for part in std::iter::once(&check.policy).chain(&check.key) {
        let _ = write!(name, "{}:{part}", part.len()); // a String takes everything
    }
}
