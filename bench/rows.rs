//! The rows of the table: what Envoy does with a request, and with how many keys.

use serde_json::{Value, json};

use super::support::plugin_config;

/// What Envoy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setup {
    /// There is no filter.
    NoFilter,
    /// The plugin is there, and no rule matches.
    NoRule,
    TokenBucket,
    FixedWindow,
    /// Both on one request.
    TwoLimits,
    /// Every key has used up its limit.
    Denied,
    /// A callout to an Envoy that always gives the same answer, which is right for one connection only.
    Callout,
    /// As `TokenBucket`, with leases.
    Leased,
}

/// What must become of every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Allowed,
    Denied,
}

/// A row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub setup: Setup,
    pub keys: u32,
}

/// How many keys there are where there are many.
pub const MANY_KEYS: u32 = 10_000;

/// What other rows are compared with.
pub const NO_RULE: Row = Row { setup: Setup::NoRule, keys: 1 };

/// All rows. The first two do nothing with a key.
pub const ROWS: [Row; 12] = [
    Row { setup: Setup::NoFilter, keys: 1 },
    NO_RULE,
    Row { setup: Setup::TokenBucket, keys: 1 },
    Row { setup: Setup::TokenBucket, keys: MANY_KEYS },
    Row { setup: Setup::FixedWindow, keys: 1 },
    Row { setup: Setup::FixedWindow, keys: MANY_KEYS },
    Row { setup: Setup::TwoLimits, keys: 1 },
    Row { setup: Setup::TwoLimits, keys: MANY_KEYS },
    Row { setup: Setup::Leased, keys: 1 },
    Row { setup: Setup::Denied, keys: 1 },
    Row { setup: Setup::Denied, keys: MANY_KEYS },
    Row { setup: Setup::Callout, keys: 1 },
];

impl Row {
    pub fn name(self) -> String {
        let keys = match (self.setup, self.keys) {
            (Setup::NoFilter | Setup::NoRule | Setup::Callout, _) => return self.setup.name().to_owned(),
            (_, 1) => "one key",
            _ => "10,000 keys",
        };
        format!("{}, {keys}", self.setup.name())
    }

    /// Whether it can be measured with this many connections.
    pub fn takes(self, connections: u32) -> bool {
        self.setup != Setup::Callout || connections == 1
    }
}

impl Setup {
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoFilter => "no filter",
            Self::NoRule => "no rule",
            Self::TokenBucket => "token bucket",
            Self::FixedWindow => "fixed window",
            Self::TwoLimits => "two limits",
            Self::Leased => "leased",
            Self::Denied => "denied",
            Self::Callout => "bare callout",
        }
    }

    pub const fn expected(self) -> Expected {
        match self {
            Self::Denied => Expected::Denied,
            _ => Expected::Allowed,
        }
    }

    /// The policies its checks name.
    pub const fn policies(self) -> &'static [&'static str] {
        match self {
            Self::NoFilter => &[],
            Self::NoRule | Self::TokenBucket | Self::Callout => &["token-bucket"],
            Self::FixedWindow => &["fixed-window"],
            Self::TwoLimits => &["token-bucket", "fixed-window"],
            Self::Leased => &["leased"],
            Self::Denied => &["once-a-day"],
        }
    }

    /// The plugin's configuration.
    pub fn plugin(self) -> Value {
        let path = if self == Self::NoRule { "/elsewhere/" } else { "/api/" };
        let check = |policy: &&str| json!({"policy": policy, "key": [{"header": "x-key"}]});
        let checks: Vec<Value> = self.policies().iter().map(check).collect();
        plugin_config(&json!([{"match": {"path": {"prefix": path}}, "checks": checks}]))
    }
}

/// The sidecar's policies. Nobody reaches the first two: what is measured is deciding, and that no request is denied
/// can be checked.
pub fn policies() -> Value {
    json!({
        "token-bucket": {"algorithm": "token_bucket", "rate": "200000/s"},
        "fixed-window": {"algorithm": "fixed_window", "rate": "12000000/60s"},
        "leased": {
            "algorithm": "token_bucket",
            "rate": "200000/s",
            "lease": {"max": 20_000, "share": 0.1, "ttl": "250ms"},
        },
        "once-a-day": {"algorithm": "fixed_window", "rate": "1/1d"},
        "blocked": {"algorithm": "fixed_window", "rate": "1/1d", "overrides": [{"key": "*", "blocked": true}]},
    })
}
