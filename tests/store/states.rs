//! A Redis that is there, and won't.

use std::time::Duration;

use serde_json::json;

use super::{Ground, Undecided, Watched};
use crate::support::{Redis, RedisOptions, assert_invariants};

/// A state in which Redis refuses, as commands that bring it about and end it, and the word that it refuses with.
struct State {
    begin: &'static [&'static [&'static str]],
    word: &'static str,
    end: &'static [&'static [&'static str]],
}

const OUT_OF_MEMORY: State = State {
    begin: &[&["CONFIG", "SET", "maxmemory-policy", "noeviction"], &["CONFIG", "SET", "maxmemory", "1"]],
    word: "OOM",
    end: &[&["CONFIG", "SET", "maxmemory", "0"]],
};
/// The replica of a port where nobody is keeps what it has.
const READ_ONLY: State =
    State { begin: &[&["REPLICAOF", "127.0.0.1", "1"]], word: "replica", end: &[&["REPLICAOF", "NO", "ONE"]] };
const NO_REPLICAS: State = State {
    begin: &[&["CONFIG", "SET", "min-replicas-to-write", "1"]],
    word: "NOREPLICAS",
    end: &[&["CONFIG", "SET", "min-replicas-to-write", "0"]],
};
const NO_COMMAND: State = State {
    begin: &[&["ACL", "SETUSER", "default", "-evalsha"]],
    word: "permissions",
    end: &[&["ACL", "SETUSER", "default", "+evalsha"]],
};
const NO_KEYS: State = State {
    begin: &[&["ACL", "SETUSER", "default", "resetkeys", "~other:*"]],
    word: "permissions",
    end: &[&["ACL", "SETUSER", "default", "~*"]],
};
const STATES: [State; 5] = [OUT_OF_MEMORY, READ_ONLY, NO_REPLICAS, NO_COMMAND, NO_KEYS];

fn all(redis: &Redis, commands: &[&[&str]]) {
    for command in commands {
        let _: () = redis.command(command);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_end_in_time_charge_nothing_and_pass() {
    let mut ground = Ground::start().await;
    for state in STATES {
        all(&ground.redis, state.begin);
        ground.watched.assert_fails(state.word).await;
        all(&ground.redis, state.end);
        ground.watched.assert_recovers().await;
    }
    ground.end(Undecided::NeverCharged, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_told_by_readyz() {
    let mut ground = Ground::start().await;
    for state in STATES {
        all(&ground.redis, state.begin);
        ground.watched.assert_fails(state.word).await;
        ground.watched.assert_says_down(state.word).await;
        all(&ground.redis, state.end);
        ground.watched.assert_recovers().await;
    }
    ground.end(Undecided::NeverCharged, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_that_are_flushed_are_loaded_again_unnoticed() {
    let mut ground = Ground::start().await;
    for _ in 0..10 {
        let _: () = ground.redis.command(&["SCRIPT", "FLUSH"]);
        ground.watched.assert_decides().await;
    }
    assert_eq!(ground.watched.failed, 0);
    ground.end(Undecided::NeverCharged, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_got_over() {
    let mut ground = Ground::start().await;
    for _ in 0..3 {
        ground.redis.restart().await;
        ground.watched.assert_recovers().await;
    }
    ground.end(Undecided::Forgotten, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_script_that_never_ends() {
    let mut ground = Ground::start().await;
    let _: () = ground.redis.command(&["CONFIG", "SET", "lua-time-limit", "20"]);
    let mut connection = ground.redis.connect().unwrap();
    let script = std::thread::spawn(move || {
        redis::cmd("EVAL").arg("while true do end").arg(0).exec(&mut connection).unwrap_err().to_string()
    });
    // It has begun when others are told so.
    crate::support::eventually("Redis is busy", async || {
        ground.redis.try_command::<Option<String>>(&["GET", "x"]).is_err().then_some(())
    })
    .await;
    ground.watched.assert_fails("BUSY").await;
    ground.watched.assert_says_down("BUSY").await;
    let _: () = ground.redis.command(&["SCRIPT", "KILL"]);
    ground.watched.assert_recovers().await;
    assert!(script.join().unwrap().contains("killed"));
    ground.end(Undecided::NeverCharged, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_paused_as_before_a_failover() {
    let mut ground = Ground::start().await;
    let _: () = ground.redis.command(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    ground.watched.assert_fails("").await;
    let _: () = ground.redis.command(&["CLIENT", "UNPAUSE"]);
    ground.watched.assert_recovers().await;
    ground.end(Undecided::PerhapsCharged, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn loading_takes_its_time() {
    let mut ground = Ground::start().await;
    ground.redis.restart_loading(Duration::from_secs(3)).await;
    ground.watched.assert_fails("").await;
    ground.watched.assert_says_down("LOADING").await;
    ground.redis.until_ready().await;
    ground.watched.assert_recovers().await;
    // It has come back with what it held.
    ground.end(Undecided::NeverCharged, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_house() {
    let mut ground = Ground::start().await;
    let mut connection = ground.redis.connect().unwrap();
    let mut set = |clients: &str| redis::cmd("CONFIG").arg("SET").arg("maxclients").arg(clients).exec(&mut connection);
    set("1").unwrap();
    ground.proxy.reset_open();
    ground.watched.assert_fails("").await;
    ground.watched.assert_says_down("").await;
    set("1000").unwrap();
    ground.watched.assert_recovers().await;
    ground.end(Undecided::NeverCharged, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_told_without_showing_it_and_can_be_made_right() {
    let options = RedisOptions { password: Some("right-one".into()), ..RedisOptions::default() };
    let redis = Redis::start_with(&options).await;
    let store = format!("redis://:wrong-one@127.0.0.1:{}", redis.port());
    let mut watched = Watched::launch(&json!({"store": store})).await;
    watched.assert_fails("").await;
    watched.assert_says_down("password").await;
    // A second one, as one has it while passwords are changed.
    let _: () = redis.command(&["ACL", "SETUSER", "default", ">wrong-one"]);
    watched.assert_recovers().await;
    assert_invariants(&redis, &mut [], &[watched.sidecar.process.log()], &["wrong-one", "right-one"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_few_rights_is_enough() {
    let users = vec![
        "sluice on >secret-word ~sluice:* -@all +ping +evalsha +script|load +script|exists +time +mget +set".to_owned(),
    ];
    let options = RedisOptions { users, ..RedisOptions::default() };
    let ground = Ground::start_with(&options, "sluice:secret-word", &json!({})).await;
    ground.end(Undecided::NeverCharged, &["secret-word"]).await;
}
