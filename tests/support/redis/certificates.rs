//! Certificates of one test: an authority of its own, a server's and a client's.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tempfile::TempDir;

/// `ca.pem`, and `server` and `client` as `.pem` and `.key`. Two of these don't trust each other.
#[derive(Debug)]
pub struct Certificates(TempDir);

impl Certificates {
    /// The server is `localhost` and 127.0.0.1.
    pub fn new() -> Self {
        Self::for_names(&["localhost", "127.0.0.1"])
    }

    /// With these names and addresses of the server.
    pub fn for_names(names: &[&str]) -> Self {
        let certificates = Self(TempDir::new().unwrap());
        let key = KeyPair::generate().unwrap();
        let mut authority = named("Sluice's tests", &[]);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        certificates.write("ca.pem", &authority.self_signed(&key).unwrap().pem());
        let authority = Issuer::new(authority, key);
        for (name, names) in [("server", names), ("client", &[])] {
            let key = KeyPair::generate().unwrap();
            let certificate = named(name, names).signed_by(&key, &authority).unwrap();
            certificates.write(&format!("{name}.pem"), &certificate.pem());
            certificates.write(&format!("{name}.key"), &key.serialize_pem());
        }
        certificates
    }

    /// Where one of the files is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }
}

fn named(name: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
