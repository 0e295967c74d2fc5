//! Log lines about failures: the first of each kind at once, then at most one per kind every ten seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::host::Host;
use crate::line::one_line;

/// The least time between two lines of one kind.
pub const INTERVAL: Duration = Duration::from_secs(10);

/// What a log line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// The host would not wake the worker.
    Wake,
    /// A callout failed at once.
    Call,
    /// The sidecar's answer was an error, or there was none.
    Status,
    /// The sidecar's answer could not be understood.
    Malformed,
    /// The sidecar refused one request of a batch.
    Refused,
    /// A request reached its deadline.
    Deadline,
}

/// Remembers when each kind was last logged.
#[derive(Debug, Default)]
pub struct Throttle(BTreeMap<Failure, Seen>);

#[derive(Debug)]
struct Seen {
    logged: Duration,
    suppressed: u64,
}

impl Throttle {
    /// Warns of a failure, or counts it if its kind was logged a moment ago.
    pub fn warn(&mut self, host: &dyn Host, failure: Failure, message: impl FnOnce() -> String) {
        let now = host.now();
        let suppressed = match self.0.get_mut(&failure) {
            Some(seen) if now.saturating_sub(seen.logged) < INTERVAL => {
                seen.suppressed += 1;
                return;
            }
            Some(seen) => seen.suppressed,
            None => 0,
        };
        self.0.insert(failure, Seen { logged: now, suppressed: 0 });
        // Some of it may be the sidecar's words.
        let message = message();
        let message = one_line(&message);
        if suppressed == 0 {
            host.warn(&format!("sluice: {message}"));
        } else {
            host.warn(&format!("sluice: {message} ({suppressed} more like this since the last such line)"));
        }
    }
}
