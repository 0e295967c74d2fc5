//! Redis in all the shapes that tests want it in.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    Certificates, Redis, RedisCluster, RedisOptions, RedisTls, Sentinels, SentinelsOptions, eventually, tool,
};

/// What `redis-cli` says on a port, with these further arguments.
fn cli(port: u16, arguments: &[&str]) -> String {
    let mut command = Command::new(tool("redis-cli"));
    let output = command.args(["-p", &port.to_string()]).args(arguments).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_and_users() {
    let users = vec!["sluice on >two ~sluice:* -@all +ping +get".to_owned()];
    let redis = Redis::start_with(&RedisOptions { password: Some("one".into()), users, ..Default::default() }).await;
    assert!(cli(redis.port(), &["PING"]).contains("NOAUTH"));
    assert_eq!(cli(redis.port(), &["--no-auth-warning", "-a", "one", "PING"]), "PONG");
    let user = ["--no-auth-warning", "--user", "sluice", "--pass", "two"];
    assert_eq!(cli(redis.port(), &[&user[..], &["PING"]].concat()), "PONG");
    assert!(cli(redis.port(), &[&user[..], &["SET", "sluice:a", "1"]].concat()).contains("NOPERM"));
    let _: () = redis.command(&["SET", "a", "1", "EX", "9"]);
    assert_eq!(redis.keys(), ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_with_and_without_client_certificates() {
    let certificates = Arc::new(Certificates::new());
    let file = |name| certificates.path(name).display().to_string();
    let (ca, pem, key) = (file("ca.pem"), file("client.pem"), file("client.key"));
    for client_certificates in [false, true] {
        let tls = Some(RedisTls { client_certificates, ..RedisTls::new(&certificates) });
        let redis = Redis::start_with(&RedisOptions { tls, ..Default::default() }).await;
        let ping = |more: &[&str]| cli(redis.port(), &[&["--tls", "--cacert", &ca], more, &["PING"]].concat());
        assert_eq!(ping(&[]) == "PONG", !client_certificates);
        assert_eq!(ping(&["--cert", &pem, "--key", &key]), "PONG");
        assert_ne!(cli(redis.port(), &["PING"]), "PONG");
        let foreign = Certificates::new().path("ca.pem").display().to_string();
        assert_ne!(cli(redis.port(), &["--tls", "--cacert", &foreign, "--cert", &pem, "--key", &key, "PING"]), "PONG");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_that_takes_its_time() {
    let mut redis = Redis::start().await;
    let _: () = redis.command(&["SET", "a", "1", "EX", "600"]);
    redis.restart_loading(Duration::from_secs(1)).await;
    assert!(cli(redis.port(), &["GET", "a"]).contains("LOADING"));
    redis.until_ready().await;
    assert_eq!(cli(redis.port(), &["GET", "a"]), "1");
    redis.restart().await;
    assert_eq!(redis.keys(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_fails_over_and_moves_slots() {
    let mut cluster = RedisCluster::start().await;
    let port = cluster.ports()[0].to_string();
    let set = |key: &str| cli(port.parse().unwrap(), &["-c", "SET", key, "1", "EX", "600"]);
    let keys: Vec<String> = (0..100).map(|n| format!("key{n}")).collect();
    for key in &keys {
        assert_eq!(set(key), "OK");
    }
    assert_eq!(cluster.keys().len(), keys.len());

    let slot = cluster.slot("key0");
    let from = (0..3).find(|primary| RedisCluster::first_slots(*primary).contains(&slot)).unwrap();
    let to = (from + 1) % 3;
    let migration = cluster.migrate(slot, from, to);
    assert_eq!(migration.move_keys(), 1);
    assert!(cli(cluster.ports()[from], &["GET", "key0"]).starts_with("ASK"));
    migration.finish();
    assert!(cli(cluster.ports()[from], &["GET", "key0"]).starts_with("MOVED"));
    assert_eq!(cli(cluster.ports()[to], &["GET", "key0"]), "1");

    cluster.nodes[1].kill();
    cluster.until_promoted(4).await;
    assert_eq!(cluster.primaries(), [0, 2, 4]);
    assert_eq!(cluster.keys().len(), keys.len());
    cluster.nodes[1].restart().await;
    cluster.until_whole().await;
    assert_eq!(cluster.primaries(), [0, 2, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_with_password_and_tls() {
    let certificates = Arc::new(Certificates::new());
    let (password, tls) = (Some("one".to_owned()), Some(RedisTls::new(&certificates)));
    let cluster = RedisCluster::start_with(&RedisOptions { password, tls, ..Default::default() }).await;
    let slot = cluster.slot("a");
    let from = (0..3).find(|primary| RedisCluster::first_slots(*primary).contains(&slot)).unwrap();
    let _: () = cluster.nodes[from].command(&["SET", "a", "1", "EX", "600"]);
    cluster.migrate(slot, from, (from + 1) % 3).finish();
    let value: String = cluster.nodes[(from + 1) % 3].command(&["GET", "a"]);
    assert_eq!(value, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_fail_over_by_hand_and_by_need() {
    let mut sentinels = Sentinels::start().await;
    assert_eq!(sentinels.primary(), Some(0));
    let _: () = sentinels.servers[0].command(&["SET", "a", "1", "EX", "600"]);
    sentinels.failover().await;
    assert_eq!(sentinels.primary(), Some(1));
    sentinels.until_watching().await;
    sentinels.servers[1].kill();
    sentinels.until_promoted(0).await;
    assert_eq!(cli(sentinels.servers[0].port(), &["GET", "a"]), "1");
    sentinels.servers[1].restart().await;
    eventually("the former primary is a replica", async || {
        // It closes connections when it becomes one.
        let role = sentinels.servers[1].try_command::<String>(&["INFO", "replication"]).unwrap_or_default();
        role.contains("role:slave").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_with_passwords_and_tls() {
    let certificates = Arc::new(Certificates::new());
    let tls = Some(RedisTls { client_certificates: true, ..RedisTls::new(&certificates) });
    let mut sentinels = Sentinels::start_with(&SentinelsOptions {
        redis: RedisOptions { password: Some("one".into()), tls: tls.clone(), ..Default::default() },
        password: Some("two".into()),
        tls,
    })
    .await;
    assert_ne!(cli(sentinels.ports()[0], &["PING"]), "PONG");
    sentinels.servers[0].kill();
    sentinels.until_promoted(1).await;
}
