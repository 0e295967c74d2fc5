//! Rate-limit headers: pure functions from verdicts to header fields, shared with the sidecar.
//!
//! Times are whole seconds, rounded up, so that a client that waits as told is allowed.

use crate::wire::Verdict;

/// One way to tell clients about their limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10.
    Ietf,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset` of draft 03, as Envoy's own filter sends them.
    XRateLimit,
}

/// How a header goes onto a response that has one of that name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// Beside it: the header is a list.
    Beside,
    /// In its place.
    InPlace,
}

/// A header field: its name in lower case, and its value.
pub type Field = (&'static str, String);

/// The largest integer of a structured field, RFC 9651.
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// How a field made here goes onto a response: `RateLimit` and `RateLimit-Policy` are lists, to which the
/// application may have added limits of its own; the `X-` headers are single values.
pub fn placed(name: &str) -> Placed {
    if name.starts_with("ratelimit") { Placed::Beside } else { Placed::InPlace }
}

/// The verdict that headers show. For an allowed request the tightest: the least remaining, then the longest
/// reset. For a denied one, of those that denied, the one with the longest retry time; one that no waiting
/// helps comes before all others. `None` if there is nothing to show: shadows and keys without a limit are
/// nobody's business.
pub fn shown(verdicts: &[Verdict], allowed: bool) -> Option<&Verdict> {
    // `max_by_key` takes the last of equals, and the first is wanted.
    let verdicts = || verdicts.iter().rev().filter(|verdict| !verdict.shadow && !verdict.unlimited);
    if !allowed {
        let denied = verdicts().filter(|verdict| !verdict.allowed);
        let longest = denied.max_by_key(|verdict| (verdict.retry_after_ms.is_none(), verdict.retry_after_ms));
        if longest.is_some() {
            return longest;
        }
    }
    let tightness = |verdict: &&Verdict| (std::cmp::Reverse(verdict.remaining), verdict.reset_ms);
    verdicts().max_by_key(tightness)
}

/// The header fields of one verdict, in the order of the dialects.
pub fn fields(verdict: &Verdict, dialects: &[Dialect]) -> Vec<Field> {
    let [mut of_limit, mut of_remaining, mut of_window, mut of_reset] = [itoa::Buffer::new(); 4];
    let name = quoted(&verdict.policy);
    let limit = of_limit.format(verdict.limit.min(MAX_INTEGER));
    let remaining = of_remaining.format(verdict.remaining.min(MAX_INTEGER));
    let window = of_window.format(seconds(verdict.period_ms).clamp(1, MAX_INTEGER));
    let reset = of_reset.format(seconds(verdict.reset_ms).min(MAX_INTEGER));
    let mut fields = Vec::with_capacity(dialects.len() * 3);
    for dialect in dialects {
        match dialect {
            Dialect::Ietf => fields.extend([
                ("ratelimit-policy", [&name, ";q=", limit, ";w=", window].concat()),
                ("ratelimit", [&name, ";r=", remaining, ";t=", reset].concat()),
            ]),
            Dialect::XRateLimit => fields.extend([
                ("x-ratelimit-limit", [limit, ", ", limit, ";w=", window, ";name=", &name].concat()),
                ("x-ratelimit-remaining", remaining.to_owned()),
                ("x-ratelimit-reset", reset.to_owned()),
            ]),
        }
    }
    fields
}

/// The value of `Retry-After` for a verdict that denied: whole seconds, at least 1. `None` if waiting doesn't
/// help.
pub fn retry_after(verdict: &Verdict) -> Option<u64> {
    verdict.retry_after_ms.map(|ms| seconds(ms).max(1))
}

/// A time as it is told: in whole seconds, rounded up.
pub fn seconds(ms: u64) -> u64 {
    ms.div_ceil(1000)
}

/// A text as it can stand in any header: what is not printable ASCII becomes `?`.
pub fn plain(text: &str) -> String {
    text.chars().map(|char| if matches!(char, ' '..='~') { char } else { '?' }).collect()
}

/// A string of a structured field. What such a string can't hold becomes `?`.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')) {
        quoted.push_str(text); // as names are
    } else {
        for char in text.chars() {
            match char {
                '"' | '\\' => quoted.extend(['\\', char]),
                ' '..='~' => quoted.push(char),
                _ => quoted.push('?'),
            }
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::{Dialect, fields, quoted, retry_after, shown};
    use crate::wire::Verdict;
    #[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    fn verdict(policy: &str, remaining: u64, reset_ms: u64) -> Verdict {
        Verdict {
            policy: policy.to_owned(),
            allowed: true,
            limit: 100,
            period_ms: 60_000,
            remaining,
            reset_ms,
            retry_after_ms: Some(0),
            charge: None,
            lease: None,
            unlimited: false,
            shadow: false,
        }
    }

    fn denied(policy: &str, retry_after_ms: Option<u64>) -> Verdict {
        Verdict { allowed: false, retry_after_ms, ..verdict(policy, 0, 1) }
    }

    #[test]
    fn shadows_and_unlimited_keys_are_not_shown() {
        let shadow = Verdict { shadow: true, ..denied("shadow", Some(9)) };
        let unlimited = Verdict { unlimited: true, ..verdict("unlimited", 0, 9) };
        let both = [shadow, unlimited];
        assert_eq!(shown(&both, true), None);
        assert_eq!(shown(&both, false), None);
        let with_real = [both.as_slice(), &[verdict("real", 5, 1)]].concat();
        assert_eq!(shown(&with_real, true).map(|verdict| verdict.policy.as_str()), Some("real"));
    }

    #[test]
    fn each_dialect_has_its_form() {
        let verdict = verdict("per-tenant", 42, 16_001);
        assert_eq!(
            fields(&verdict, &[Dialect::Ietf]),
            [
                ("ratelimit-policy", r#""per-tenant";q=100;w=60"#.to_owned()),
                ("ratelimit", r#""per-tenant";r=42;t=17"#.to_owned()),
            ]
        );
        assert_eq!(
            fields(&verdict, &[Dialect::XRateLimit]),
            [
                ("x-ratelimit-limit", r#"100, 100;w=60;name="per-tenant""#.to_owned()),
                ("x-ratelimit-remaining", "42".to_owned()),
                ("x-ratelimit-reset", "17".to_owned()),
            ]
        );
        assert_eq!(fields(&verdict, &[Dialect::XRateLimit, Dialect::Ietf]).len(), 5);
        assert!(fields(&verdict, &[]).is_empty());
    }

    #[test]
    fn times_are_rounded_up_and_windows_are_a_second_at_least() {
        let short = Verdict { period_ms: 1, ..verdict("p", 1, 1) };
        assert_eq!(fields(&short, &[Dialect::Ietf])[0].1, r#""p";q=100;w=1"#);
        assert_eq!(fields(&short, &[Dialect::Ietf])[1].1, r#""p";r=1;t=1"#);
        let none = Verdict { period_ms: 0, ..verdict("p", 1, 0) };
        assert_eq!(fields(&none, &[Dialect::Ietf])[0].1, r#""p";q=100;w=1"#);
        assert_eq!(fields(&none, &[Dialect::Ietf])[1].1, r#""p";r=1;t=0"#);
        let huge = Verdict { limit: u64::MAX, period_ms: u64::MAX, ..verdict("p", u64::MAX, u64::MAX) };
        assert_eq!(fields(&huge, &[Dialect::Ietf])[1].1, r#""p";r=999999999999999;t=999999999999999"#);
    }

    #[test]
    fn retry_after_is_never_early_and_never_zero() {
        for (ms, seconds) in [(0, 1), (1, 1), (999, 1), (1000, 1), (1001, 2), (59_000, 59), (59_999, 60)] {
            assert_eq!(retry_after(&denied("p", Some(ms))), Some(seconds), "{ms} ms");
        }
        assert_eq!(retry_after(&denied("p", None)), None);
    }

    #[test]
    fn the_tightest_is_shown() {
        let name = |verdicts: &[Verdict], allowed| shown(verdicts, allowed).map(|v| v.policy.clone());
        let list = [verdict("a", 5, 100), verdict("b", 3, 100), verdict("c", 3, 200), verdict("d", 3, 200)];
        assert_eq!(name(&list, true).as_deref(), Some("c"));
        assert_eq!(name(&list[..2], true).as_deref(), Some("b"));
        assert_eq!(name(&[], true), None);
        assert_eq!(name(&[], false), None);
    }

    #[test]
    fn a_denial_shows_the_longest_wait_of_those_that_denied() {
        let name = |verdicts: &[Verdict]| shown(verdicts, false).map(|v| v.policy.clone());
        let list = [verdict("a", 0, 9_000), denied("b", Some(10)), denied("c", Some(20)), denied("d", None)];
        assert_eq!(name(&list).as_deref(), Some("d"));
        assert_eq!(name(&list[..3]).as_deref(), Some("c"));
        assert_eq!(name(&list[..2]).as_deref(), Some("b"));
        assert_eq!(name(&list[..1]).as_deref(), Some("a"), "better than nothing");
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(quoted("per-tenant"), r#""per-tenant""#);
        assert_eq!(quoted("a\"b\\c\u{e9}\n"), r#""a\"b\\c??""#);
    }
}
