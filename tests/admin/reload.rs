//! `sluice reload`: what came of reading the file, at once and as an exit code.

use serde_json::{Value, json};

use super::ask;
use crate::support::{Redis, Sidecar, assert_invariants};

fn write(sidecar: &Sidecar, change: impl FnOnce(&mut Value)) {
    let mut config = sidecar.config();
    change(&mut config);
    std::fs::write(sidecar.config_file(), serde_json::to_string_pretty(&config).unwrap()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_applies_and_a_mistake_is_told_with_its_place() {
    let redis = Redis::start().await;
    let policies = json!({"p": {"algorithm": "fixed_window", "rate": "1/1h"}});
    let sidecar = Sidecar::start(redis.port(), &policies).await;
    assert_eq!(sidecar.take("p", "k").await.status, 200);
    assert_eq!(sidecar.take("p", "k").await.status, 429);

    // The sidecar may have seen the change by itself before it is told: the outcome is the same.
    write(&sidecar, |config| config["policies"]["p"]["rate"] = "2/1h".into());
    assert!(ask(&sidecar, &["reload"]).text().contains("generation 2"));
    assert_eq!(sidecar.take("p", "k").await.status, 200);

    write(&sidecar, |config| config["policies"]["p"]["rate"] = "2/month".into());
    let said = ask(&sidecar, &["reload"]);
    let error = said.error(1);
    let lines = std::fs::read_to_string(sidecar.config_file()).unwrap();
    let line = 1 + lines.lines().position(|line| line.contains("2/month")).unwrap();
    assert!(error.contains(&format!("answers 422: sluice.yaml: line {line}, column ")), "{error}");
    assert!(error.contains("policies.p.rate: ") && error.contains("stays in force"), "{error}");
    assert_eq!(sidecar.remaining("p", "new").await, 2);

    write(&sidecar, |config| {
        config["policies"]["p"]["rate"] = "3/1h".into();
        config["store_timeout"] = "3s".into();
    });
    let reloaded = ask(&sidecar, &["reload", "--json"]).json();
    assert_eq!((&reloaded["generation"], &reloaded["restart_needed"]), (&json!(3), &json!(["store_timeout"])));
    assert!(ask(&sidecar, &["reload"]).text().contains("only in force after a restart: store_timeout"));
    assert_eq!(sidecar.remaining("p", "new").await, 3);

    std::fs::remove_file(sidecar.config_file()).unwrap();
    let said = ask(&sidecar, &["reload"]);
    assert!(said.error(1).contains("sluice.yaml: cannot be read"), "{said:?}");
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}
