//! `sluice health`, as a container asks itself.

use std::process::{Command, Output};

use serde_json::json;

use crate::support::{Redis, Sidecar, assert_invariants, eventually};

fn health(url: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluice")).args(["health", "--url", url]).output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn says_by_its_exit_code_whether_a_sidecar_is_ready() {
    let redis = Redis::start().await;
    let policies = json!({"window": {"algorithm": "fixed_window", "rate": "2/1h"}});
    let mut sidecar = Sidecar::start(redis.port(), &policies).await;
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", sidecar.admin_port());
    let (ready, missing) = (url("/readyz"), url("/nowhere"));

    let output = health(&ready);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"200 OK\n");

    let output = health(&missing);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("answers 404"), "{output:?}");

    sidecar.kill();
    let output = eventually("nobody answers", async || Some(health(&ready)).filter(|it| !it.status.success())).await;
    assert!(String::from_utf8_lossy(&output.stderr).contains("doesn't answer"), "{output:?}");
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}
