//! The answers of the admin listener in words, for people.

use std::fmt::Write;

use super::{Forgotten, Inspection, Peeked, PolicyEntry, PolicyList, Reloaded};
use crate::inspect::{instant, seconds};
use crate::top::{Entry, Report};

/// An answer, as text. `cost` is only for a peek's.
pub trait Told {
    /// Lines, each with its end.
    fn text(&self) -> String;
}

impl Told for PolicyList {
    fn text(&self) -> String {
        let row = |policy: &PolicyEntry| {
            let lease = policy.lease.map_or("-".to_owned(), |lease| {
                format!("{} for {} ms, {} % of what remains", lease.max, lease.ttl_ms, lease.share * 100.0)
            });
            [policy.name.clone(), policy.limit_text.clone(), policy.overrides.to_string(), lease]
        };
        table(["POLICY", "LIMIT", "OVERRIDES", "LEASES"], self.policies.iter().map(row).collect())
    }
}

impl Told for Report {
    fn text(&self) -> String {
        let row = |entry: &Entry| {
            let checks = match entry.error {
                0 => entry.checks.to_string(),
                error => format!("{} to {}", entry.checks.saturating_sub(error), entry.checks),
            };
            let cut = if entry.cut { " (cut)" } else { "" };
            [checks, entry.policy.clone(), words(&entry.key) + cut]
        };
        let part = |title: &str, counted: &str, entries: &[Entry]| match entries {
            [] => format!("{title}: none in the last {} s\n", self.window_s),
            entries => {
                let rows = table([counted, "POLICY", "KEY"], entries.iter().map(row).collect());
                format!("{title} in the last {} s\n{rows}", self.window_s)
            }
        };
        let hottest = part("The most asked about", "CHECKS", &self.hottest);
        format!("{hottest}\n{}", part("The most denied", "DENIED", &self.most_denied))
    }
}

impl Told for Inspection {
    fn text(&self) -> String {
        let mut text = format!("{}\n", self.redis_key);
        line(&mut text, "limit", &self.limit_text);
        if self.unlimited {
            return text;
        }
        match (&self.state, self.ttl_ms) {
            (Some(state), Some(ttl_ms)) => {
                line(&mut text, "state", &format!("{}, for {} more", shown(state), seconds(ttl_ms * 1_000)));
            }
            (Some(state), None) => {
                line(&mut text, "state", &format!("{}, without a TTL: not from Sluice", shown(state)));
            }
            (None, _) => line(&mut text, "state", "none"),
        }
        if let Some(meaning) = &self.meaning {
            line(&mut text, "means", meaning);
        }
        line(&mut text, "remaining", &format!("{} now", self.remaining));
        if self.reset_ms > 0 {
            let at = self.now_ms.map(|now_ms| format!(", at {}", instant((now_ms + self.reset_ms) * 1_000)));
            let (reset, at) = (seconds(self.reset_ms * 1_000), at.unwrap_or_default());
            line(&mut text, "reset", &format!("in {reset}{at}, if nothing else is taken"));
        }
        text
    }
}

impl Told for Peeked {
    fn text(&self) -> String {
        let verdict = &self.verdict;
        let mut text = String::new();
        let answer = match (verdict.allowed, verdict.shadow) {
            (true, _) => "it would be allowed",
            (false, false) => "it would be denied",
            (false, true) => "it would be denied, but the policy is only tried out",
        };
        line(&mut text, "answer", answer);
        if verdict.unlimited {
            line(&mut text, "limit", "none: an override frees this key");
            return text;
        }
        if self.degraded {
            line(&mut text, "degraded", "the store can't decide: this is what on_store_error says");
        }
        line(&mut text, "limit", &format!("{} per {}", verdict.limit, seconds(verdict.period_ms * 1_000)));
        line(&mut text, "remaining", &format!("{} now", verdict.remaining));
        match verdict.retry_after_ms {
            Some(0) => {}
            Some(retry_ms) => line(&mut text, "retry", &format!("in {}", seconds(retry_ms * 1_000))),
            None => line(&mut text, "retry", "waiting doesn't help"),
        }
        if verdict.reset_ms > 0 {
            line(&mut text, "reset", &format!("in {}, if nothing else is taken", seconds(verdict.reset_ms * 1_000)));
        }
        text
    }
}

impl Told for Forgotten {
    fn text(&self) -> String {
        let name = format!("{} {}", self.policy, words(&self.key));
        let name = name.trim_end();
        if self.existed {
            format!("{name}: reset, the whole limit is there again\n")
        } else {
            format!("{name}: nothing was kept of this key, so that there was nothing to reset\n")
        }
    }
}

impl Told for Reloaded {
    fn text(&self) -> String {
        let Self { generation, changed, restart_needed } = self;
        let mut text = if *changed {
            format!("the configuration was read again: generation {generation} is in force\n")
        } else {
            format!("policies and limits are the same: generation {generation} stays in force\n")
        };
        if !restart_needed.is_empty() {
            // Writing into a String never fails.
            let _ = writeln!(text, "changed as well, but only in force after a restart: {}", restart_needed.join(", "));
        }
        text
    }
}

fn line(text: &mut String, name: &str, value: &str) {
    // Writing into a String never fails.
    let _ = writeln!(text, "  {name:<10}{value}");
}

/// Rows below a head, in columns. The last one is as wide as it is.
fn table<const N: usize>(head: [&str; N], rows: Vec<[String; N]>) -> String {
    let mut widths = head.map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in std::iter::once(head.map(str::to_owned)).chain(rows) {
        let mut line = String::from(" ");
        for (width, cell) in widths.iter().zip(&row) {
            // Writing into a String never fails.
            let _ = write!(line, " {cell:<width$} ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The parts of a key as words of a shell, to be given to another command.
fn words(key: &[String]) -> String {
    key.iter().map(|part| word(part)).collect::<Vec<_>>().join(" ")
}

/// Clients choose keys, and what a terminal takes for a command must not reach it.
fn word(part: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-._~@:/+=,%".contains(char);
    if !part.is_empty() && part.chars().all(is_plain) {
        part.to_owned()
    } else if part.chars().all(is_printable) {
        format!("'{}'", part.replace('\'', r"'\''"))
    } else {
        let mut text = String::from("$'");
        for char in part.chars() {
            match char {
                '\'' | '\\' => text.extend(['\\', char]),
                _ if is_printable(char) => text.push(char),
                // Writing into a String never fails.
                _ => drop(write!(text, "\\U{:08x}", u32::from(char))),
            }
        }
        text + "'"
    }
}

/// What is not from Sluice may hold anything.
fn shown(state: &str) -> String {
    if state.chars().all(is_printable) { state.to_owned() } else { word(state) }
}

/// Whether a character is one that is seen, and turns nothing around.
fn is_printable(char: char) -> bool {
    // It is told apart from its escape; quotes and backslashes are seen as they are.
    matches!(char, '\'' | '"' | '\\') || char.escape_debug().count() == 1
}

/// JSON that a terminal can be shown: what is escaped means the same.
pub fn json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if is_printable(char) {
            shown.push(char);
        } else {
            for unit in char.encode_utf16(&mut [0; 2]) {
                // Writing into a String never fails.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use sluice_filter::wire::Verdict;

    use super::*;

    fn inspection() -> Inspection {
        Inspection {
            policy: "p".to_owned(),
            key: vec!["k".to_owned()],
            redis_key: "sluice:{k}:p:k".to_owned(),
            limit_text: "token_bucket 10/s, burst 20".to_owned(),
            state: Some("t:1796041503250000:0:10:1000000".to_owned()),
            ttl_ms: Some(1_500),
            meaning: Some("full again".to_owned()),
            remaining: 17,
            reset_ms: 250,
            unlimited: false,
            now_ms: Some(1_796_041_503_000),
        }
    }

    #[test]
    fn a_key_is_told_line_by_line() {
        let expected = "\
sluice:{k}:p:k
  limit     token_bucket 10/s, burst 20
  state     t:1796041503250000:0:10:1000000, for 1.500 s more
  means     full again
  remaining 17 now
  reset     in 0.250 s, at 2026-11-30T12:25:03.25Z, if nothing else is taken
";
        assert_eq!(inspection().text(), expected);
        let none = Inspection { state: None, ttl_ms: None, meaning: None, reset_ms: 0, ..inspection() };
        assert_eq!(none.text().lines().skip(2).collect::<Vec<_>>(), ["  state     none", "  remaining 17 now"]);
        let foreign = Inspection { state: Some("\x1b[2J".to_owned()), ttl_ms: None, ..inspection() };
        assert!(foreign.text().contains("$'\\U0000001b[2J', without a TTL: not from Sluice"), "{}", foreign.text());
        let free = Inspection { unlimited: true, limit_text: "no limit".to_owned(), ..inspection() };
        assert_eq!(free.text(), "sluice:{k}:p:k\n  limit     no limit\n");
    }

    #[test]
    fn a_verdict_is_told_with_what_helps() {
        let verdict = Verdict {
            policy: "p".to_owned(),
            allowed: false,
            limit: 5,
            period_ms: 60_000,
            remaining: 0,
            reset_ms: 59_769,
            retry_after_ms: Some(1_250),
            charge: None,
            lease: None,
            unlimited: false,
            shadow: false,
        };
        let text = |verdict: Verdict, degraded| Peeked { verdict, degraded }.text();
        let expected = "  answer    it would be denied
  limit     5 per 60.000 s
  remaining 0 now
  retry     in 1.250 s
  reset     in 59.769 s, if nothing else is taken
";
        assert_eq!(text(verdict.clone(), false), expected);
        assert!(text(verdict.clone(), true).contains("what on_store_error says"));
        let never = Verdict { retry_after_ms: None, shadow: true, ..verdict.clone() };
        let never = text(never, false);
        assert!(never.contains("waiting doesn't help") && never.contains("only tried out"), "{never}");
        let free = Verdict { allowed: true, unlimited: true, ..verdict };
        assert_eq!(
            text(free, false),
            "  answer    it would be allowed\n  limit     none: an override frees this key\n"
        );
    }

    #[test]
    fn a_key_is_shown_as_words_that_a_shell_takes() {
        for (part, expected) in [
            ("acme", "acme"),
            ("2001:db8::/64", "2001:db8::/64"),
            ("%missing", "%missing"),
            ("", "''"),
            ("a b", "'a b'"),
            ("$(reboot)", "'$(reboot)'"),
            ("it's", r"'it'\''s'"),
            ("é", "'é'"),
            ("\x1b]0;x\x07", "$'\\U0000001b]0;x\\U00000007'"),
            ("a\u{202e}b'", "$'a\\U0000202eb\\''"),
            ("\u{9b}2J", "$'\\U0000009b2J'"),
        ] {
            assert_eq!(word(part), expected);
        }
        let text = "{\"key\":[\"é\",\"\u{9b}\u{202e}\u{e0001}\"]}";
        assert_eq!(json(text), r#"{"key":["é","\u009b\u202e\udb40\udc01"]}"#);
        let read: serde_json::Value = serde_json::from_str(&json(text)).unwrap();
        assert_eq!(read, serde_json::from_str::<serde_json::Value>(text).unwrap());
    }

    #[test]
    fn tables_have_columns() {
        let entry = |key: &str, checks, error, cut| Entry {
            policy: "p".to_owned(),
            key: vec![key.to_owned(), "GET".to_owned()],
            cut,
            checks,
            error,
        };
        let hottest = vec![entry("acme", 1_250, 50, false), entry("x", 7, 0, true)];
        let report = Report { window_s: 60, hottest, most_denied: Vec::new() };
        let expected = "\
The most asked about in the last 60 s
  CHECKS        POLICY  KEY
  1200 to 1250  p       acme GET
  7             p       x GET (cut)

The most denied: none in the last 60 s
";
        assert_eq!(report.text(), expected);
    }
}
