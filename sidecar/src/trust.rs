//! Whom we trust where we are the client of a TLS connection: Redis, and the collector of traces.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::client::WantsClientCert;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{self, ClientConfig, ConfigBuilder, RootCertStore};

/// Why nobody is trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file with the authorities can't be used.
    #[error("{0}")]
    File(String),
    /// The system has no authorities.
    #[error("the system trusts no authorities")]
    Nobody,
    /// The library can't do it.
    #[error(transparent)]
    Library(rustls::Error),
}

/// A client that trusts the authorities of a file, or else the system's. What is left to say is who it is itself.
///
/// # Errors
///
/// If the file can't be read or holds none, or if the system has none.
pub fn client(ca_file: Option<&Path>) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TrustError> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(path) => {
            for certificate in certificates(path).map_err(TrustError::File)? {
                roots.add(certificate).map_err(|error| TrustError::File(error.to_string()))?;
            }
        }
        // What is unusable among the system's is left out, as others do: a system has hundreds.
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    if roots.is_empty() {
        return Err(TrustError::Nobody);
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(TrustError::Library)?;
    Ok(builder.with_root_certificates(roots))
}

/// The certificates of a PEM file, at least one. An error says what is wrong with it.
///
/// # Errors
///
/// If the file can't be read, or holds none.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    match CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>() {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err("no certificate in it (PEM)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_file_without_authorities_is_not_the_same_as_none() {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("ca.pem");
        assert!(matches!(client(Some(&file)), Err(TrustError::File(message)) if message.contains("No such file")));
        let broken = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
        for text in ["", "no PEM", broken] {
            fs::write(&file, text).unwrap();
            let error = client(Some(&file)).err().unwrap();
            assert!(matches!(&error, TrustError::File(message) if message == "no certificate in it (PEM)"), "{error}");
        }
        let key = rcgen::KeyPair::generate().unwrap();
        let own = rcgen::CertificateParams::new(["a".to_owned()]).unwrap().self_signed(&key).unwrap();
        fs::write(&file, own.pem()).unwrap();
        assert_eq!(certificates(&file).unwrap().len(), 1);
        assert!(client(Some(&file)).is_ok());
    }
}
