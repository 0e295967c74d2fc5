//! The store's address, as written in the configuration.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

use super::secret::Secret;

/// The port of a Redis that names none.
const REDIS_PORT: u16 = 6379;

/// The port of a Sentinel that names none.
const SENTINEL_PORT: u16 = 26379;

/// Where a store is. Its `Display` and `Debug` leave user and password out.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreAddress {
    /// This process: nothing is shared with other sidecars, and nothing outlives it.
    Memory,
    /// Redis, or a server that speaks its protocol.
    Redis(Box<RedisAddress>),
}

/// Where a Redis is, and who asks.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisAddress {
    /// The servers.
    pub servers: Servers,
    /// Whether they are spoken to by TLS.
    pub tls: bool,
    /// The ACL user, the server's default one if there is none.
    pub username: Option<String>,
    /// The password that stands in the address.
    pub password: Option<Secret>,
    /// The number of the database.
    pub database: u32,
}

/// The servers of a store.
#[derive(Clone, PartialEq, Eq)]
pub enum Servers {
    /// One server, or whatever hides behind its name.
    One(Endpoint),
    /// Some nodes of a cluster: they tell of the others.
    Cluster(Vec<Endpoint>),
    /// Sentinels, which tell where the primary of this name is.
    Sentinel(Vec<Endpoint>, String),
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// A host name or an IP address (version 6 without brackets), and a port.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

/// Why a text is not an address. The text itself is not repeated: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Another scheme.
    #[error(
        "expected the address of a Redis, such as redis://127.0.0.1:6379, or memory. \
         The schemes are redis, rediss (TLS), unix, redis+cluster, rediss+cluster, redis+sentinel and rediss+sentinel"
    )]
    Scheme,
    /// A host that is none.
    #[error("no host: write {0}")]
    Host(&'static str),
    /// A port that is none.
    #[error("a port is not a number from 1 to 65535")]
    Port,
    /// Several hosts where only one is meant.
    #[error("several hosts: use the scheme redis+cluster or redis+sentinel, or name one host")]
    Hosts,
    /// A path that is no database.
    #[error("the database is not a number: write {0}")]
    Database(&'static str),
    /// A cluster has only database 0.
    #[error("a cluster has no other database than 0: leave it out")]
    ClusterDatabase,
    /// Not the name of a primary.
    #[error("no name of a primary: write redis+sentinel://HOST[:PORT][,HOST[:PORT]...]/NAME[/DATABASE]")]
    Primary,
    /// Something after a question mark.
    #[error("unknown parameter: the only one is ?db=NUMBER, of a unix:// address")]
    Parameter,
    /// A user or password that is not UTF-8.
    #[error("user and password have to be UTF-8, with special characters as %XX")]
    Login,
}

const ONE: &str = "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]";
const CLUSTER: &str = "redis+cluster://HOST[:PORT][,HOST[:PORT]...]";
const SENTINEL: &str = "redis+sentinel://HOST[:PORT][,HOST[:PORT]...]/NAME[/DATABASE]";
const UNIX: &str = "unix:///PATH[?db=DATABASE]";

impl FromStr for StoreAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text == "memory" {
            return Ok(Self::Memory);
        }
        let (scheme, rest) = text.split_once("://").ok_or(AddressError::Scheme)?;
        if scheme == "unix" {
            return unix(rest).map(Self::redis);
        }
        let (tls, kind) = match scheme.split_once('+').unwrap_or((scheme, "")) {
            ("redis", kind) => (false, kind),
            ("rediss", kind) => (true, kind),
            _ => return Err(AddressError::Scheme),
        };
        if rest.contains(['?', '#']) {
            return Err(AddressError::Parameter);
        }
        let (login, rest) = split_login(rest)?;
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (servers, database) = match kind {
            "" => match hosts_of(hosts, REDIS_PORT, ONE)?.as_slice() {
                [host] => (Servers::One(host.clone()), database(path, ONE)?),
                _ => return Err(AddressError::Hosts),
            },
            "cluster" => {
                let hosts = hosts_of(hosts, REDIS_PORT, CLUSTER)?;
                match database(path, CLUSTER)? {
                    0 => (Servers::Cluster(hosts), 0),
                    _ => return Err(AddressError::ClusterDatabase),
                }
            }
            "sentinel" => {
                let hosts = hosts_of(hosts, SENTINEL_PORT, SENTINEL)?;
                let (name, path) = path.split_once('/').unwrap_or((path, ""));
                if name.is_empty() {
                    return Err(AddressError::Primary);
                }
                (Servers::Sentinel(hosts, decode(name)?), database(path, SENTINEL)?)
            }
            _ => return Err(AddressError::Scheme),
        };
        Ok(Self::redis(RedisAddress { servers, tls, username: login.0, password: login.1, database }))
    }
}

impl StoreAddress {
    fn redis(address: RedisAddress) -> Self {
        Self::Redis(Box::new(address))
    }
}

fn unix(rest: &str) -> Result<RedisAddress, AddressError> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (login, path) = split_login(path)?;
    if !path.starts_with('/') {
        return Err(AddressError::Host(UNIX));
    }
    let database = match query.split_once('=') {
        None if query.is_empty() => 0,
        Some(("db", number)) => database(number, UNIX)?,
        _ => return Err(AddressError::Parameter),
    };
    let servers = Servers::One(Endpoint::Unix(PathBuf::from(decode(path)?)));
    Ok(RedisAddress { servers, tls: false, username: login.0, password: login.1, database })
}

type Login = (Option<String>, Option<Secret>);

/// Splits `user:password@` off. The last `@` ends it: some write one in a password without encoding it.
fn split_login(text: &str) -> Result<(Login, &str), AddressError> {
    let Some((login, rest)) = text.rsplit_once('@') else { return Ok(((None, None), text)) };
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let some = |text: &str| Ok::<_, AddressError>(Some(decode(text)?).filter(|text| !text.is_empty()));
    Ok(((some(user)?, some(password)?.map(Secret::new)), rest))
}

fn decode(text: &str) -> Result<String, AddressError> {
    percent_decode_str(text).decode_utf8().map(Into::into).map_err(|_| AddressError::Login)
}

fn database(path: &str, form: &'static str) -> Result<u32, AddressError> {
    match path {
        "" => Ok(0),
        number => number.parse().map_err(|_| AddressError::Database(form)),
    }
}

fn hosts_of(text: &str, port: u16, form: &'static str) -> Result<Vec<Endpoint>, AddressError> {
    text.split(',').map(|host| Endpoint::parse(host, port).ok_or(AddressError::Host(form))?).collect()
}

impl Endpoint {
    /// A host, with or without a port. `None` if there is no host, an error if the port is none.
    fn parse(text: &str, default_port: u16) -> Option<Result<Self, AddressError>> {
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => (host, Some(rest.strip_prefix(':').unwrap_or(""))),
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:%".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_host) {
            return None;
        }
        Some(match port.map(str::parse) {
            None => Ok(Self::Tcp(host.to_owned(), default_port)),
            Some(Ok(port @ 1..)) => Ok(Self::Tcp(host.to_owned(), port)),
            Some(_) => Err(AddressError::Port),
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Redis(address) => fmt::Display::fmt(address, f),
        }
    }
}

impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |hosts: &[Endpoint]| hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let (scheme, database) = (if self.tls { "rediss" } else { "redis" }, self.database);
        match &self.servers {
            Servers::One(Endpoint::Unix(path)) => write!(f, "unix://{}?db={database}", path.display()),
            Servers::One(host) => write!(f, "{scheme}://{host}/{database}"),
            Servers::Cluster(hosts) => write!(f, "{scheme}+cluster://{}", joined(hosts)),
            Servers::Sentinel(hosts, name) => write!(f, "{scheme}+sentinel://{}/{name}/{database}", joined(hosts)),
        }
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_in_full_but_without_their_password() {
        let table = [
            ("memory", "memory"),
            ("redis://127.0.0.1", "redis://127.0.0.1:6379/0"),
            ("redis://user:hunter2@redis.example:6380/3", "redis://redis.example:6380/3"),
            ("rediss://:hunter2@redis.example", "rediss://redis.example:6379/0"),
            ("redis://[2001:db8::1]", "redis://[2001:db8::1]:6379/0"),
            ("redis://[2001:db8::1]:7000/", "redis://[2001:db8::1]:7000/0"),
            ("unix:///run/redis.sock", "unix:///run/redis.sock?db=0"),
            ("unix://user:hunter2@/run/redis.sock?db=2", "unix:///run/redis.sock?db=2"),
            ("redis+cluster://a:1,b:2,c", "redis+cluster://a:1,b:2,c:6379"),
            ("rediss+cluster://hunter2@a/0", "rediss+cluster://a:6379"),
            ("redis+sentinel://a,b:1/main", "redis+sentinel://a:26379,b:1/main/0"),
            ("rediss+sentinel://u:hunter2@a/main/7", "rediss+sentinel://a:26379/main/7"),
        ];
        for (text, shown) in table {
            let address: StoreAddress = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(address.to_string(), shown);
            assert_eq!(format!("{address:?}"), shown);
        }
    }

    #[test]
    fn user_and_password_are_decoded() {
        let table = [
            ("redis://h", None, None),
            ("redis://u@h", Some("u"), None),
            ("redis://u:p@h", Some("u"), Some("p")),
            ("redis://:p@h", None, Some("p")),
            ("redis://u:p%40%2F%3a@h", Some("u"), Some("p@/:")),
            ("redis://u:p@x@h", Some("u"), Some("p@x")),
            ("redis://u:p:x@h", Some("u"), Some("p:x")),
        ];
        for (text, user, password) in table {
            let Ok(StoreAddress::Redis(address)) = text.parse() else { panic!("{text}") };
            assert_eq!(address.username.as_deref(), user, "{text}");
            assert_eq!(address.password.as_ref().map(Secret::reveal), password, "{text}");
        }
    }

    #[test]
    fn other_addresses_are_refused_without_repeating_them() {
        use AddressError::{ClusterDatabase, Database, Host, Hosts, Login, Parameter, Port, Primary, Scheme};
        let table = [
            ("", Scheme),
            ("127.0.0.1:6379", Scheme),
            ("http://u:hunter2@x", Scheme),
            ("redis+other://u:hunter2@x", Scheme),
            ("redis+tls://u:hunter2@x", Scheme),
            ("MEMORY", Scheme),
            ("redis://u:hunter2@x:port", Port),
            ("redis://u:hunter2@x:0", Port),
            ("redis://u:hunter2@x:65536", Port),
            ("redis://u:hunter2@x:", Port),
            ("redis://u:hunter2@[::1]6379", Port),
            ("redis://", Host(ONE)),
            ("redis://u:hunter2@", Host(ONE)),
            ("redis://hunter2 x", Host(ONE)),
            ("redis+cluster://a,,hunter2", Host(CLUSTER)),
            ("unix://hunter2/x", Host(UNIX)),
            ("redis://u:hunter2@x/db", Database(ONE)),
            ("redis://u:hunter2@x/1/2", Database(ONE)),
            ("unix:///hunter2?db=x", Database(UNIX)),
            ("redis+sentinel://a/main/hunter2", Database(SENTINEL)),
            ("redis://hunter2,b", Hosts),
            ("redis+cluster://hunter2/3", ClusterDatabase),
            ("redis+sentinel://hunter2", Primary),
            ("redis://x?password=hunter2", Parameter),
            ("unix:///x?password=hunter2", Parameter),
            ("redis://u:hunter2%FF@x", Login),
        ];
        for (text, expected) in table {
            let error = text.parse::<StoreAddress>().unwrap_err();
            assert_eq!(error, expected, "{text}");
            assert!(!error.to_string().contains("hunter2"), "{text}: {error}");
        }
    }
}
