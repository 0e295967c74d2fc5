//! Rates as they are written: `100/s`, `5000/10m`, `1/30s`, `3/2s`.

use std::fmt;
use std::str::FromStr;

use super::MAX_COUNT;

/// A count per duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    /// How many, 0 to [`MAX_COUNT`]; as written in a rate at least 1.
    pub count: u64,
    /// Per how many microseconds, 1 ms to 366 d.
    pub period_us: u64,
}

/// Why a rate can't be had. The texts say what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// There is no `/`.
    #[error("{0:?} is not a rate: write count/duration, such as 100/s, 5000/10m or 1/30s")]
    NoSlash(String),
    /// The count has a fraction.
    #[error("the count {0:?} is not whole: widen the duration instead, such as 3/2s for 1.5/s")]
    FractionalCount(String),
    /// The count is no number, or out of range.
    #[error(
        "the count {0:?} is not a whole number from 1 to 1000000000 (to deny everything, use an override with blocked: true)"
    )]
    Count(String),
    /// A month has no fixed length.
    #[error("{0:?} is a calendar unit, and calendar units have no fixed length: use days, such as 30d")]
    CalendarUnit(String),
    /// The duration is not a number and a unit.
    #[error(
        "{0:?} is not a duration: write a whole number and ms, s, m, h or d, such as 10m (a single one may leave the 1 out: 100/s)"
    )]
    Duration(String),
    /// The duration is too short or too long.
    #[error("the duration {0:?} is out of range: it can be 1ms to 366d")]
    DurationRange(String),
}

/// The longest period, 366 days.
pub const MAX_PERIOD_US: u64 = 366 * 86_400 * 1_000_000;
const CALENDAR_UNITS: [&str; 9] = ["w", "week", "weeks", "mo", "month", "months", "y", "year", "years"];

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let (count_text, duration) = text.split_once('/').ok_or_else(|| RateError::NoSlash(text.to_owned()))?;
        let (count_text, duration) = (count_text.trim(), duration.trim());
        if count_text.contains(['.', ',']) {
            return Err(RateError::FractionalCount(count_text.to_owned()));
        }
        let Ok(count @ 1..=MAX_COUNT) = count_text.parse() else {
            return Err(RateError::Count(count_text.to_owned()));
        };
        Ok(Self { count, period_us: duration_us(duration)? })
    }
}

/// A duration as written, in microseconds.
pub(crate) fn duration_us(text: &str) -> Result<u64, RateError> {
    let digits = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_us = match unit {
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ if CALENDAR_UNITS.contains(&unit.to_ascii_lowercase().as_str()) => {
            return Err(RateError::CalendarUnit(unit.to_owned()));
        }
        _ => return Err(RateError::Duration(text.to_owned())),
    };
    let number = if number.is_empty() { Ok(1) } else { number.parse::<u64>() };
    match number.map(|number| number.checked_mul(unit_us)) {
        Ok(Some(us @ 1_000..=MAX_PERIOD_US)) => Ok(us),
        _ => Err(RateError::DurationRange(text.to_owned())),
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.period_us;
        let units = [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000)];
        let (unit, unit_us) = units.into_iter().find(|(_, unit_us)| us.is_multiple_of(*unit_us)).unwrap_or(("us", 1));
        match us / unit_us {
            1 => write!(f, "{}/{unit}", self.count),
            number => write!(f, "{}/{number}{unit}", self.count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_written_back() {
        let table = [
            ("100/s", 100, 1_000_000, "100/s"),
            ("5000/10m", 5000, 600_000_000, "5000/10m"),
            ("1/30s", 1, 30_000_000, "1/30s"),
            ("10000/1d", 10_000, 86_400_000_000, "10000/d"),
            ("3/2s", 3, 2_000_000, "3/2s"),
            (" 7 / 250ms ", 7, 250_000, "7/250ms"),
            ("100/60s", 100, 60_000_000, "100/m"),
            ("1000000000/366d", 1_000_000_000, 366 * 86_400_000_000, "1000000000/366d"),
            ("1/30d", 1, 30 * 86_400_000_000, "1/30d"),
        ];
        for (text, count, period_us, written) in table {
            let rate = text.parse::<Rate>().unwrap();
            assert_eq!(rate, Rate { count, period_us }, "{text}");
            assert_eq!(rate.to_string(), written);
            assert_eq!(written.parse::<Rate>().unwrap(), rate);
        }
    }

    #[test]
    fn what_cannot_be_had_is_refused_with_a_hint() {
        let table = [
            ("100", "write count/duration"),
            ("100s", "write count/duration"),
            ("1.5/s", "3/2s"),
            ("1,5/s", "3/2s"),
            ("0/s", "blocked: true"),
            ("-1/s", "whole number"),
            ("1000000001/s", "1000000000"),
            ("99999999999999999999/s", "1000000000"),
            ("many/s", "whole number"),
            ("100/month", "30d"),
            ("100/2mo", "30d"),
            ("100/week", "30d"),
            ("100/y", "30d"),
            ("100/", "10m"),
            ("100/60", "10m"),
            ("100/sec", "10m"),
            ("100/1.5s", "10m"),
            ("100/-1s", "10m"),
            ("100/0s", "out of range"),
            ("100/367d", "out of range"),
            ("100/99999999999999999999d", "out of range"),
            ("100/us", "10m"),
        ];
        for (text, hint) in table {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
