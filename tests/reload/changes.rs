//! What a changed file changes, and what it doesn't.

use axum::http::StatusCode;
use rustix::process::Signal;
use serde_json::json;

use super::{config, policies, put, until_limit, with};
use crate::support::{Client, Redis, Sidecar, assert_invariants, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_leaves_all_as_it_was_until_it_is_repaired() {
    let redis = Redis::start().await;
    let sidecar = Sidecar::start(redis.port(), &policies(5)).await;
    let good = sidecar.config().to_string();
    let bad = with(&sidecar, &json!({"p": {"algorithm": "fixed_window", "rate": "5/fortnight"}})).to_string();
    let series = "sluice_config_last_reload_successful";
    for (failed, (text, message)) in
        (1..).zip([(bad.as_str(), "sluice.yaml: line 1, column"), ("", "unexpected end of input")])
    {
        put(&sidecar, text);
        let error = eventually("it is told", async || config(&sidecar).await["error"].as_str().map(str::to_owned));
        let error = error.await;
        assert!(error.contains(message), "{error}");
        let metrics = sidecar.metrics().await;
        assert!(metrics.get(series) < 0.5);
        assert!((metrics.get(r#"sluice_config_reloads_total{outcome="failed"}"#) - f64::from(failed)).abs() < 0.5);
        assert_eq!(sidecar.take("p", &failed.to_string()).await.rate_limit(), ("p", 4));
        assert_eq!(sidecar.process.log().matches(&error).count(), 1, "{}", sidecar.process.log());
        // In between all is well again, or the next would be told as the same state.
        put(&sidecar, &good);
        eventually("it is repaired", async || config(&sidecar).await["error"].is_null().then_some(())).await;
        assert!(sidecar.metrics().await.get(series) > 0.5);
    }
    std::fs::remove_file(sidecar.config_file()).unwrap();
    eventually("it is missed", async || config(&sidecar).await["error"].as_str().map(str::to_owned)).await;
    assert_eq!(config(&sidecar).await["generation"], 1);
    assert!(sidecar.take("p", "k").await.is_allowed());
    put(&sidecar, &with_policies(&good, 6));
    until_limit("it is back, and another", &sidecar, 6).await;
    assert_eq!(config(&sidecar).await, json!({"generation": 2}));
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

fn with_policies(text: &str, count: u64) -> String {
    let mut config: serde_json::Value = serde_json::from_str(text).unwrap();
    config["policies"] = policies(count);
    config.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn sighup_reads_the_file_whatever_is_known_of_it() {
    let redis = Redis::start().await;
    let sidecar = Sidecar::start(redis.port(), &policies(5)).await;
    let count = async |outcome: &str, expected: f64| {
        eventually(outcome, async || {
            let series = format!("sluice_config_reloads_total{{outcome=\"{outcome}\"}}");
            ((sidecar.metrics().await.get(&series) - expected).abs() < 0.5).then_some(())
        })
        .await;
    };
    // Nobody else reads what has not changed.
    for times in [1.0, 2.0] {
        sidecar.process.signal(Signal::HUP);
        count("unchanged", times).await;
    }
    put(&sidecar, "policies: none");
    for times in [1.0, 2.0] {
        sidecar.process.signal(Signal::HUP);
        count("failed", times).await;
    }
    assert_eq!(config(&sidecar).await["generation"], 1);
    assert!(sidecar.take("p", "k").await.is_allowed());
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_goes_and_comes_back() {
    let redis = Redis::start().await;
    let other = json!({"algorithm": "fixed_window", "rate": "9/1h"});
    let both = json!({"p": {"algorithm": "fixed_window", "rate": "5/1h"}, "other": other});
    let sidecar = Sidecar::start(redis.port(), &both).await;
    let client = Client::new();
    let names = sidecar.metrics().await;
    let names = names.names();
    for policy in ["p", "other"] {
        assert!(sidecar.take(policy, "k").await.is_allowed());
    }

    put(&sidecar, &with(&sidecar, &json!({"other": other})).to_string());
    eventually("it is gone", async || (config(&sidecar).await["generation"] == 2).then_some(())).await;
    assert_eq!(sidecar.take("p", "k").await.status, StatusCode::NOT_FOUND);
    let check = |policy: &str| json!({"checks": [{"policy": policy, "key": ["k"]}]});
    let body = json!({"requests": [check("p"), check("other")]}).to_string();
    let decisions = client.post(sidecar.port(), "/v1/check", body).await.json()["decisions"].clone();
    let detail = decisions[0]["error"]["detail"].as_str().unwrap();
    assert!(detail.contains(r#"there is no policy "p""#), "{decisions}");
    assert_eq!(decisions[1]["allowed"], true);
    let without = sidecar.metrics().await;
    assert!(without.names().iter().all(|name| !name.contains(r#"policy="p""#)), "{without:?}");
    let other_allowed = r#"sluice_decisions_total{policy="other",outcome="allowed"}"#;
    assert!((without.get(other_allowed) - 2.0).abs() < 0.5, "the other's counters go on");

    put(&sidecar, &with(&sidecar, &both).to_string());
    until_limit("it is back", &sidecar, 5).await;
    let back = sidecar.metrics().await;
    assert_eq!(back.names(), names, "the same series as at the start");
    assert!(back.get(r#"sluice_decisions_total{policy="p",outcome="allowed"}"#) < 0.5, "they start at 0");
    // Redis has not forgotten: nobody gets a fresh limit.
    assert_eq!(sidecar.take("p", "k").await.rate_limit(), ("p", 3));
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_questions_change_and_the_rest_is_told_to_need_a_restart() {
    let redis = Redis::start().await;
    let sidecar = Sidecar::start(redis.port(), &policies(1)).await;
    let start = sidecar.config();
    let warning = "in force only after a restart: admin, store_timeout";
    for count in [2, 3] {
        let mut config = with(&sidecar, &policies(count));
        config["store_timeout"] = "3s".into();
        config["admin"] = "off".into();
        config["limits"] = json!({"key_bytes": 1});
        put(&sidecar, &config.to_string());
        until_limit("policies are applied", &sidecar, count).await;
    }
    let found = config(&sidecar).await;
    assert_eq!(found, json!({"generation": 3, "restart_needed": ["admin", "store_timeout"]}));
    assert_eq!(sidecar.process.log().matches(warning).count(), 1, "{}", sidecar.process.log());
    assert_eq!(sidecar.take("p", "longer").await.status, StatusCode::BAD_REQUEST);
    let needed = async || sidecar.metrics().await.get("sluice_config_restart_needed") > 0.5;
    assert!(needed().await, "and the admin listener is where it was");

    put(&sidecar, &start.to_string());
    until_limit("as at the start", &sidecar, 1).await;
    assert_eq!(config(&sidecar).await, json!({"generation": 4}));
    assert!(!needed().await);
    assert!(sidecar.take("p", "longer").await.is_allowed());
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}
