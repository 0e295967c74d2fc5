//! Everything that is to be known of a store before it is used.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use super::StoreAddress;

/// A store, as configured.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// Where it is.
    pub address: StoreAddress,
    /// The ACL user, if the address names none.
    pub username: Option<String>,
    /// A file with the password, read at every login, so that a new password needs no restart.
    pub password_file: Option<PathBuf>,
    /// How its servers prove who they are, and we to them.
    pub tls: TlsFiles,
    /// The login at Sentinels, which have one of their own.
    pub sentinel: SentinelLogin,
    /// How long a decision may take, waiting for its turn included: 1 ms to 10 s.
    pub timeout: Duration,
    /// How many batches may be in work at once, those that wait for their turn included.
    pub in_flight: NonZeroUsize,
    /// What is decided without it.
    pub on_error: OnStoreError,
}

impl StoreSettings {
    /// A store at this address, all else as if nothing were configured.
    pub fn new(address: StoreAddress) -> Self {
        Self {
            address,
            username: None,
            password_file: None,
            tls: TlsFiles::default(),
            sentinel: SentinelLogin::default(),
            timeout: Self::DEFAULT_TIMEOUT,
            in_flight: Self::DEFAULT_IN_FLIGHT,
            on_error: OnStoreError::Fail,
        }
    }

    /// A round trip within a data centre takes less than one millisecond: fifty are patience enough, and not
    /// more than a request can do without.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_millis(50);

    /// What a Redis of average speed gets through within the default timeout, and more.
    pub const DEFAULT_IN_FLIGHT: NonZeroUsize = match NonZeroUsize::new(1024) {
        Some(count) => count,
        None => NonZeroUsize::MIN,
    };
}

/// The files of a TLS client, PEM all. They are read at every connection, so that renewed ones need no
/// restart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities that are trusted, the system's if none is given.
    pub ca_file: Option<PathBuf>,
    /// Our certificate, with those between it and the authority, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that the servers' certificates have to bear, and that is told to them (SNI); the host of the
    /// address if it is not given.
    pub server_name: Option<String>,
}

/// The login at Sentinels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SentinelLogin {
    /// The ACL user.
    pub username: Option<String>,
    /// A file with the password.
    pub password_file: Option<PathBuf>,
}

/// What is decided when the store can't.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OnStoreError {
    /// Nothing: the filter is told, and does what its `on_error` says.
    Fail,
    /// Every limit is treated as used up.
    Deny,
    /// Every limit is treated as unused.
    Allow,
    /// This sidecar counts by itself, and lets pass this share of each limit.
    Local(Share),
}

/// A part of a whole: more than 0, at most 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(f64);

impl Share {
    /// This part of the whole, if it is one.
    pub fn new(share: f64) -> Option<Self> {
        (share > 0.0 && share <= 1.0).then_some(Self(share))
    }

    /// The same part for each of so many.
    pub fn of(count: u32) -> Self {
        Self(1.0 / f64::from(count.max(1)))
    }

    /// The part.
    pub fn get(self) -> f64 {
        self.0
    }
}
