//! What a check costs.

use super::Facts;
use super::part::only;

/// How much a request takes, 0 to 1,000,000,000; 0 only looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cost {
    /// Always this much.
    Fixed(u64),
    /// What a request says.
    Told {
        /// Where.
        by: CostSource,
        /// More than this is this.
        max: u64,
        /// What is missing, there twice or no whole number is this.
        default: u64,
    },
}

/// Where a request says what it costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CostSource {
    /// In a header, by its name in lower case.
    Header(String),
    /// In a query parameter.
    Query(String),
}

impl Cost {
    /// What this request takes.
    pub(super) fn of(&self, facts: &Facts<'_>) -> u64 {
        let (by, max, default) = match self {
            Self::Fixed(cost) => return *cost,
            Self::Told { by, max, default } => (by, max, default),
        };
        let told = match by {
            CostSource::Header(name) => facts.header(name).and_then(|value| whole(value, *max)),
            CostSource::Query(name) => only(facts.query_values(name)).and_then(|value| whole(&value, *max)),
        };
        told.unwrap_or(*default)
    }
}

/// A number without sign or fraction, at most `max`, however long it is.
fn whole(text: &[u8], max: u64) -> Option<u64> {
    let text = text.trim_ascii();
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = text.iter().map(|byte| u64::from(byte - b'0'));
    Some(digits.fold(0_u64, |number, digit| number.saturating_mul(10).saturating_add(digit)).min(max))
}
