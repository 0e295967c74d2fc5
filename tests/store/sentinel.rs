//! A primary that changes, as sentinels tell.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Undecided, Watched};
use crate::support::{
    Certificates, RedisOptions, RedisTls, Sentinels, SentinelsOptions, assert_invariants_of, eventually,
};

fn url(scheme: &str, sentinels: &Sentinels) -> String {
    let hosts: Vec<String> = sentinels.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("{scheme}://{}/mymaster/0", hosts.join(","))
}

/// The invariants, and the charges of the key that all questions were about. A failover may forget what had not yet
/// reached the replica, so that only what would be too much is looked for.
async fn end(sentinels: &Sentinels, watched: Watched, undecided: Undecided, secrets: &[&str]) {
    let charged = watched.charged().await;
    assert!(charged <= *watched.charges(undecided).end(), "{charged} were charged");
    let primary = &sentinels.servers[sentinels.primary().unwrap()];
    assert_invariants_of(&[primary], &mut [], &[watched.sidecar.process.log()], secrets).await;
}

/// Kills the primary and waits for the other; then the former one comes back as its replica.
async fn lose_primary(sentinels: &mut Sentinels, watched: &mut Watched) {
    let primary = sentinels.primary().unwrap();
    sentinels.servers[primary].kill();
    watched.assert_fails("").await;
    watched.assert_says_down("").await;
    sentinels.until_promoted(1 - primary).await;
    watched.assert_recovers().await;
    sentinels.servers[primary].restart().await;
    sentinels.until_watching().await;
    watched.assert_decides().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_primary_is_lost_and_lost_again() {
    let mut sentinels = Sentinels::start().await;
    let mut watched = Watched::start(&json!({"store": url("redis+sentinel", &sentinels)})).await;
    watched.assert_decides().await;
    for _ in 0..2 {
        lose_primary(&mut sentinels, &mut watched).await;
    }
    end(&sentinels, watched, Undecided::PerhapsCharged, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn primary_and_replica_are_swapped_for_maintenance() {
    let sentinels = Sentinels::start().await;
    let mut watched = Watched::start(&json!({"store": url("redis+sentinel", &sentinels)})).await;
    for _ in 0..2 {
        watched.assert_decides().await;
        // The former primary goes on, read-only: nothing breaks a connection to it.
        sentinels.failover().await;
        watched.assert_recovers().await;
        sentinels.until_watching().await;
    }
    end(&sentinels, watched, Undecided::PerhapsCharged, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_primary_hangs() {
    let mut sentinels = Sentinels::start().await;
    let mut watched = Watched::start(&json!({"store": url("redis+sentinel", &sentinels)})).await;
    watched.assert_decides().await;
    sentinels.servers[0].pause();
    watched.assert_fails("").await;
    sentinels.until_promoted(1).await;
    watched.assert_recovers().await;
    // It wakes up and finds itself a replica; what it was asked meanwhile is answered by nobody's count.
    sentinels.servers[0].resume();
    sentinels.until_watching().await;
    watched.assert_decides().await;
    sentinels.servers[0].kill();
    watched.assert_decides().await;
    end(&sentinels, watched, Undecided::PerhapsCharged, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_sentinel_that_answers_is_enough() {
    let mut sentinels = Sentinels::start().await;
    let addresses = url("redis+sentinel", &sentinels);
    sentinels.sentinels[0].kill();
    sentinels.sentinels[1].pause();
    let mut watched = Watched::start(&json!({"store": addresses})).await;
    watched.assert_decides().await;
    // Without any, what is connected stays connected.
    sentinels.sentinels[2].kill();
    watched.assert_decides().await;
    sentinels.sentinels[1].resume();
    eventually("it says that all is well", async || (watched.sidecar.store().await["state"] == "up").then_some(()))
        .await;
    assert_invariants_of(&[&sentinels.servers[0]], &mut [], &[watched.sidecar.process.log()], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_nobody_knows_is_told() {
    let sentinels = Sentinels::start().await;
    let store = url("redis+sentinel", &sentinels).replace("mymaster", "nobody");
    let mut watched = Watched::launch(&json!({"store": store})).await;
    watched.assert_fails("").await;
    watched.assert_says_down("nobody").await;
    assert_eq!(watched.allowed, 0);
}

fn store(scheme: &str, sentinels: &Sentinels, certificates: &Certificates, tls: &Value) -> Value {
    let (redis, sentinel) = (certificates.path("redis-password"), certificates.path("sentinel-password"));
    std::fs::write(&redis, "redis-secret\n").unwrap();
    std::fs::write(&sentinel, "sentinel-secret\n").unwrap();
    let mut store = json!({
        "url": url(scheme, sentinels),
        "username": "sluice",
        "password_file": redis,
        "sentinel": {"password_file": sentinel},
    });
    if !tls.is_null() {
        store["tls"] = tls.clone();
    }
    json!({"store": store})
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_and_tls_on_both_legs() {
    let certificates = Arc::new(Certificates::new());
    let on = RedisTls { client_certificates: true, ..RedisTls::new(&certificates) };
    let file = |name| certificates.path(name);
    let client = json!({"ca_file": file("ca.pem"), "cert_file": file("client.pem"), "key_file": file("client.key")});
    for (scheme, tls, client) in [("redis+sentinel", None, Value::Null), ("rediss+sentinel", Some(on), client)] {
        println!("{scheme}");
        let mut sentinels = Sentinels::start_with(&SentinelsOptions {
            redis: RedisOptions {
                password: Some("servers-among-themselves".into()),
                users: vec!["sluice on >redis-secret ~sluice:* +@all".to_owned()],
                tls: tls.clone(),
                ..RedisOptions::default()
            },
            password: Some("sentinel-secret".into()),
            tls,
        })
        .await;
        let mut watched = Watched::start(&store(scheme, &sentinels, &certificates, &client)).await;
        watched.assert_decides().await;
        lose_primary(&mut sentinels, &mut watched).await;
        end(&sentinels, watched, Undecided::PerhapsCharged, &["redis-secret", "sentinel-secret"]).await;
    }
}
