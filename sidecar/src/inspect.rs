//! What is kept of a key, in words.

use jiff::Timestamp;

use crate::admin::Inspection;
use crate::model::{self, State};
use crate::policy::{Algorithm, Limit, MAX_COUNT};
use crate::store::Kept;

/// What is kept of a key with this limit.
pub fn limited(policy: &str, key: &[String], redis_key: String, limit: &Limit, kept: Kept) -> Inspection {
    let state = kept.state.as_deref().map(str::parse::<State>);
    let meaning = state.as_ref().map(|state| match state {
        Ok(state) => meaning(state, limit, kept.now_us),
        Err(error) => format!("nothing: {error}"),
    });
    let state = state.and_then(Result::ok);
    let now = model::decide(state.as_ref(), kept.now_us, limit, 0).outcome;
    Inspection {
        policy: policy.to_owned(),
        key: key.to_vec(),
        redis_key,
        limit_text: limit.to_string(),
        state: kept.state,
        ttl_ms: kept.ttl_ms,
        meaning,
        remaining: now.remaining,
        reset_ms: now.reset_us.div_ceil(1_000),
        unlimited: false,
        now_ms: Some(kept.now_us / 1_000),
    }
}

/// A key that an override frees: nothing is kept of it.
pub fn unlimited(policy: &str, key: &[String], redis_key: String) -> Inspection {
    Inspection {
        policy: policy.to_owned(),
        key: key.to_vec(),
        redis_key,
        limit_text: "no limit: an override frees this key".to_owned(),
        state: None,
        ttl_ms: None,
        meaning: None,
        remaining: MAX_COUNT,
        reset_ms: 0,
        unlimited: true,
        now_ms: None,
    }
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

/// A time as people write it, in UTC.
pub(crate) fn instant(time_us: u64) -> String {
    let time = i64::try_from(time_us).ok().and_then(|time_us| Timestamp::from_microsecond(time_us).ok());
    time.map_or_else(|| format!("{time_us} µs"), |time| time.to_string())
}

/// A duration in seconds.
pub(crate) fn seconds(us: u64) -> String {
    format!("{}.{:03} s", us / 1_000_000, us / 1_000 % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Rate;

    const NOW: u64 = 1_796_041_503_000_000;

    fn told(algorithm: Algorithm, state: Option<&str>) -> Inspection {
        let limit = Limit { algorithm, rate: Rate { count: 10, period_us: 1_000_000 }, shadow: false };
        let kept = Kept { state: state.map(str::to_owned), ttl_ms: state.map(|_| 1_500), now_us: NOW };
        limited("p", &["k".to_owned()], "sluice:{k}:p:k".to_owned(), &limit, kept)
    }

    #[test]
    fn states_are_told_in_words_and_numbers() {
        let state = "t:1796041503250000:0:10:1000000";
        let expected = Inspection {
            policy: "p".to_owned(),
            key: vec!["k".to_owned()],
            redis_key: "sluice:{k}:p:k".to_owned(),
            limit_text: "token_bucket 10/s, burst 20".to_owned(),
            state: Some(state.to_owned()),
            ttl_ms: Some(1_500),
            meaning: Some("full again at 2026-11-30T12:25:03.25Z, in 0.250 s".to_owned()),
            remaining: 17,
            reset_ms: 250,
            unlimited: false,
            now_ms: Some(NOW / 1_000),
        };
        assert_eq!(told(Algorithm::TokenBucket { burst: 20 }, Some(state)), expected);
        for (algorithm, state, meaning, remaining) in [
            (
                Algorithm::FixedWindow { align: false },
                Some("f:4:1796041503500000:1000000"),
                Some("4 taken in the window that ends at 2026-11-30T12:25:03.5Z, in 0.500 s"),
                6,
            ),
            (
                Algorithm::SlidingWindow,
                Some("s:1796041503:3:6:1000000"),
                Some("3 taken in the window that ends at 2026-11-30T12:25:04Z, in 1.000 s, 6 in the one before"),
                1,
            ),
            (Algorithm::SlidingWindow, None, None, 10),
        ] {
            let inspection = told(algorithm, state);
            assert_eq!((inspection.meaning.as_deref(), inspection.remaining), (meaning, remaining), "{algorithm:?}");
        }
    }

    #[test]
    fn what_does_not_count_is_said_not_to() {
        let foreign = told(Algorithm::SlidingWindow, Some("t:1796041503250000:0:10:1000000"));
        let meaning = foreign.meaning.unwrap();
        assert!(meaning.ends_with("written under another algorithm, of which what is used counts"), "{meaning}");
        assert_eq!(foreign.remaining, 7);
        let garbage = told(Algorithm::SlidingWindow, Some("x"));
        assert_eq!(garbage.meaning.as_deref(), Some("nothing: this is not a state that Sluice wrote"));
        assert_eq!(garbage.remaining, 10);
    }
}
