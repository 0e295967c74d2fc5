//! The configuration as it stands in the file, and its way into a [`Config`].

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::de::{DeserializeOwned, DeserializeSeed, Error as _};
use serde::{Deserialize, Deserializer};

use super::error::{FieldError, PolicyError};
use super::listeners::{AdminFile, Auth, Tls};
use super::store::{OnStoreErrorName, StoreFile, share};
use super::{Config, Limits};
use crate::policy::{
    Algorithm, Effect, LeaseTerms, Limit, MAX_COUNT, MAX_REFILL_US, Override, Overrides, Pattern, Policy, Rate, rate,
};
use crate::store::{Share, StoreAddress, StoreSettings};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default = "default_listen")]
    listen: SocketAddr,
    #[serde(default)]
    admin: AdminFile,
    auth: Option<Auth>,
    tls: Option<Tls>,
    store: Option<StoreFile>,
    #[serde(default = "default_store_timeout", deserialize_with = "store_timeout")]
    store_timeout: Duration,
    #[serde(default)]
    on_store_error: OnStoreErrorName,
    #[serde(default = "default_replicas")]
    replicas: NonZeroU32,
    #[serde(default, deserialize_with = "share")]
    local_share: Option<Share>,
    #[serde(default)]
    limits: LimitsFile,
    #[serde(deserialize_with = "policies")]
    policies: BTreeMap<PolicyName, PolicyFile>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct LimitsFile {
    body_bytes: Option<usize>,
    batch_checks: Option<usize>,
    request_checks: Option<usize>,
    key_bytes: Option<usize>,
    in_flight: Option<NonZeroUsize>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct PolicyName(String);

/// A policy, checked as a whole.
#[derive(Deserialize)]
#[serde(try_from = "PolicyFields")]
struct PolicyFile(Policy);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFields {
    algorithm: AlgorithmName,
    #[serde(deserialize_with = "from_text")]
    rate: Rate,
    burst: Option<u64>,
    #[serde(default)]
    align: bool,
    #[serde(default)]
    shadow: bool,
    lease: Option<LeaseFields>,
    #[serde(default)]
    overrides: Vec<OverrideFields>,
}

/// How tokens may be taken ahead.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaseFields {
    #[serde(default = "default_lease_max", deserialize_with = "lease_max")]
    max: u64,
    #[serde(default, deserialize_with = "share")]
    share: Option<Share>,
    #[serde(default = "default_lease_ttl", deserialize_with = "lease_ttl")]
    ttl: Duration,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum AlgorithmName {
    FixedWindow,
    SlidingWindow,
    TokenBucket,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OverrideFields {
    key: KeyFile,
    #[serde(default, deserialize_with = "some_from_text")]
    rate: Option<Rate>,
    burst: Option<u64>,
    #[serde(default)]
    unlimited: bool,
    #[serde(default)]
    blocked: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum KeyFile {
    One(String),
    Parts(Vec<String>),
}

fn default_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 8080))
}

fn default_store_timeout() -> Duration {
    StoreSettings::DEFAULT_TIMEOUT
}

/// Ten per cent of what remains: nearly all of a limit can be had, and a lease that is lost is no great loss.
const DEFAULT_LEASE_SHARE: f64 = 0.1;

fn default_lease_max() -> u64 {
    100
}

fn default_lease_ttl() -> Duration {
    Duration::from_millis(250)
}

fn default_replicas() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// Reads YAML. An error names the place and the path of the field.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, FieldError> {
    read_with(text, PhantomData)
}

/// The same for what a seed makes of it.
pub(super) fn read_with<'de, S: DeserializeSeed<'de>>(text: &'de str, seed: S) -> Result<S::Value, FieldError> {
    let mut place = None;
    let value = serde_saphyr::with_deserializer_from_str(text, |deserializer| {
        let mut track = serde_path_to_error::Track::new();
        let value = seed.deserialize(serde_path_to_error::Deserializer::new(deserializer, &mut track));
        place = value.is_err().then(|| track.path().to_string());
        value
    });
    value.map_err(|error| {
        let (line, column) = error.location().map_or((1, 1), |location| (location.line(), location.column()));
        let text = error.without_snippet().to_string();
        // The message ends with the place, which is told in front of it.
        let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message).to_owned();
        let field = place.filter(|path| path != ".").unwrap_or_else(|| "the configuration".to_owned());
        FieldError { line, column, field, message }
    })
}

pub(super) fn parse(text: &str) -> Result<Config, FieldError> {
    let file: File = read(text)?;
    let default = Limits::default();
    let store = file.store.unwrap_or_else(|| StoreFile::from(StoreAddress::Memory));
    let share = file.local_share.unwrap_or_else(|| Share::of(file.replicas.get()));
    Ok(Config {
        listen: file.listen,
        admin: file.admin.0,
        auth: file.auth,
        tls: file.tls,
        store: StoreSettings {
            address: store.address,
            username: store.username,
            password_file: store.password_file,
            tls: store.tls,
            sentinel: store.sentinel,
            timeout: file.store_timeout,
            in_flight: file.limits.in_flight.unwrap_or(StoreSettings::DEFAULT_IN_FLIGHT),
            on_error: file.on_store_error.with_share(share),
        },
        replicas: file.replicas,
        limits: Limits {
            body_bytes: file.limits.body_bytes.unwrap_or(default.body_bytes),
            batch_checks: file.limits.batch_checks.unwrap_or(default.batch_checks),
            request_checks: file.limits.request_checks.unwrap_or(default.request_checks),
            key_bytes: file.limits.key_bytes.unwrap_or(default.key_bytes),
        },
        policies: file.policies.into_iter().map(|(name, policy)| (name.0, policy.0)).collect(),
    })
}

impl TryFrom<PolicyFields> for PolicyFile {
    type Error = PolicyError;

    fn try_from(fields: PolicyFields) -> Result<Self, PolicyError> {
        let PolicyFields { algorithm, rate, burst, align, shadow, lease, overrides } = fields;
        let kind = Kind { algorithm, align, shadow };
        let limit = kind.limit(rate, burst)?;
        let overrides =
            overrides.into_iter().map(|fields| fields.into_override(kind)).collect::<Result<Vec<_>, PolicyError>>()?;
        if lease.is_some() && shadow {
            return Err(PolicyError::LeaseOfShadow);
        }
        Ok(Self(Policy { lease: lease.map(LeaseTerms::from), limit, overrides: Overrides::new(overrides) }))
    }
}

impl From<LeaseFields> for LeaseTerms {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share is above 0 and at most 1")]
    fn from(fields: LeaseFields) -> Self {
        let share = fields.share.map_or(DEFAULT_LEASE_SHARE, Share::get);
        Self {
            max: fields.max,
            share_ppm: (share * 1e6).round() as u32,
            ttl_us: u64::try_from(fields.ttl.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

/// What the overrides of a policy share with it.
#[derive(Clone, Copy)]
struct Kind {
    algorithm: AlgorithmName,
    align: bool,
    shadow: bool,
}

impl Kind {
    fn limit(self, rate: Rate, burst: Option<u64>) -> Result<Limit, PolicyError> {
        let Self { algorithm, align, shadow } = self;
        if align && !matches!(algorithm, AlgorithmName::FixedWindow) {
            return Err(PolicyError::AlignWithoutWindow);
        }
        if burst.is_some() && !matches!(algorithm, AlgorithmName::TokenBucket) {
            return Err(PolicyError::BurstWithoutBucket);
        }
        let algorithm = match algorithm {
            AlgorithmName::FixedWindow => Algorithm::FixedWindow { align },
            AlgorithmName::SlidingWindow => Algorithm::SlidingWindow,
            AlgorithmName::TokenBucket => {
                let burst = burst.unwrap_or(rate.count);
                if !(1..=MAX_COUNT).contains(&burst) {
                    return Err(PolicyError::Burst(burst));
                }
                if u128::from(burst) * u128::from(rate.period_us) > MAX_REFILL_US * u128::from(rate.count) {
                    return Err(PolicyError::Refill { burst, rate: rate.to_string() });
                }
                Algorithm::TokenBucket { burst }
            }
        };
        Ok(Limit { algorithm, rate, shadow })
    }
}

impl OverrideFields {
    fn into_override(self, kind: Kind) -> Result<Override, PolicyError> {
        let effect = match (self.rate, self.unlimited, self.blocked) {
            (Some(rate), false, false) => Effect::Limit(kind.limit(rate, self.burst)?),
            (None, _, _) if self.burst.is_some() => return Err(PolicyError::BurstWithoutRate),
            (None, true, false) => Effect::Unlimited,
            (None, false, true) => Effect::Blocked,
            _ => return Err(PolicyError::Override),
        };
        let parts = match self.key {
            KeyFile::One(part) => vec![part],
            KeyFile::Parts(parts) => parts,
        };
        Ok(Override { key: parts.into_iter().map(Pattern::new).collect(), effect })
    }
}

impl<'de> Deserialize<'de> for PolicyName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        if (1..=64).contains(&name.len()) && name.bytes().all(is_allowed) {
            Ok(Self(name))
        } else {
            Err(D::Error::custom(format_args!(
                "{name:?} is no name for a policy: use 1 to 64 of the letters A to Z and a to z, digits, and \"_.-\""
            )))
        }
    }
}

fn policies<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<PolicyName, PolicyFile>, D::Error> {
    let policies = BTreeMap::deserialize(deserializer)?;
    if policies.is_empty() { Err(D::Error::custom("at least one policy is needed")) } else { Ok(policies) }
}

pub(super) fn from_text<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<T, D::Error>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

fn some_from_text<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    from_text(deserializer).map(Some)
}

fn store_timeout<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    duration_within(deserializer, 1_000..=10_000_000, "1ms to 10s, such as 50ms")
}

fn lease_ttl<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    duration_within(deserializer, 10_000..=60_000_000, "10ms to 1m, such as 250ms")
}

fn lease_max<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match u64::deserialize(deserializer)? {
        max @ 1..=MAX_COUNT => Ok(max),
        max => Err(D::Error::custom(format_args!("{max} is out of range, it can be 1 to {MAX_COUNT}"))),
    }
}

fn duration_within<'de, D: Deserializer<'de>>(
    deserializer: D,
    range_us: RangeInclusive<u64>,
    words: &str,
) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    match rate::duration_us(&text) {
        Ok(us) if range_us.contains(&us) => Ok(Duration::from_micros(us)),
        _ => Err(D::Error::custom(format_args!("{text:?} is not a duration from {words}"))),
    }
}
