//! A check's name in the tables of a worker.

use crate::wire::Check;

/// Writes a name that no other policy and key have: each part stands behind its length.
pub(crate) fn write(name: &mut String, check: &Check) {
    name.clear();
    let mut digits = itoa::Buffer::new();
    for part in std::iter::once(&check.policy).chain(&check.key) {
        name.push_str(digits.format(part.len()));
        name.push(':');
        name.push_str(part);
    }
}
