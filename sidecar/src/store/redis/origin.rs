//! Where the server is that a link leads to: at a fixed place, or where Sentinels say.

use std::fmt;
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{FromRedisValue, Value};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::super::address::Endpoint;
use super::dial::{Connection, DialError, Dialer};

/// How long one Sentinel may take to answer: there are others.
const SENTINEL_TIMEOUT: Duration = Duration::from_millis(300);

/// Where a server is.
#[derive(Debug)]
pub enum Origin {
    /// At this place; what a host name means is looked up at every connection.
    Fixed(Endpoint),
    /// Where Sentinels say.
    Sentinel(Box<Sentinels>),
}

/// Sentinels that watch the same primary.
#[derive(Debug)]
pub struct Sentinels {
    endpoints: Vec<Endpoint>,
    name: String,
    dialer: Dialer,
    /// The one that answered last, and its place in the list.
    asked: Mutex<Option<(usize, Connection)>>,
}

/// Why it is not known where a server is.
#[derive(Debug, thiserror::Error)]
pub enum OriginError {
    /// No Sentinel answers as it should.
    #[error("no Sentinel tells where {name:?} is: {}", reasons.join("; "))]
    Sentinel {
        /// The name of the primary.
        name: String,
        /// What each of them did instead.
        reasons: Vec<String>,
    },
}

impl Origin {
    /// Where the server is now.
    pub async fn find(&self) -> Result<Endpoint, OriginError> {
        match self {
            Self::Fixed(endpoint) => Ok(endpoint.clone()),
            Self::Sentinel(sentinels) => sentinels.find().await,
        }
    }

    /// Where the server is, for somebody to read: a host or a socket, and a port; what Sentinels call it.
    pub fn place(&self) -> (String, Option<u16>) {
        match self {
            Self::Fixed(Endpoint::Tcp(host, port)) => (host.clone(), Some(*port)),
            Self::Fixed(endpoint) => (endpoint.to_string(), None),
            Self::Sentinel(sentinels) => (sentinels.name.clone(), None),
        }
    }

    /// Whether that may change while the server is there.
    pub fn can_move(&self) -> bool {
        matches!(self, Self::Sentinel(_))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(endpoint) => fmt::Display::fmt(endpoint, f),
            Self::Sentinel(sentinels) => f.write_str(&sentinels.name),
        }
    }
}

impl Sentinels {
    /// Sentinels that are asked for the primary of this name.
    pub fn new(endpoints: Vec<Endpoint>, name: String, dialer: Dialer) -> Self {
        Self { endpoints, name, dialer, asked: Mutex::new(None) }
    }

    async fn find(&self) -> Result<Endpoint, OriginError> {
        let mut asked = self.asked.lock().await;
        let mut reasons = Vec::new();
        let first = asked.as_ref().map_or(0, |(index, _)| *index);
        for step in 0..self.endpoints.len() {
            let index = (first + step) % self.endpoints.len();
            let Some(endpoint) = self.endpoints.get(index) else { continue };
            let connection = asked.take().filter(|(kept, _)| *kept == index).map(|(_, connection)| connection);
            match timeout(SENTINEL_TIMEOUT, self.ask(endpoint, connection)).await {
                Ok(Ok((primary, connection))) => {
                    *asked = Some((index, connection));
                    return Ok(primary);
                }
                Ok(Err(reason)) => reasons.push(reason),
                Err(_) => {
                    reasons.push(format!("{endpoint} does not answer within {} ms", SENTINEL_TIMEOUT.as_millis()));
                }
            }
        }
        Err(OriginError::Sentinel { name: self.name.clone(), reasons })
    }

    async fn ask(&self, endpoint: &Endpoint, kept: Option<Connection>) -> Result<(Endpoint, Connection), String> {
        let mut command = redis::cmd("SENTINEL");
        command.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        if let Some(mut connection) = kept
            && let Ok(answer) = connection.handle.req_packed_command(&command).await.and_then(Value::extract_error)
        {
            return self.read(endpoint, answer).map(|primary| (primary, connection));
        }
        let dialed = self.dialer.dial(endpoint, 1).await;
        let mut connection = dialed.map_err(|error: DialError| error.to_string())?;
        let answer = connection.handle.req_packed_command(&command).await.and_then(Value::extract_error);
        let answer = answer.map_err(|error| format!("{endpoint}: {error}"))?;
        self.read(endpoint, answer).map(|primary| (primary, connection))
    }

    fn read(&self, sentinel: &Endpoint, answer: Value) -> Result<Endpoint, String> {
        match Option::<(String, u16)>::from_redis_value(answer) {
            Ok(Some((host, port))) => Ok(Endpoint::Tcp(host, port)),
            Ok(None) => Err(format!("{sentinel} does not know {:?}", self.name)),
            Err(_) => Err(format!("{sentinel} does not answer like a Sentinel")),
        }
    }
}
