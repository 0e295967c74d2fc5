//! Ways to one Redis: databases, Unix sockets, passwords from files, and names that lead elsewhere after a while.

use std::path::Path;

use serde_json::json;
use tempfile::TempDir;

use super::{KEY, Watched, config};
use crate::support::{Port, Redis, RedisOptions, Sidecar, assert_invariants};

async fn end(redis: &Redis, watched: &Watched, secrets: &[&str]) {
    assert_invariants(redis, &mut [], &[watched.sidecar.process.log()], secrets).await;
}

/// Nothing is anywhere else.
fn assert_in_database_3(redis: &Redis) {
    let keyspace: String = redis.command(&["INFO", "keyspace"]);
    let databases: Vec<&str> = keyspace.lines().filter(|line| line.starts_with("db")).collect();
    assert!(databases.len() == 1 && databases[0].starts_with("db3:"), "{keyspace}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_database() {
    let redis = Redis::start().await;
    let mut watched = Watched::start(&json!({"store": format!("redis://127.0.0.1:{}/3", redis.port())})).await;
    watched.assert_decides().await;
    assert_in_database_3(&redis);
    end(&redis, &watched, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_with_everything_in_it() {
    let password = "p@ss:w/rd#1?%";
    let redis = Redis::start_with(&RedisOptions {
        users: vec![format!("sluice on >{password} ~* +@all")],
        ..Default::default()
    })
    .await;
    let store = format!("redis://sluice:p%40ss%3Aw%2Frd%231%3F%25@127.0.0.1:{}", redis.port());
    let mut watched = Watched::start(&json!({"store": store})).await;
    watched.assert_decides().await;
    end(&redis, &watched, &[password, "p%40ss"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unix_socket() {
    let redis = Redis::start().await;
    let store = format!("unix://{}?db=3", redis.socket().display());
    let mut watched = Watched::start(&json!({"store": store})).await;
    watched.assert_decides().await;
    assert_in_database_3(&redis);
    let clients: String = redis.command(&["CLIENT", "LIST"]);
    assert!(!clients.contains("addr=127.0.0.1"), "{clients}");
    end(&redis, &watched, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_redis_behind_the_path_of_a_socket() {
    let (mut former, directory) = (Redis::start().await, TempDir::new().unwrap());
    let path = directory.path().join("redis.sock");
    let point_to = |redis: &Redis| {
        let new = directory.path().join("new.sock");
        std::os::unix::fs::symlink(redis.socket(), &new).unwrap();
        std::fs::rename(new, &path).unwrap();
    };
    point_to(&former);
    let mut watched = Watched::start(&json!({"store": format!("unix://{}", path.display())})).await;
    watched.assert_decides().await;
    former.kill();
    watched.assert_fails("").await;
    let redis = Redis::start().await;
    point_to(&redis);
    watched.assert_recovers().await;
    assert!(redis.keys().contains(&KEY.to_owned()));
    end(&redis, &watched, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_leads_to_another_address() {
    let (port, directory) = (Port::free(), TempDir::new().unwrap());
    let number = port.number();
    let hosts = directory.path().join("hosts");
    // The same file: it is mounted by what it is, not by its name.
    let point_to =
        |address: &str| std::fs::write(&hosts, format!("127.0.0.1 localhost\n{address} redis.test\n")).unwrap();
    point_to("127.0.0.1");
    let former = Redis::start_on(port).await;
    let store = format!("redis://redis.test:{number}");
    let mut watched = Watched::new(Sidecar::launch_among(&config(&json!({"store": store})), Some(hosts.clone()))).await;
    watched.sidecar.until_ready().await;
    watched.assert_decides().await;

    let port = former.give_up_port();
    watched.assert_fails("").await;
    let options = RedisOptions { bind: Some("127.0.0.2"), ..RedisOptions::default() };
    let redis = Redis::start_with_on(&options, port).await;
    point_to("127.0.0.2");
    watched.assert_recovers().await;
    assert!(redis.keys().contains(&KEY.to_owned()));
    end(&redis, &watched, &[]).await;
}

fn write(path: &Path, text: &str) {
    // At once, as Kubernetes replaces secrets.
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_from_a_file() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("password");
    let redis = Redis::start_with(&RedisOptions {
        users: vec!["sluice on >first-secret ~sluice:* +@all".to_owned()],
        ..Default::default()
    })
    .await;
    let store = json!({
        "url": format!("redis://127.0.0.1:{}", redis.port()),
        "username": "sluice",
        "password_file": file,
    });
    // An editor ends a file with a new line.
    for text in ["first-secret", "first-secret\n", "first-secret\r\n"] {
        write(&file, text);
        let mut watched = Watched::start(&json!({"store": store})).await;
        watched.assert_decides().await;
        end(&redis, &watched, &["first-secret"]).await;
    }

    // A password is changed without a restart: the next connection is made with what the file holds then.
    let mut watched = Watched::start(&json!({"store": store})).await;
    let _: () = redis.command(&["ACL", "SETUSER", "sluice", ">second-secret", "<first-secret"]);
    write(&file, "second-secret\n");
    let _: () = redis.command(&["CLIENT", "KILL", "USER", "sluice"]);
    watched.assert_recovers().await;
    end(&redis, &watched, &["first-secret", "second-secret"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_file_that_is_missing_or_empty_is_told_at_the_start() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("password-file");
    let store = json!({"url": "redis://127.0.0.1:1", "password_file": file});
    let log = Sidecar::refuses(&config(&json!({"store": store}))).await;
    assert!(log.contains("password_file") && log.contains(&file.display().to_string()), "{log}");
    write(&file, "\n");
    let log = Sidecar::refuses(&config(&json!({"store": store}))).await;
    assert!(log.contains("password_file") && log.contains("no password in it"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_given_once() {
    let store = json!({"url": "redis://:hunter-two@127.0.0.1:1", "password_file": "/dev/null"});
    let log = Sidecar::refuses(&config(&json!({"store": store}))).await;
    assert!(log.contains("password_file") && !log.contains("hunter-two"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_is_not_there_yet() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("redis.sock");
    let mut watched = Watched::launch(&json!({"store": format!("unix://{}", path.display())})).await;
    watched.assert_fails("").await;
    let redis = Redis::start().await;
    std::os::unix::fs::symlink(redis.socket(), &path).unwrap();
    watched.assert_recovers().await;
    assert!(redis.keys().contains(&KEY.to_owned()));
    end(&redis, &watched, &[]).await;
}
