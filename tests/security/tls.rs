//! TLS between Envoy and the sidecar.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::{assert_decides, assert_fails_closed, policies, rules};
use crate::support::{
    Authority, Certificate, Envoy, EnvoyOptions, Redis, Sidecar, assert_invariants, eventually, plugin_config,
    repository,
};

/// A sidecar that speaks TLS, by files that can be changed.
struct Scene {
    redis: Redis,
    sidecar: Sidecar,
    authority: Authority,
    directory: TempDir,
}

impl Scene {
    async fn start(client_ca: Option<&Authority>) -> Self {
        let (redis, directory, authority) = (Redis::start().await, TempDir::new().unwrap(), Authority::new("servers"));
        let file = |name: &str| directory.path().join(name);
        let mut tls = json!({"cert_file": file("cert"), "key_file": file("key")});
        if let Some(ca) = client_ca {
            std::fs::write(file("ca"), &ca.pem).unwrap();
            tls["client_ca_file"] = file("ca").to_str().into();
        }
        let certificate = authority.certificate("sluice.test");
        std::fs::write(file("cert"), &certificate.pem).unwrap();
        std::fs::write(file("key"), &certificate.key).unwrap();
        let more = json!({"tls": tls, "store_timeout": "2s"});
        let mut sidecar = Sidecar::launch_for(redis.port(), &policies(), &more);
        sidecar.until_ready().await;
        Self { redis, sidecar, authority, directory }
    }

    async fn envoy(&self, tls: Option<Value>) -> Envoy {
        Envoy::start(&EnvoyOptions {
            plugin: plugin_config(&rules()),
            sidecars: vec![self.sidecar.port()],
            sidecar_tls: tls,
            ..EnvoyOptions::default()
        })
        .await
    }

    fn write(&self, name: &str, text: &str) {
        let new = self.directory.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.directory.path().join(name)).unwrap();
    }

    async fn failed_handshakes(&self) -> f64 {
        self.sidecar.metrics().await.get("sluice_tls_handshakes_failed_total")
    }

    async fn assert_invariants(&self, envoys: &mut [Envoy]) {
        // The first line of a key that is text.
        let key = std::fs::read_to_string(self.directory.path().join("key")).unwrap();
        let secret = key.lines().nth(1).unwrap();
        assert_invariants(&self.redis, envoys, &[self.sidecar.process.log()], &[secret]).await;
    }
}

/// Envoy's side as docs/security.md shows it: whom it believes, and its own certificate.
fn upstream_tls(authority: &Authority, own: Option<&Certificate>) -> Value {
    let text = std::fs::read_to_string(repository().join("docs/security.md")).unwrap();
    let start = text.find("    transport_socket:").unwrap();
    let lines = text[start..].lines().take_while(|line| line.starts_with("    "));
    let block: Value = serde_saphyr::from_str(&lines.collect::<Vec<_>>().join("\n")).unwrap();
    let mut socket = block["transport_socket"].clone();
    let tls = &mut socket["typed_config"];
    tls["sni"] = "sluice.test".into();
    let common = &mut tls["common_tls_context"];
    let validation = &mut common["validation_context"];
    validation["trusted_ca"] = json!({"inline_string": authority.pem});
    validation["match_typed_subject_alt_names"][0]["matcher"]["exact"] = "sluice.test".into();
    common["tls_certificates"] = own.map_or(json!([]), |Certificate { pem, key }| {
        json!([{"certificate_chain": {"inline_string": pem}, "private_key": {"inline_string": key}}])
    });
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_is_answered_over_tls_and_not_without() {
    let scene = Scene::start(None).await;
    let mut envoys = [
        scene.envoy(Some(upstream_tls(&scene.authority, None))).await,
        scene.envoy(None).await,
        scene.envoy(Some(upstream_tls(&Authority::new("others"), None))).await,
    ];
    assert_decides(&envoys[0], "a").await;
    assert_eq!(envoys[0].metric("callouts_failed").await, 0);
    assert!(scene.failed_handshakes().await.abs() < 1e-9);
    assert_fails_closed(&envoys[1]).await; // no TLS at all
    assert!(scene.failed_handshakes().await > 0.5);
    assert_fails_closed(&envoys[2]).await; // it doesn't believe the sidecar
    scene.assert_invariants(&mut envoys).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_show_a_certificate_if_that_is_wanted() {
    let clients = Authority::new("clients");
    let scene = Scene::start(Some(&clients)).await;
    let tls = |own: Option<&Certificate>| Some(upstream_tls(&scene.authority, own));
    let mut envoys = [
        scene.envoy(tls(Some(&clients.certificate("envoy")))).await,
        scene.envoy(tls(None)).await,
        scene.envoy(tls(Some(&scene.authority.certificate("envoy")))).await,
    ];
    assert_decides(&envoys[0], "a").await;
    assert_fails_closed(&envoys[1]).await;
    assert_fails_closed(&envoys[2]).await;
    assert!(scene.failed_handshakes().await > 1.5);
    scene.assert_invariants(&mut envoys).await;
}

/// Connections that never say anything, and those that don't speak TLS, hold up nobody, and are closed.
#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_finish_a_handshake_is_in_nobodys_way() {
    let scene = Scene::start(None).await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(("127.0.0.1", scene.sidecar.port())).await.unwrap());
    }
    for _ in 0..20 {
        let mut plain = TcpStream::connect(("127.0.0.1", scene.sidecar.port())).await.unwrap();
        plain.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        // It may be cut off while there is unread data.
        let _ = tokio::time::timeout(Duration::from_secs(20), plain.read_to_end(&mut answer)).await.unwrap();
        assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));
    }
    let mut envoys = [scene.envoy(Some(upstream_tls(&scene.authority, None))).await];
    assert_decides(&envoys[0], "a").await;
    for connection in &mut silent {
        let read = tokio::time::timeout(Duration::from_secs(20), connection.read(&mut [0])).await;
        assert!(matches!(read.expect("it is closed"), Ok(0) | Err(_)));
    }
    let failed = scene.failed_handshakes().await;
    assert!(failed > 219.5, "{failed}");
    assert_decides(&envoys[0], "b").await;
    scene.assert_invariants(&mut envoys).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_rotated_without_a_restart() {
    let scene = Scene::start(None).await;
    let next_authority = Authority::new("next");
    let next = next_authority.certificate("sluice.test");
    let connector = connector(&[&scene.authority, &next_authority]);
    let shown = async || shown(scene.sidecar.port(), &connector).await;
    let first = der(&std::fs::read_to_string(scene.directory.path().join("cert")).unwrap());
    assert_eq!(shown().await, first);
    // Only one of the two files has changed so far: nothing of it is used.
    scene.write("cert", &next.pem);
    eventually("it is said that they do not fit", async || {
        scene.sidecar.process.log().contains("tls.key_file").then_some(())
    })
    .await;
    assert_eq!(shown().await, first);
    scene.write("key", &next.key);
    let second = der(&next.pem);
    eventually("the new one is shown", async || (shown().await == second).then_some(())).await;
    scene.assert_invariants(&mut []).await;
}

/// A client that believes these.
fn connector(authorities: &[&Authority]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(der(&authority.pem)).unwrap();
    }
    TlsConnector::from(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))
}

/// The certificate that a server shows.
async fn shown(port: u16, connector: &TlsConnector) -> CertificateDer<'static> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let stream = connector.connect(ServerName::try_from("sluice.test").unwrap(), stream).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}
