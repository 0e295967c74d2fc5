//! `sluice inspect`: what is kept of a key, in words.

use std::fmt::Write;

use jiff::Timestamp;

use crate::config::Config;
use crate::keys;
use crate::model::{self, State};
use crate::policy::{Algorithm, Limit};
use crate::store::{DialError, Kept, Store, StoreError};

/// Why there is nothing to tell.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// A policy that is not in the configuration.
    #[error("there is no policy {0:?} in the configuration; it has {1}")]
    UnknownPolicy(String, String),
    /// What the store needs can't be used.
    #[error("store: {0}")]
    Connect(#[from] DialError),
    /// The store doesn't answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Looks a key up in the configuration's store and tells what is there. Nothing is changed.
///
/// # Errors
///
/// If there is no such policy, or if the store doesn't answer.
pub async fn run(config: &Config, policy: &str, parts: &[String]) -> Result<String, InspectError> {
    let Some(found) = config.policies.get(policy) else {
        let mut names: Vec<&str> = config.policies.keys().map(String::as_str).collect();
        names.sort_unstable();
        return Err(InspectError::UnknownPolicy(policy.to_owned(), names.join(", ")));
    };
    let key = keys::state_key(policy, parts);
    let Some(limit) = found.limit_for(parts) else {
        return Ok(format!("{key}\nhas no limit: an override frees it\n"));
    };
    let store = Store::connect(&config.store)?;
    Ok(format!("{key}\n{}", describe(&store.kept(&key).await?, &limit)))
}

fn describe(kept: &Kept, limit: &Limit) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        // Writing into a String never fails.
        let _ = writeln!(text, "  {name:<10}{value}");
    };
    line("limit", &limit.to_string());
    let state = kept.state.as_deref().map(str::parse::<State>);
    match (&kept.state, kept.ttl_ms) {
        (Some(text), Some(ttl_ms)) => line("state", &format!("{text}, for {} more", seconds(ttl_ms * 1_000))),
        (Some(text), None) => line("state", &format!("{text}, without a TTL: not from Sluice")),
        (None, _) => line("state", "none"),
    }
    let state = match state {
        Some(Err(error)) => {
            line("means", &format!("nothing: {error}"));
            None
        }
        Some(Ok(state)) => {
            line("means", &meaning(&state, limit, kept.now_us));
            Some(state)
        }
        None => None,
    };
    let now = model::decide(state.as_ref(), kept.now_us, limit, 0).outcome;
    line("remaining", &format!("{} now", now.remaining));
    if now.reset_us > 0 {
        let at = instant(kept.now_us + now.reset_us);
        line("reset", &format!("in {}, at {at}, if nothing else is taken", seconds(now.reset_us)));
    }
    text
}

/// What the text under a key says, whatever the limit is now.
fn meaning(state: &State, limit: &Limit, now_us: u64) -> String {
    let when = |time_us: u64| match time_us.checked_sub(now_us) {
        Some(left_us) => format!("{}, in {}", instant(time_us), seconds(left_us)),
        None => format!("{}, {} ago", instant(time_us), seconds(now_us - time_us)),
    };
    let fits = matches!(
        (state, limit.algorithm),
        (State::FixedWindow { .. }, Algorithm::FixedWindow { .. })
            | (State::SlidingWindow { .. }, Algorithm::SlidingWindow)
            | (State::TokenBucket { .. }, Algorithm::TokenBucket { .. })
    );
    let text = match state {
        State::FixedWindow { count, end_us, .. } => {
            format!("{count} taken in the window that ends at {}", when(*end_us))
        }
        State::SlidingWindow { index, current, previous, period_us } => format!(
            "{current} taken in the window that ends at {}, {previous} in the one before",
            when((index + 1).saturating_mul(*period_us))
        ),
        State::TokenBucket { full_at_us, .. } => format!("full again at {}", when(*full_at_us)),
    };
    if fits { text } else { format!("{text}; written under another algorithm, of which what is used counts") }
}

fn instant(time_us: u64) -> String {
    let time = i64::try_from(time_us).ok().and_then(|time_us| Timestamp::from_microsecond(time_us).ok());
    time.map_or_else(|| format!("{time_us} µs"), |time| time.to_string())
}

fn seconds(us: u64) -> String {
    format!("{}.{:03} s", us / 1_000_000, us / 1_000 % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Rate;

    const NOW: u64 = 1_796_041_503_000_000;

    fn told(algorithm: Algorithm, state: Option<&str>) -> Vec<String> {
        let limit = Limit { algorithm, rate: Rate { count: 10, period_us: 1_000_000 }, shadow: false };
        let kept = Kept { state: state.map(str::to_owned), ttl_ms: state.map(|_| 1_500), now_us: NOW };
        describe(&kept, &limit).lines().map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn states_are_told_in_words() {
        assert_eq!(
            told(Algorithm::TokenBucket { burst: 20 }, Some("t:1796041503250000:0:10:1000000")),
            [
                "limit     token_bucket 10/s, burst 20",
                "state     t:1796041503250000:0:10:1000000, for 1.500 s more",
                "means     full again at 2026-11-30T12:25:03.25Z, in 0.250 s",
                "remaining 17 now",
                "reset     in 0.250 s, at 2026-11-30T12:25:03.25Z, if nothing else is taken",
            ]
        );
        assert_eq!(
            told(Algorithm::FixedWindow { align: false }, Some("f:4:1796041503500000:1000000"))[2..4],
            ["means     4 taken in the window that ends at 2026-11-30T12:25:03.5Z, in 0.500 s", "remaining 6 now"]
        );
        assert_eq!(
            told(Algorithm::SlidingWindow, Some("s:1796041503:3:6:1000000"))[2..4],
            [
                "means     3 taken in the window that ends at 2026-11-30T12:25:04Z, in 1.000 s, 6 in the one before",
                "remaining 1 now"
            ]
        );
        assert_eq!(
            told(Algorithm::SlidingWindow, None),
            ["limit     sliding_window 10/s", "state     none", "remaining 10 now"]
        );
    }

    #[test]
    fn what_does_not_count_is_said_not_to() {
        let foreign = told(Algorithm::SlidingWindow, Some("t:1796041503250000:0:10:1000000"));
        assert!(foreign[2].ends_with("written under another algorithm, of which what is used counts"), "{foreign:?}");
        assert_eq!(foreign[3], "remaining 7 now");
        let garbage = told(Algorithm::SlidingWindow, Some("x"));
        assert_eq!(garbage[2], "means     nothing: this is not a state that Sluice wrote");
    }
}
