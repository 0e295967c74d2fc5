//! A connection to one server: TCP, TLS or a Unix socket, and the login.
//!
//! The client library can do that too, but not trust one authority and tell another name, nor say which file
//! is wrong. From the login on, the protocol is the library's.

use std::fs;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, RedisConnectionInfo, RedisError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig};

use super::super::address::Endpoint;
use super::super::secret::Secret;
use super::super::settings::TlsFiles;
use crate::trust::{self, TrustError};

/// How a server is spoken to.
#[derive(Debug, Clone)]
pub struct Dialer {
    /// By TLS, if this is given.
    pub tls: Option<TlsFiles>,
    /// Who asks.
    pub login: Login,
    /// The number of the database.
    pub database: u32,
}

/// Who asks.
#[derive(Debug, Clone, Default)]
pub struct Login {
    /// The ACL user, the server's default one if there is none.
    pub username: Option<String>,
    /// The password.
    pub password: Option<Password>,
}

/// Where a password is.
#[derive(Debug, Clone)]
pub enum Password {
    /// In the configuration.
    Text(Secret),
    /// In a file, which is read at every login. A line break at its end doesn't count.
    File(PathBuf),
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Nobody listens there, or the way there is blocked.
    #[error("{0} cannot be reached: {1}")]
    Connect(Endpoint, #[source] io::Error),
    /// There is no TLS with the server.
    #[error("{0}: no TLS connection: {1}{2}")]
    Tls(Endpoint, #[source] io::Error, &'static str),
    /// A file can't be used.
    #[error("{field}: {}: {message}", path.display())]
    File {
        /// The field of the configuration that names it.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// What was given for TLS can't be used.
    #[error("store.tls: {0}")]
    TlsSettings(String),
    /// The server refuses the login.
    #[error("{0} refuses the login: {1}")]
    Login(Endpoint, #[source] RedisError),
    /// The server hung up.
    #[error("{0} closed the connection at the login: {1}; does it expect TLS (rediss://)?")]
    Closed(Endpoint, #[source] RedisError),
}

/// A connection. It is closed when this is dropped.
#[derive(Debug)]
pub struct Connection {
    /// Asks. Clones ask by the same connection.
    pub handle: MultiplexedConnection,
    driver: Option<JoinHandle<()>>,
}

impl Connection {
    /// Returns when the connection is lost.
    pub async fn lost(&mut self) {
        if let Some(driver) = &mut self.driver {
            // An error only says that the task was aborted, which ends the connection too.
            let _ = driver.await;
            self.driver = None;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(driver) = &self.driver {
            driver.abort();
        }
    }
}

impl Dialer {
    /// Connects and logs in. There is no deadline: the caller has one.
    ///
    /// `buffer` is how many questions may wait for being written.
    pub async fn dial(&self, endpoint: &Endpoint, buffer: usize) -> Result<Connection, DialError> {
        match endpoint {
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path).await;
                self.log_in(endpoint, stream.map_err(|error| DialError::Connect(endpoint.clone(), error))?, buffer)
                    .await
            }
            Endpoint::Tcp(host, port) => {
                // Resolved anew each time: a name may have moved.
                let stream = TcpStream::connect((host.as_str(), *port)).await;
                let stream = stream.map_err(|error| DialError::Connect(endpoint.clone(), error))?;
                // Questions are small and awaited: Nagle's algorithm would hold each back.
                stream.set_nodelay(true).map_err(|error| DialError::Connect(endpoint.clone(), error))?;
                match &self.tls {
                    None => self.log_in(endpoint, stream, buffer).await,
                    Some(files) => self.log_in(endpoint, encrypt(files, endpoint, host, stream).await?, buffer).await,
                }
            }
        }
    }

    async fn log_in<S>(&self, endpoint: &Endpoint, stream: S, buffer: usize) -> Result<Connection, DialError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // RESP2: the scripts answer with plain integers, and a lost connection is seen by whoever drives it.
        // RESP3 would add nothing.
        let mut who = RedisConnectionInfo::default().set_db(i64::from(self.database)).set_skip_set_lib_name();
        if let Some(username) = &self.login.username {
            who = who.set_username(username);
        }
        if let Some(password) = &self.login.password {
            who = who.set_password(password.read()?.reveal());
        }
        let config = AsyncConnectionConfig::new()
            // Deadlines are set around whole questions, waiting for a connection included.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(buffer);
        let connection = MultiplexedConnection::new_with_config(&who, stream, config).await;
        let (handle, driver) = connection.map_err(|error| match error.kind() {
            ErrorKind::Io | ErrorKind::Parse => DialError::Closed(endpoint.clone(), error),
            _ => DialError::Login(endpoint.clone(), error),
        })?;
        let driver: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(driver);
        Ok(Connection { handle, driver: Some(tokio::spawn(driver)) })
    }
}

impl Password {
    /// The password.
    ///
    /// # Errors
    ///
    /// If it is in a file that can't be read, is empty, or is not UTF-8.
    pub fn read(&self) -> Result<Secret, DialError> {
        let path = match self {
            Self::Text(secret) => return Ok(secret.clone()),
            Self::File(path) => path,
        };
        let error = |message| file_error("password_file", path, message);
        let text = String::from_utf8(read(path, "password_file")?).map_err(|_| error("not UTF-8"))?;
        match text.trim_end_matches(['\r', '\n']) {
            "" => Err(error("no password in it")),
            password => Ok(Secret::new(password.to_owned())),
        }
    }
}

async fn encrypt<S>(
    files: &TlsFiles,
    endpoint: &Endpoint,
    host: &str,
    stream: S,
) -> Result<tokio_rustls::client::TlsStream<S>, DialError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let config = client_config(files)?;
    let name = files.server_name.as_deref().unwrap_or(host);
    let name = ServerName::try_from(name.to_owned())
        .map_err(|error| DialError::TlsSettings(format!("{name:?} is no name of a server: {error}")))?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| {
        let is_no_tls = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()).is_some_and(|error| {
            matches!(error, rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType))
        });
        let hint = if is_no_tls { "; is this its port without TLS (redis://)?" } else { "" };
        DialError::Tls(endpoint.clone(), error, hint)
    })
}

/// What these files make of a TLS client.
///
/// # Errors
///
/// If a file can't be read or doesn't hold what it should, or if nobody is trusted.
pub fn client_config(files: &TlsFiles) -> Result<ClientConfig, DialError> {
    let builder = trust::client(files.ca_file.as_deref()).map_err(|error| match (error, &files.ca_file) {
        (TrustError::File(message), Some(path)) => file_error("store.tls.ca_file", path, &message),
        (TrustError::Nobody, _) => {
            DialError::TlsSettings(format!("{}: name a file with the server's in ca_file", TrustError::Nobody))
        }
        (error, _) => DialError::TlsSettings(error.to_string()),
    })?;
    match &files.identity {
        None => Ok(builder.with_no_client_auth()),
        Some((certificate, key)) => {
            let chain = trust::certificates(certificate)
                .map_err(|message| file_error("store.tls.cert_file", certificate, &message))?;
            let bytes = read(key, "store.tls.key_file")?;
            let private = PrivateKeyDer::from_pem_slice(&bytes)
                .map_err(|_| file_error("store.tls.key_file", key, "no private key in it (PEM)"))?;
            builder
                .with_client_auth_cert(chain, private)
                .map_err(|error| file_error("store.tls.cert_file", certificate, &error.to_string()))
        }
    }
}

fn read(path: &Path, field: &'static str) -> Result<Vec<u8>, DialError> {
    fs::read(path).map_err(|error| file_error(field, path, &error.to_string()))
}

fn file_error(field: &'static str, path: &Path, message: &str) -> DialError {
    DialError::File { field, path: path.to_owned(), message: message.to_owned() }
}
