//! The Redis user of docs/security.md: it may do all that the sidecar does, and nothing that it doesn't.

use serde_json::json;

use super::policies;
use crate::support::{Client, Redis, Sidecar, assert_invariants, eventually, repository};

const PASSWORD: &str = "hunter2-hunter2";

/// The rules of the `ACL SETUSER` line that goes on like this, without the password.
fn rules_of(line: &str) -> Vec<String> {
    let text = std::fs::read_to_string(repository().join("docs/security.md")).unwrap();
    let start = format!("ACL SETUSER sluice {line}");
    let line = text.lines().find(|line| line.trim_start().starts_with(&start)).expect("the line");
    let words = line.split_whitespace().skip(3).filter(|word| !word.starts_with('>'));
    words.map(str::to_owned).collect()
}

fn rules() -> Vec<String> {
    rules_of("on ")
}

fn set_user(redis: &Redis, rules: &[String]) {
    let password = format!(">{PASSWORD}");
    let words: Vec<&str> = ["ACL", "SETUSER", "sluice", "reset", &password].into_iter().collect();
    let words: Vec<&str> = words.into_iter().chain(rules.iter().map(String::as_str)).collect();
    let _: () = redis.command(&words);
}

/// Everything that the sidecar asks of Redis. The error is what did not work.
async fn work(redis: &Redis, scheme: &str) -> Result<(), String> {
    let store = format!("{scheme}://sluice:{PASSWORD}@127.0.0.1:{}", redis.port());
    let mut policies = policies();
    policies["bucket"] = json!({"algorithm": "token_bucket", "rate": "1000/1h"});
    policies["sliding"] = json!({"algorithm": "sliding_window", "rate": "1000/1h"});
    policies["two"]["rate"] = "1000/1h".into();
    let more = json!({"store": store, "store_timeout": "2s"});
    let mut sidecar = Sidecar::launch_for(redis.port(), &policies, &more);
    sidecar.until_alive().await;
    let client = Client::new();
    let state = eventually("the store's state is known", async || {
        let ready = client.get(sidecar.admin_port(), "/readyz", &[]).await.json();
        (ready["store"]["state"] != "unknown").then(|| ready["store"].clone())
    })
    .await;
    let log = sidecar.process.log();
    assert!(!log.contains(PASSWORD) && !state.to_string().contains(PASSWORD), "{log} {state}");
    if state["state"] != "up" {
        return Err(state.to_string());
    }
    // Whoever loses scripts, such as by a restart, gets them again.
    let _: () = redis.command(&["SCRIPT", "FLUSH"]);
    let check = |policy: &str, key: &str| json!({"policy": policy, "key": [key]});
    let keys = ["a", "b"].map(|key| [check("two", key), check("bucket", key), check("sliding", key)]);
    let body = json!({"requests": keys.map(|checks| json!({"checks": checks, "refundable": true}))}).to_string();
    let answer = client.post(sidecar.port(), "/v1/check", body).await;
    if !answer.is_allowed() {
        return Err(format!("{answer:?}"));
    }
    let charge = &answer.json()["decisions"][0]["checks"][0]["charge"];
    let refund = json!({"refunds": [{"policy": "two", "key": ["a"], "charge": charge}]}).to_string();
    let answer = client.post(sidecar.port(), "/v1/refund", refund).await;
    if !answer.is_allowed() {
        return Err(format!("{answer:?}"));
    }
    assert_eq!(answer.json()["refunds"][0]["refunded"], true);
    let path = "/v1/keys/two/b";
    for (method, field) in [("GET", "state"), ("DELETE", "existed")] {
        let answer = client.request(method, sidecar.admin_port(), path, &[]).await;
        if !answer.is_allowed() {
            return Err(format!("{method} {path}: {answer:?}"));
        }
        assert!(answer.json()[field] != json!(null) && answer.json()[field] != false, "{answer:?}");
    }
    Ok(())
}

/// What the server refused the user, in Redis's words.
fn refusals(redis: &Redis) -> Vec<String> {
    let log: Vec<redis::Value> = redis.command(&["ACL", "LOG"]);
    log.iter().map(|entry| format!("{entry:?}")).collect()
}

async fn assert_user_suffices(redis: &Redis, scheme: &str, rules: &[String]) {
    set_user(redis, rules);
    assert_eq!(work(redis, scheme).await, Ok(()));
    assert_eq!(refusals(redis), Vec::<String>::new(), "something was asked for that the user may not do");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_user_may_do_what_the_sidecar_does() {
    let redis = Redis::start().await;
    assert_user_suffices(&redis, "redis", &rules()).await;
    assert_invariants(&redis, &mut [], &[], &[PASSWORD]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn also_in_a_cluster() {
    let redis = Redis::start_cluster().await;
    let rules = [rules(), rules_of("+")].concat();
    assert_user_suffices(&redis, "redis+cluster", &rules).await;
    assert_invariants(&redis, &mut [], &[], &[PASSWORD]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_login_is_told_without_the_password() {
    let redis = Redis::start().await;
    let store = format!("redis://sluice:{PASSWORD}@127.0.0.1:{}", redis.port());
    let mut sidecar = Sidecar::launch_for(redis.port(), &policies(), &json!({"store": store}));
    sidecar.until_alive().await;
    let client = Client::new();
    for port in [sidecar.port(), sidecar.admin_port()] {
        let ready = eventually("the store is seen to be down", async || {
            let ready = client.get(port, "/readyz", &[]).await.json();
            (ready["store"]["state"] == "down").then_some(ready)
        })
        .await;
        assert!(!ready.to_string().contains(PASSWORD), "{ready}");
        assert!(!ready["store"]["detail"].as_str().unwrap().is_empty(), "{ready}");
    }
    let answer = client.post(sidecar.port(), "/v1/check/two/a", "").await;
    assert!(!String::from_utf8_lossy(&answer.body).contains(PASSWORD), "{answer:?}");
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[PASSWORD]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_may_do_nothing_that_the_sidecar_does_not() {
    let redis = Redis::start().await;
    let rules = rules();
    assert_user_suffices(&redis, "redis", &rules).await;
    for rule in &rules {
        if rule.starts_with('+') || rule.starts_with('~') {
            let without: Vec<String> = rules.iter().filter(|other| *other != rule).cloned().collect();
            set_user(&redis, &without);
            let _: () = redis.command(&["ACL", "LOG", "RESET"]);
            let worked = work(&redis, "redis").await;
            assert!(worked.is_err() || !refusals(&redis).is_empty(), "{rule} is not needed");
        }
    }
    set_user(&redis, &rules);
    let client = redis::Client::open(format!("redis://sluice:{PASSWORD}@127.0.0.1:{}", redis.port())).unwrap();
    let mut connection = client.get_connection().unwrap();
    for words in [
        &["GET", "session:1"] as &[&str],
        &["SET", "other", "1"],
        &["DEL", "session:1"],
        &["UNLINK", "sluice:x"],
        &["KEYS", "*"],
        &["CONFIG", "GET", "*"],
        &["FLUSHALL"],
        &["SCRIPT", "FLUSH"],
        &["EVAL", "return 1", "0"],
        &["EVALSHA", "da39a3ee5e6b4b0d3255bfef95601890afd80709", "1", "session:1"],
        &["ACL", "WHOAMI"],
        &["CLIENT", "LIST"],
    ] {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        let error = command.exec(&mut connection).unwrap_err();
        assert_eq!(error.code(), Some("NOPERM"), "{words:?}: {error}");
    }
    assert_invariants(&redis, &mut [], &[], &[PASSWORD]).await;
}
