//! TLS to Redis: with an authority of one's own, with a client's certificate, and all the ways in which the two sides
//! don't get on. Those end as every failure does, and say why.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Ground, Undecided, Watched};
use crate::support::{Certificates, Fault, Proxy, Redis, RedisOptions, RedisTls, assert_invariants};

async fn start(certificates: &Arc<Certificates>, client_certificates: bool) -> Redis {
    let tls = Some(RedisTls { client_certificates, ..RedisTls::new(certificates) });
    Redis::start_with(&RedisOptions { tls, ..RedisOptions::default() }).await
}

fn store(url: &str, tls: &Value) -> Value {
    json!({"store": {"url": url, "tls": tls}})
}

/// Decides, also after the connection was lost.
async fn assert_works(redis: &Redis, settings: &Value) {
    let mut watched = Watched::start(settings).await;
    watched.assert_decides().await;
    let _: () = redis.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    watched.assert_recovers().await;
    assert_invariants(redis, &mut [], &[watched.sidecar.process.log()], &["PRIVATE KEY"]).await;
}

/// Does not decide, and says why.
async fn assert_does_not(settings: &Value, why: &str) {
    println!("{settings}");
    let mut watched = Watched::launch(settings).await;
    watched.assert_fails("").await;
    watched.assert_says_down(why).await;
    assert_eq!(watched.allowed, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_of_ones_own() {
    let certificates = Arc::new(Certificates::new());
    let redis = start(&certificates, false).await;
    let ca = certificates.path("ca.pem");
    for host in ["127.0.0.1", "localhost"] {
        assert_works(&redis, &store(&format!("rediss://{host}:{}", redis.port()), &json!({"ca_file": ca}))).await;
    }
    let others = Certificates::new();
    let url = format!("rediss://127.0.0.1:{}", redis.port());
    assert_does_not(&store(&url, &json!({"ca_file": others.path("ca.pem")})), "certificate").await;
    // The system's authorities don't know it.
    assert_does_not(&json!({"store": url}), "certificate").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clients_certificate() {
    let certificates = Arc::new(Certificates::new());
    let redis = start(&certificates, true).await;
    let (ca, cert, key) =
        (certificates.path("ca.pem"), certificates.path("client.pem"), certificates.path("client.key"));
    let url = format!("rediss://127.0.0.1:{}", redis.port());
    assert_works(&redis, &store(&url, &json!({"ca_file": ca, "cert_file": cert, "key_file": key}))).await;
    assert_does_not(&store(&url, &json!({"ca_file": ca})), "").await;
    let others = Certificates::new();
    let (cert, key) = (others.path("client.pem"), others.path("client.key"));
    assert_does_not(&store(&url, &json!({"ca_file": ca, "cert_file": cert, "key_file": key})), "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_the_server() {
    let certificates = Arc::new(Certificates::for_names(&["redis.example"]));
    let redis = start(&certificates, false).await;
    let ca = certificates.path("ca.pem");
    let url = format!("rediss://127.0.0.1:{}", redis.port());
    assert_does_not(&store(&url, &json!({"ca_file": ca})), "certificate").await;
    assert_does_not(&store(&url, &json!({"ca_file": ca, "server_name": "other.example"})), "certificate").await;
    assert_works(&redis, &store(&url, &json!({"ca_file": ca, "server_name": "redis.example"}))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_side_speaks_tls() {
    let certificates = Arc::new(Certificates::new());
    let (plain, tls) = (Redis::start().await, start(&certificates, false).await);
    let ca = certificates.path("ca.pem");
    assert_does_not(&store(&format!("rediss://127.0.0.1:{}", plain.port()), &json!({"ca_file": ca})), "").await;
    assert_does_not(&json!({"store": format!("redis://127.0.0.1:{}", tls.port())}), "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_stalls() {
    let certificates = Arc::new(Certificates::new());
    let redis = start(&certificates, false).await;
    let proxy = Proxy::start(redis.port()).await;
    let url = format!("rediss://127.0.0.1:{}", proxy.port());
    let mut watched = Watched::start(&store(&url, &json!({"ca_file": certificates.path("ca.pem")}))).await;
    watched.assert_decides().await;
    let mut ground = Ground { redis, proxy, watched };
    for fault in [Fault::StopReading, Fault::Stall, Fault::CutReply(10), Fault::CutReply(500)] {
        println!("{fault:?}");
        ground.proxy.set(fault).await;
        ground.proxy.reset_open();
        ground.watched.assert_fails("").await;
        ground.proxy.set(Fault::None).await;
        ground.watched.assert_recovers().await;
    }
    ground.end(Undecided::PerhapsCharged, &[]).await;
}
