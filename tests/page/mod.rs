//! The page of the admin listener, in Chromium, against a real sidecar and a real Redis. The scripts beside this file
//! are what an operator does; this starts them, and what they look at, and breaks it when they say so.
//!
//! Pictures are left in `target/page/`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::support::{Client, Redis, Sidecar, assert_invariants, repository, tool};

/// Much longer than a script takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

const TOKEN: &str = "a-token-for-the-page-0123456789";

/// A script that runs: its orders, a line each, and where the answers go.
struct Script {
    child: Child,
    orders: mpsc::UnboundedReceiver<String>,
    answers: ChildStdin,
    name: &'static str,
}

impl Script {
    fn start(name: &'static str, sidecar: &Sidecar) -> Self {
        let pictures = pictures();
        std::fs::create_dir_all(&pictures).unwrap();
        let packages = repository().join(".tools/page");
        assert!(packages.join("complete").exists(), "{} is missing: 'make setup' gets it", packages.display());
        let told = json!({
            "admin": format!("http://127.0.0.1:{}", sidecar.admin_port()),
            "checks": format!("http://127.0.0.1:{}", sidecar.port()),
            "chromium": tool("chromium"),
            "packages": packages,
            "pictures": pictures,
            "token": TOKEN,
        });
        let mut child = Command::new(tool("node"))
            .arg(repository().join("tests/page").join(name))
            .arg(told.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, orders) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            // Ends with the script, or with the test.
            for line in lines.map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let answers = child.stdin.take().unwrap();
        Self { child, orders, answers, name }
    }

    /// The next order; `None` once all is done and was as it should be.
    async fn order(&mut self) -> Option<String> {
        let order = tokio::time::timeout(PATIENCE, self.orders.recv()).await;
        let order = order.unwrap_or_else(|_| panic!("{} takes more than {PATIENCE:?}", self.name));
        if order.is_none() {
            let status = self.child.wait().unwrap();
            assert!(status.success(), "tests/page/{} fails, see above", self.name);
        }
        order
    }

    fn done(&mut self) {
        self.answers.write_all(b"done\n").unwrap();
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // It may be gone already. Chromium goes with it: what it is driven by is a pipe.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// target/page, wherever target is.
fn pictures() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_sluice")).ancestors().nth(2).unwrap().join("page")
}

fn policies() -> Value {
    json!({
        "idle": {"algorithm": "sliding_window", "rate": "100/s"},
        "per-tenant": {"algorithm": "fixed_window", "rate": "20/1h", "overrides": [{"key": "vip", "unlimited": true}]},
        "trial": {"algorithm": "token_bucket", "rate": "1/s", "shadow": true},
    })
}

/// Has the sidecar read this at once.
async fn reload(sidecar: &Sidecar, config: &Value, expected: StatusCode) {
    std::fs::write(sidecar.config_file(), config.to_string()).unwrap();
    let answer = Client::new().post(sidecar.admin_port(), "/v1/reload", "").await;
    assert_eq!(answer.status, expected, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_finds_what_there_is_and_what_is_wrong() {
    let mut redis = Redis::start().await;
    let mut sidecar = Sidecar::start(redis.port(), &policies()).await;
    let mut script = Script::start("board.mjs", &sidecar);
    while let Some(order) = script.order().await {
        match order.as_str() {
            "stop redis" => redis.kill(),
            "start redis" => redis.restart().await,
            "spoil the configuration" => {
                let mut config = sidecar.config();
                config["policies"]["per-tenant"]["rate"] = json!("many");
                reload(&sidecar, &config, StatusCode::UNPROCESSABLE_ENTITY).await;
            }
            "change the configuration" => {
                let mut config = sidecar.config();
                config["policies"]["per-tenant"]["rate"] = json!("20/1h");
                config["policies"]["added"] = json!({"algorithm": "fixed_window", "rate": "1/s"});
                // Another name of the same.
                config["store"] = json!(format!("redis://localhost:{}", redis.port()));
                reload(&sidecar, &config, StatusCode::OK).await;
            }
            "pause the sidecar" => sidecar.pause(),
            "resume the sidecar" => sidecar.resume(),
            "stop the sidecar" => sidecar.kill(),
            "start the sidecar" => sidecar.restart().await,
            other => panic!("{other:?} is no order"),
        }
        script.done();
    }
    let log = sidecar.process.log();
    for key in ["victim", "onerror", "acme"] {
        assert!(!log.contains(key), "{key} is in the log");
    }
    assert_invariants(&redis, &mut [], &[log], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_asked_for_kept_and_forgotten() {
    let redis = Redis::start().await;
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("tokens");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let sidecar = Sidecar::start_with(&json!({
        "store": format!("redis://127.0.0.1:{}", redis.port()),
        "store_timeout": "2s",
        "admin": {"token_file": file},
        "policies": policies(),
    }))
    .await;
    let mut script = Script::start("token.mjs", &sidecar);
    assert_eq!(script.order().await, None);
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[TOKEN]).await;
}
