//! TLS on the check listener.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use prometheus_client::metrics::counter::Counter;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{Error, RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

use crate::config::Tls;
use crate::reload::{FileError, NamedFile, Reloaded};

/// How long a handshake may take. One needs two round trips; a client that needs longer has none to spare for
/// decisions.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// A listener that speaks TLS. Each handshake is a task of its own, so that one that fails, or never ends, is in
/// nobody's way.
#[derive(Debug)]
pub struct TlsListener<L> {
    tcp: L,
    config: Reloaded<ServerConfig>,
    handshakes: JoinSet<Option<(TlsStream<TcpStream>, SocketAddr)>>,
    failed: Counter,
}

/// The server's side of TLS by these files, read again when they change.
///
/// # Errors
///
/// If a file can't be read or is not what its field says.
pub fn config(tls: &Tls) -> Result<Reloaded<ServerConfig>, FileError> {
    let cert = NamedFile::new("tls.cert_file", &tls.cert_file);
    let key = NamedFile::new("tls.key_file", &tls.key_file);
    match &tls.client_ca_file {
        None => Reloaded::start([cert, key], |[cert_file, key_file], [certs, key]| {
            server_config((cert_file, certs), (key_file, key), None)
        }),
        Some(path) => {
            let ca = NamedFile::new("tls.client_ca_file", path);
            Reloaded::start([cert, key, ca], |[cert_file, key_file, ca_file], [certs, key, cas]| {
                server_config((cert_file, certs), (key_file, key), Some((ca_file, cas)))
            })
        }
    }
}

fn server_config(
    (cert_file, certs): (&NamedFile, &[u8]),
    (key_file, key): (&NamedFile, &[u8]),
    client_ca: Option<(&NamedFile, &[u8])>,
) -> Result<ServerConfig, FileError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| cert_file.error(error))?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some((file, cas)) => {
            let roots = roots(file, cas)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(|error| file.error(error))?)
        }
    };
    let certs = certificates(cert_file, certs)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
        pem::Error::NoItemsFound => key_file.error("there is no private key in it: it must be PEM"),
        error => key_file.error(error),
    })?;
    let mut config = builder.with_single_cert(certs, key).map_err(|error| match error {
        Error::InconsistentKeys(_) => key_file.error("this is not the key of the certificate in tls.cert_file"),
        error => cert_file.error(error),
    })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn roots(file: &NamedFile, pem: &[u8]) -> Result<RootCertStore, FileError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file, pem)? {
        roots.add(certificate).map_err(|error| file.error(error))?;
    }
    Ok(roots)
}

fn certificates(file: &NamedFile, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match certificates.map_err(|error| file.error(error))? {
        none if none.is_empty() => Err(file.error("there is no certificate in it: it must be PEM")),
        certificates => Ok(certificates),
    }
}

impl<L> TlsListener<L> {
    /// Speaks TLS on the connections of `tcp`, and counts handshakes that fail.
    pub fn new(tcp: L, config: Reloaded<ServerConfig>, failed: Counter) -> Self {
        Self { tcp, config, handshakes: JoinSet::new(), failed }
    }
}

impl<L: Listener<Io = TcpStream, Addr = SocketAddr>> Listener for TlsListener<L> {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            tokio::select! {
                Some(done) = self.handshakes.join_next() => {
                    if let Ok(Some(connection)) = done {
                        return connection;
                    }
                }
                (stream, client) = self.tcp.accept() => {
                    let acceptor = TlsAcceptor::from(self.config.get());
                    self.handshakes.spawn(handshake(acceptor, stream, client, self.failed.clone()));
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

async fn handshake(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    client: SocketAddr,
    failed: Counter,
) -> Option<(TlsStream<TcpStream>, SocketAddr)> {
    let error = match timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => return Some((stream, client)),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("not within {} s", HANDSHAKE.as_secs()),
    };
    failed.inc();
    tracing::debug!(%client, error, "a TLS handshake failed");
    None
}
