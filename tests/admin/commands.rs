//! Every command, in text and as JSON, and what it says when it can't.

use serde_json::json;

use super::{ask, sluice};
use crate::support::{Client, Port, Redis, Sidecar, assert_invariants};

#[tokio::test(flavor = "multi_thread")]
async fn every_command_answers_in_text_and_as_json() {
    let redis = Redis::start().await;
    let policies = json!({
        "window": {"algorithm": "fixed_window", "rate": "3/1h", "align": false},
        "bucket": {
            "algorithm": "token_bucket", "rate": "5/1h", "burst": 10, "lease": {"max": 7, "share": 0.5},
            "overrides": [{"key": "free", "unlimited": true}, {"key": "bad", "blocked": true}],
        },
        "tried": {"algorithm": "sliding_window", "rate": "2/1h", "shadow": true},
    });
    let sidecar = Sidecar::start(redis.port(), &policies).await;
    for (policy, key, times) in [("window", "a%20b/c", 4), ("bucket", "free", 2), ("tried", "x", 3)] {
        for _ in 0..times {
            sidecar.take(policy, key).await;
        }
    }

    let listed = ask(&sidecar, &["policies", "--json"]).json();
    let lease = json!({"max": 7, "share": 0.5, "ttl_ms": 250});
    let expected = json!({"generation": 1, "policies": [
        {
            "name": "bucket", "algorithm": "token_bucket", "rate": "5/h", "burst": 10, "shadow": false, "lease": lease,
            "overrides": 2, "limit_text": "token_bucket 5/h, burst 10",
        },
        {
            "name": "tried", "algorithm": "sliding_window", "rate": "2/h", "shadow": true, "overrides": 0,
            "limit_text": "sliding_window 2/h, shadow",
        },
        {
            "name": "window", "algorithm": "fixed_window", "rate": "3/h", "align": false, "shadow": false,
            "overrides": 0, "limit_text": "fixed_window 3/h",
        },
    ]});
    assert_eq!(listed, expected);
    let text = ask(&sidecar, &["policies"]);
    let rows: Vec<Vec<&str>> = text.text().lines().map(|line| line.split("  ").map(str::trim).collect()).collect();
    let row = |cells: [&str; 4]| rows.iter().any(|row| row.iter().filter(|it| !it.is_empty()).eq(cells.iter()));
    assert!(row(["POLICY", "LIMIT", "OVERRIDES", "LEASES"]), "{rows:?}");
    assert!(row(["bucket", "token_bucket 5/h, burst 10", "2", "7 for 250 ms, 50 % of what remains"]), "{rows:?}");
    assert!(row(["tried", "sliding_window 2/h, shadow", "0", "-"]), "{rows:?}");

    let top = ask(&sidecar, &["top", "--json"]).json();
    let entry =
        |policy: &str, key: &[&str], checks: u64| json!({"policy": policy, "key": key, "checks": checks, "error": 0});
    let hottest = [entry("window", &["a b", "c"], 4), entry("tried", &["x"], 3), entry("bucket", &["free"], 2)];
    assert_eq!(
        top,
        json!({
            "window_s": 60, "hottest": hottest,
            "most_denied": [entry("tried", &["x"], 1), entry("window", &["a b", "c"], 1)],
        })
    );
    let top = ask(&sidecar, &["top", "-n", "1"]);
    assert_eq!(top.text().lines().filter(|line| line.ends_with("window  'a b' c")).count(), 1, "{top:?}");
    assert!(!top.text().contains("bucket") && top.text().contains("The most denied in the last 60 s"), "{top:?}");

    let inspected = ask(&sidecar, &["inspect", "window", "a b", "c", "--json"]).json();
    assert_eq!(inspected["redis_key"], "sluice:{a%20b,c}:window:a%20b,c");
    assert_eq!(inspected["key"], json!(["a b", "c"]));
    assert_eq!(inspected["limit_text"], "fixed_window 3/h");
    assert!(inspected["state"].as_str().unwrap().starts_with("f:3:"), "{inspected}");
    assert!(inspected["meaning"].as_str().unwrap().starts_with("3 taken in the window"), "{inspected}");
    assert_eq!((&inspected["remaining"], &inspected["unlimited"]), (&json!(0), &json!(false)));
    assert!((3_500_000..=3_600_000).contains(&inspected["reset_ms"].as_u64().unwrap()), "{inspected}");
    assert!((3_500_000..=3_610_000).contains(&inspected["ttl_ms"].as_u64().unwrap()), "{inspected}");
    let inspected = ask(&sidecar, &["inspect", "window", "a b", "c"]);
    assert!(inspected.text().starts_with("sluice:{a%20b,c}:window:a%20b,c\n  limit     fixed_window 3/h\n"));
    for line in ["  means     3 taken in the window that ends at ", "  remaining 0 now", "  reset     in "] {
        assert!(inspected.text().contains(line), "{line}: {inspected:?}");
    }
    let free = ask(&sidecar, &["inspect", "bucket", "free"]);
    assert!(free.text().contains("an override frees this key"), "{free:?}");

    let peeked = ask(&sidecar, &["peek", "window", "a b", "c", "--json"]).json();
    assert_eq!((&peeked["allowed"], &peeked["remaining"]), (&json!(false), &json!(0)));
    assert_eq!(ask(&sidecar, &["peek", "window", "a b", "c", "--cost", "0", "--json"]).json()["allowed"], true);
    let peeked = ask(&sidecar, &["peek", "window", "a b", "c"]);
    assert!(peeked.text().contains("it would be denied\n") && peeked.text().contains("  retry     in 3"), "{peeked:?}");
    assert!(ask(&sidecar, &["peek", "window", "new"]).text().contains("it would be allowed"));
    assert!(ask(&sidecar, &["peek", "bucket", "bad"]).text().contains("waiting doesn't help"));

    let reset = ask(&sidecar, &["reset", "window", "a b", "c", "--json"]).json();
    assert_eq!(reset, json!({"policy": "window", "key": ["a b", "c"], "existed": true}));
    let reset = ask(&sidecar, &["reset", "window", "a b", "c"]);
    assert_eq!(reset.text(), "window 'a b' c: nothing was kept of this key, so that there was nothing to reset\n");
    assert!(ask(&sidecar, &["reset", "tried", "x"]).text().contains("tried x: reset"));

    let reloaded = ask(&sidecar, &["reload", "--json"]).json();
    assert_eq!(reloaded, json!({"generation": 1, "changed": false, "restart_needed": []}));
    assert!(ask(&sidecar, &["reload"]).text().contains("generation 1 stays in force"));
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &["a b", "a%20b"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_fails_says_what_to_do() {
    let redis = Redis::start().await;
    let policies =
        json!({"p": {"algorithm": "fixed_window", "rate": "1/1h"}, "q": {"algorithm": "fixed_window", "rate": "1/s"}});
    let sidecar = Sidecar::start(redis.port(), &policies).await;
    for command in ["peek", "inspect", "reset"] {
        let said = ask(&sidecar, &[command, "nope", "x"]);
        assert!(said.error(1).contains(r#"there is no policy "nope"; the configuration has p, q"#), "{said:?}");
        let said = ask(&sidecar, &[command, "p", &"x".repeat(20_000)]);
        assert!(said.error(1).contains("limits.key_bytes"), "{said:?}");
        ask(&sidecar, &[command]).error(2);
    }
    let said = ask(&sidecar, &["peek", "p", "x", "--cost", "1000000001"]);
    assert!(said.error(1).contains("cost: 1000000001 is more than 1000000000"), "{said:?}");
    for args in [
        &["top", "--count", "0"] as &[&str],
        &["top", "--count", "101"],
        &["peek", "p", "x", "--cost", "-1"],
        &["resets"],
    ] {
        ask(&sidecar, args).error(2);
    }
    let nobody = format!("http://127.0.0.1:{}", Port::free().number());
    let said = sluice(&nobody, &["policies"]);
    let message =
        format!("cannot reach {nobody}: Connection refused (os error 111); is `admin` on, or another address?");
    assert!(said.error(1).contains(&message) && said.stderr.contains("--admin"), "{said:?}");
    for url in ["https://127.0.0.1:8081", "127.0.0.1:8081", "http://x:y@127.0.0.1"] {
        let said = ask(&sidecar, &["reload", "--admin", url]);
        assert!(said.error(2).contains("must be http://HOST:PORT"), "{said:?}");
    }
    let said = ask(&sidecar, &["reload", "--token-file", "/nowhere"]);
    assert!(said.error(2).contains("--token-file /nowhere: cannot be read"), "{said:?}");
    let check_listener = format!("http://127.0.0.1:{}", sidecar.port());
    let said = sluice(&check_listener, &["reset", "p", "x"]);
    assert!(said.error(1).contains("answers 404: there is nothing at /v1/keys/p/x"), "{said:?}");
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

/// Without its store a sidecar can tell what it has itself.
#[tokio::test(flavor = "multi_thread")]
async fn what_needs_the_store_says_that_it_is_away() {
    let nobody = Port::free();
    let policies = json!({"p": {"algorithm": "fixed_window", "rate": "1/1h"}});
    let mut sidecar = Sidecar::launch(nobody.number(), &policies, None);
    sidecar.until_alive().await;
    for command in ["peek", "inspect", "reset"] {
        let said = ask(&sidecar, &[command, "p", "x"]);
        assert!(said.error(1).contains("answers 503: the store "), "{said:?}");
    }
    for command in ["policies", "top", "reload"] {
        ask(&sidecar, &[command]).text();
    }
    let status = Client::new().get(sidecar.admin_port(), "/v1/status", &[]).await.json();
    assert_eq!(status["store"]["state"], "down", "{status}");
    assert!(status["store"]["error"].as_str().unwrap().contains("Connection refused"), "{status}");
    for command in ["allow", "deny"] {
        let more = json!({"on_store_error": command});
        let mut sidecar = Sidecar::launch_for(nobody.number(), &policies, &more);
        sidecar.until_alive().await;
        let peeked = ask(&sidecar, &["peek", "p", "x", "--json"]).json();
        assert_eq!((&peeked["degraded"], &peeked["allowed"]), (&json!(true), &json!(command == "allow")), "{peeked}");
        assert!(ask(&sidecar, &["peek", "p", "x"]).text().contains("this is what on_store_error says"));
    }
}
