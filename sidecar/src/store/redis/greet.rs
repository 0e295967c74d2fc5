//! The first words with a server: whether it is one that can be used.

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind, Value};

/// The oldest version that the scripts are tested with.
const OLDEST: (u32, u32) = (6, 2);

/// What a server says of itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Greeting {
    /// What somebody should know, though it works.
    pub warnings: Vec<String>,
}

/// Why a server can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ServerProblem {
    /// It wants to know who asks.
    #[error("asks for a password: give one in `store`, best by password_file")]
    NoPassword,
    /// The user may not do what is needed.
    #[error("the user lacks a right ({0}): grant it +evalsha +script|load +time +mget +set and ~sluice:*")]
    Rights(String),
    /// It is too old.
    #[error("its version is {0}, and at least 6.2 is needed (or any Valkey)")]
    Version(String),
    /// Another server is the primary.
    #[error("it is a replica, which takes no writes (READONLY): the primary is waited for")]
    Replica,
    /// It refuses for a time.
    #[error("it refuses: {0}")]
    Refuses(RedisError),
    /// It went away.
    #[error("it closed the connection: {0}; does it expect TLS (rediss://)?")]
    Lost(RedisError),
    /// It is something else.
    #[error("its answer to {0} is not one of a Redis")]
    Foreign(&'static str),
}

impl From<RedisError> for ServerProblem {
    fn from(error: RedisError) -> Self {
        match error.code() {
            None => Self::Lost(error),
            Some("NOAUTH") => Self::NoPassword,
            Some("READONLY") => Self::Replica,
            Some(_) if is_no_right(&error) => Self::Rights(error.detail().unwrap_or("NOPERM").to_owned()),
            Some(_) => Self::Refuses(error),
        }
    }
}

/// Rights may lack for the script, or within it.
fn is_no_right(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
        || error.detail().is_some_and(|detail| detail.contains("NOPERM") || detail.contains("no permissions"))
}

/// Asks a server who it is, and tells it who we are.
pub async fn greet(connection: &mut MultiplexedConnection) -> Result<Greeting, ServerProblem> {
    let hello = match ask(connection, redis::cmd("HELLO")).await {
        Ok(answer) => Hello::read(&answer).ok_or(ServerProblem::Foreign("HELLO"))?,
        // It came with 6.0.
        Err(error) if error.to_string().contains("unknown command") => {
            return Err(ServerProblem::Version("older than 6.0".to_owned()));
        }
        Err(error) => return Err(ServerProblem::from(error)),
    };
    if hello.is_redis && !is_new_enough(&hello.version) {
        return Err(ServerProblem::Version(hello.version));
    }
    if hello.role != "master" {
        return Err(ServerProblem::Replica);
    }
    let mut set_name = redis::cmd("CLIENT");
    set_name.arg("SETNAME").arg("sluice");
    if let Err(error) = ask(connection, set_name).await {
        // Nothing depends on it, and not every user may.
        tracing::debug!(%error, "the connection has no name");
    }
    let mut info = redis::cmd("INFO");
    info.arg("memory");
    let warnings = match ask(connection, info).await {
        Ok(answer) => eviction(&String::from_redis_value(answer).unwrap_or_default()).into_iter().collect(),
        Err(error) => {
            tracing::debug!(%error, "it is not known whether the server evicts keys");
            Vec::new()
        }
    };
    Ok(Greeting { warnings })
}

async fn ask(connection: &mut MultiplexedConnection, command: Cmd) -> Result<Value, RedisError> {
    connection.req_packed_command(&command).await.and_then(Value::extract_error)
}

/// What `HELLO` says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Hello {
    is_redis: bool,
    version: String,
    role: String,
}

impl Hello {
    fn read(answer: &Value) -> Option<Self> {
        let Value::Array(words) = answer else { return None };
        let mut hello = Self::default();
        for pair in words.chunks_exact(2) {
            let [name, value] = pair else { continue };
            let text = |value: &Value| String::from_redis_value_ref(value).unwrap_or_default();
            match text(name).as_str() {
                "server" => hello.is_redis = text(value) == "redis",
                "version" => hello.version = text(value),
                "role" => hello.role = text(value),
                _ => {}
            }
        }
        (!hello.version.is_empty() && !hello.role.is_empty()).then_some(hello)
    }
}

fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= OLDEST
}

/// A warning, if this server may drop keys before their time.
fn eviction(info: &str) -> Option<String> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let (limit, policy) = (field("maxmemory")?, field("maxmemory_policy")?);
    (limit != "0" && policy != "noeviction").then(|| {
        format!(
            "the server may drop counts when its memory is full (maxmemory-policy {policy}), and limits are then not \
             held: set noeviction, or give Sluice a server of its own"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let table =
            [("6.2.5", true), ("6.0.16", false), ("7.0.15", true), ("10.1", true), ("5.9", false), ("x", false)];
        for (version, expected) in table {
            assert_eq!(is_new_enough(version), expected, "{version}");
        }
    }

    #[test]
    fn hello_is_read_whatever_else_it_says() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let words = ["server", "redis", "version", "7.0.15", "proto", "2", "mode", "standalone", "role", "master"];
        let answer = Value::Array(words.map(text).to_vec());
        let hello = Hello { is_redis: true, version: "7.0.15".to_owned(), role: "master".to_owned() };
        assert_eq!(Hello::read(&answer), Some(hello));
        for foreign in [Value::Okay, Value::Array(vec![]), Value::Array(vec![text("version")])] {
            assert_eq!(Hello::read(&foreign), None);
        }
    }

    #[test]
    fn only_a_server_that_may_evict_is_warned_of() {
        let info =
            |limit, policy| format!("# Memory\r\nused_memory:1\r\nmaxmemory:{limit}\r\nmaxmemory_policy:{policy}\r\n");
        assert!(eviction(&info("1048576", "allkeys-lru")).unwrap().contains("allkeys-lru"));
        assert!(eviction(&info("1048576", "volatile-ttl")).is_some());
        assert!(eviction(&info("1048576", "noeviction")).is_none());
        assert!(eviction(&info("0", "allkeys-lru")).is_none());
        assert!(eviction("").is_none());
    }
}
