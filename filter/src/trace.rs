//! Trace context: which trace a request belongs to, so that the sidecar's part of it shows there.
//!
//! Clients write these headers. What is not exactly as it must be is no trace, and nothing of a header is copied: an
//! identifier is read as a number, and written anew.

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::keys;

/// W3C's header.
pub const TRACEPARENT: &str = "traceparent";

/// How long [`TRACEPARENT`] is, in the version that is known. Later ones begin with the same, and may go on.
const LENGTH: usize = 55;

/// A span of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: NonZeroU128,
    /// The span of it that asks.
    pub span: NonZeroU64,
    /// Whether somebody decided that this trace is recorded.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Reads a `traceparent`, <https://www.w3.org/TR/trace-context/>.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (known, more) = text.split_at_checked(LENGTH)?;
        let [version, trace, span, flags] = parts(known)?;
        let version = hex(version, 2)?;
        if version == 0xff || !(more.is_empty() || version > 0 && more.starts_with(b"-")) {
            return None;
        }
        Self::new(hex(trace, 32)?, hex(span, 16)?, hex(flags, 2)? & 1 == 1)
    }

    /// The trace that a request asks to be recorded in, if it does: W3C's header if there is a good one, or one of the
    /// two forms of <https://github.com/openzipkin/b3-propagation>.
    pub fn of_request(headers: &[(String, Vec<u8>)]) -> Option<Self> {
        let header = |name| keys::only(headers.iter().filter(|(n, _)| n == name).map(|(_, value)| value.as_slice()));
        let context = header(TRACEPARENT).and_then(Self::parse);
        let context = context.or_else(|| header("b3").and_then(Self::parse_b3));
        let context = context.or_else(|| {
            let is_sampled = header("x-b3-sampled") == Some(b"1") || header("x-b3-flags") == Some(b"1");
            Self::of_b3(header("x-b3-traceid")?, header("x-b3-spanid")?, is_sampled)
        });
        context.filter(|context| context.is_sampled)
    }

    /// `TRACE-SPAN-SAMPLED-PARENT`, of which the last can be left out.
    fn parse_b3(text: &[u8]) -> Option<Self> {
        let (text, parent) = match parts::<4>(text) {
            Some([trace, span, sampled, parent]) => ([trace, span, sampled], Some(parent)),
            None => (parts::<3>(text)?, None),
        };
        if let Some(parent) = parent {
            hex(parent, 16)?;
        }
        let [trace, span, sampled] = text;
        match sampled {
            // Debugging is sampling that nobody may refuse.
            b"1" | b"d" => Self::of_b3(trace, span, true),
            b"0" => Self::of_b3(trace, span, false),
            _ => None,
        }
    }

    fn of_b3(trace: &[u8], span: &[u8], is_sampled: bool) -> Option<Self> {
        let trace = hex(trace, 32).or_else(|| hex(trace, 16))?;
        Self::new(trace, hex(span, 16)?, is_sampled)
    }

    /// Identifiers of zero stand for none.
    fn new(trace: u128, span: u128, is_sampled: bool) -> Option<Self> {
        let span = NonZeroU64::new(u64::try_from(span).ok()?)?;
        Some(Self { trace: NonZeroU128::new(trace)?, span, is_sampled })
    }
}

/// As a `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))
    }
}

impl Serialize for TraceContext {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads one that may be none: a trace that is not understood is no reason to refuse a decision.
pub(crate) fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<TraceContext>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| TraceContext::parse(text.as_bytes())))
}

/// As many parts as there are, between hyphens.
fn parts<const COUNT: usize>(text: &[u8]) -> Option<[&[u8]; COUNT]> {
    let mut split = text.split(|byte| *byte == b'-');
    let mut parts = [text; COUNT];
    for part in &mut parts {
        *part = split.next()?;
    }
    split.next().is_none().then_some(parts)
}

/// So many hexadecimal digits, at most 32, in lower case.
fn hex(text: &[u8], digits: usize) -> Option<u128> {
    if text.len() != digits {
        return None;
    }
    text.iter().try_fold(0, |number, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn of(headers: &[(&str, &str)]) -> Option<String> {
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
        TraceContext::of_request(&headers).map(|context| context.to_string())
    }

    #[test]
    fn a_sampled_trace_is_read_in_all_its_forms() {
        let whole = format!("00-{TRACE}-{SPAN}-01");
        let short = format!("00-0000000000000000a3ce929d0e0e4736-{SPAN}-01");
        let (b3, half) = (format!("{TRACE}-{SPAN}"), &TRACE[16..]);
        let ids = [("x-b3-traceid", TRACE), ("x-b3-spanid", SPAN)];
        let more = format!("{whole}-what-is-still-to-come");
        let table: Vec<(Vec<(&str, String)>, &str)> = vec![
            (vec![("traceparent", whole.clone())], &whole),
            (vec![("traceparent", format!("00-{TRACE}-{SPAN}-ff"))], &whole),
            (vec![("traceparent", format!("cc{}", &whole[2..]))], &whole),
            (vec![("traceparent", format!("cc{}", &more[2..]))], &whole),
            (vec![("b3", format!("{b3}-1"))], &whole),
            (vec![("b3", format!("{b3}-d"))], &whole),
            (vec![("b3", format!("{b3}-1-05e3ac9a4f6e3b90"))], &whole),
            (vec![("b3", format!("{half}-{SPAN}-1"))], &short),
            (vec![("traceparent", "00-0-0-01".to_owned()), ("b3", format!("{b3}-1"))], &whole),
        ];
        for (headers, expected) in table {
            let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(of(&headers).as_deref(), Some(expected), "{headers:?}");
        }
        for sampled in [("x-b3-sampled", "1"), ("x-b3-flags", "1")] {
            assert_eq!(of(&[ids[0], ids[1], sampled]).as_deref(), Some(whole.as_str()), "{sampled:?}");
        }
    }

    #[test]
    fn what_is_not_sampled_is_no_trace() {
        let b3 = format!("{TRACE}-{SPAN}");
        let ids = [("x-b3-traceid", TRACE), ("x-b3-spanid", SPAN)];
        assert_eq!(of(&[]), None);
        for flags in ["00", "02", "fe"] {
            let traceparent = format!("00-{TRACE}-{SPAN}-{flags}");
            // It is a decision, whatever others say.
            assert_eq!(of(&[("traceparent", &traceparent), ("b3", &format!("{b3}-1"))]), None, "{flags}");
        }
        for value in ["0".to_owned(), b3.clone(), format!("{b3}-0"), format!("{b3}-0-{SPAN}")] {
            assert_eq!(of(&[("b3", &value)]), None, "{value}");
        }
        assert_eq!(of(&ids), None);
        let twice = ("traceparent", format!("00-{TRACE}-{SPAN}-01"));
        assert_eq!(of(&[(twice.0, &twice.1), (twice.0, &twice.1)]), None, "which of them?");
        for sampled in [("x-b3-sampled", "0"), ("x-b3-flags", "0"), ("x-b3-sampled", "11"), ("x-b3-sampled", "")] {
            assert_eq!(of(&[ids[0], ids[1], sampled]), None, "{sampled:?}");
        }
    }

    #[test]
    fn what_is_no_trace_is_ignored() {
        let good = format!("00-{TRACE}-{SPAN}-01");
        let zeros = "0".repeat(32);
        let bad = [
            String::new(),
            "-".repeat(55),
            good[..54].to_owned(),
            format!("{good} "),
            format!("{good}-00"),
            format!("ff{}", &good[2..]),
            format!("cc{}.", &good[2..]),
            good.to_uppercase(),
            good.replace('-', "_"),
            good.replace("4bf9", "4bg9"),
            good.replace("4bf9", "+bf9"),
            good.replace("4bf92f", "é2f92"),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{SPAN}-{TRACE}-01"),
            format!("{good}{}", "0".repeat(100_000)),
        ];
        for value in bad {
            assert_eq!(of(&[("traceparent", &value)]), None, "{value:.100}");
        }
        assert_eq!(TraceContext::parse(&[0xff; 55]), None);
        let bad = [
            format!("{TRACE}-{SPAN}-1-"),
            format!("{TRACE}-{SPAN}-1-05e3"),
            format!("{TRACE}-{SPAN}-1-{SPAN}-{SPAN}"),
            format!("{TRACE}-{SPAN}-true"),
            format!("{zeros}-{SPAN}-1"),
            format!("{TRACE}0-{SPAN}-1"),
            format!("{TRACE}-{SPAN}0-1"),
            format!("{}-{SPAN}-1", &TRACE[1..]),
            format!("{}-{SPAN}-1", "a".repeat(100_000)),
            "1".to_owned(),
        ];
        for value in bad {
            assert_eq!(of(&[("b3", &value)]), None, "{value:.100}");
        }
        for (trace, span) in [(TRACE, "0"), ("", SPAN), (TRACE, ""), (zeros.as_str(), SPAN), (TRACE, TRACE)] {
            let headers = [("x-b3-traceid", trace), ("x-b3-spanid", span), ("x-b3-sampled", "1")];
            assert_eq!(of(&headers), None, "{headers:?}");
        }
    }
}
