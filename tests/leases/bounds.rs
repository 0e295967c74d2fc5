//! What is admitted, and how much of it without asking.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::{Account, Load, QUIET, charged_to, leasing, ports, two_by_two};
use crate::support::{Stack, eventually, plugin_config};

#[tokio::test(flavor = "multi_thread")]
async fn a_window_admits_its_limit_and_nearly_all_of_it() {
    const LIMIT: u64 = 10_000;
    let policies = json!({"hot": leasing("fixed_window", &format!("{LIMIT}/1h"))});
    let mut stack = two_by_two(&policies, &charged_to(&["hot"])).await;
    let load = Load::start(&ports(&stack), 8, "/");
    load.until_exhausted(QUIET).await;
    let failed = load.failed();
    let admitted = load.stop().await.len() as u64;
    let account = Account::settled(&stack).await;
    let (callouts, local) = (stack.metric("callouts").await, stack.metric("allowed_locally").await);
    println!(
        "{admitted} admitted, {local} of them without asking; {} leased, {} given back; {callouts} callouts",
        account.leased, account.refunded
    );

    assert!(admitted <= LIMIT, "{admitted} of {LIMIT}");
    assert!(admitted >= LIMIT / 100 * 99, "{admitted} of {LIMIT}");
    assert_eq!(failed, 0);
    assert_eq!(stack.metric("allowed").await, admitted);
    assert_eq!(local, account.spent, "each costs one");
    // How many it is depends on how busy the machine is, and that many on leases.
    assert!(local > admitted / 10, "{local} of {admitted}");
    // Nothing is lost between Redis and the filters.
    for sidecar in &stack.sidecars {
        assert_eq!(sidecar.remaining("hot", "all").await, LIMIT - admitted);
    }
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_that_follow_each_other_admit_their_limit_each() {
    const LIMIT: u64 = 300;
    let policies = json!({"hot": {
        "algorithm": "fixed_window", "rate": format!("{LIMIT}/1s"), "align": true,
        "lease": {"max": 100, "share": 0.3, "ttl": "600ms"},
    }});
    let mut stack = two_by_two(&policies, &charged_to(&["hot"])).await;
    let load = Load::start(&ports(&stack), 4, "/");
    // Enough to see several windows, each with an end within the time of a lease.
    load.until_admitted(5 * LIMIT).await;
    let times = load.stop().await;
    assert!(stack.metric("allowed_locally").await > 0);
    // Whatever was sent and answered within a second touched two windows at most, whatever within two three.
    for (seconds, windows) in [(1, 2), (2, 3)] {
        let most = most_within(&times, Duration::from_secs(seconds));
        assert!(most <= windows * LIMIT, "{most} within {seconds} s");
    }
    Account::settled(&stack).await;
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_leased_in_one_window_is_not_spent_in_the_next() {
    const LIMIT: u64 = 500;
    const WINDOW_MS: u64 = 4_000;
    let policies = json!({"hot": {
        "algorithm": "fixed_window", "rate": format!("{LIMIT}/4s"), "align": true,
        "lease": {"max": 100, "share": 0.3, "ttl": "1m"},
    }});
    let mut stack = Stack::start(&policies, &charged_to(&["hot"])).await;
    // Redis has the same clock.
    let now_ms = || u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let until = async |ms: u64| {
        tokio::time::sleep(Duration::from_millis((WINDOW_MS + ms - now_ms() % WINDOW_MS) % WINDOW_MS)).await;
    };
    until(WINDOW_MS / 2).await;
    for _ in 0..100 {
        assert!(stack.envoy().get("/", &[]).await.is_allowed());
    }
    eventually("some of it is left", async || {
        let (leased, spent) = (stack.metric("leased").await, stack.metric("lease_spent").await);
        (leased > spent + 10).then_some(())
    })
    .await;
    until(10).await;
    let (begin, mut admitted) = (now_ms(), 0);
    while stack.envoy().get("/", &[]).await.is_allowed() {
        admitted += 1;
    }
    let windows = now_ms() / WINDOW_MS - begin / WINDOW_MS + 1;
    assert!(admitted <= windows * LIMIT, "{admitted} in {windows} windows");
    Account::settled(&stack).await;
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_admits_what_it_allows_in_the_time_and_a_ttl() {
    let (rate, burst, ttl) = (500.0, 200.0, 0.25);
    let mut bucket = leasing("token_bucket", "500/s");
    bucket["burst"] = json!(200);
    let mut stack = two_by_two(&json!({"hot": bucket}), &charged_to(&["hot"])).await;
    let load = Load::start(&ports(&stack), 4, "/");
    load.until_admitted(1_500).await;
    let times = load.stop().await;
    for ms in [50, 250, 1_000, 60_000] {
        let span = Duration::from_millis(ms).min(times.iter().map(|time| time.1).max().unwrap() - times[0].0);
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        let most = most_within(&times, span) as f64;
        let allowed = burst + rate * (span.as_secs_f64() + ttl);
        assert!(most <= allowed, "{most} within {span:?}, where {allowed} are allowed");
    }
    assert!(stack.metric("allowed_locally").await > 0);
    Account::settled(&stack).await;
    stack.assert_invariants(&[]).await;
}

/// The most that were sent and answered within a time.
fn most_within(times: &[(Instant, Instant)], span: Duration) -> u64 {
    let mut most = 0;
    for (begin, _) in times {
        let within = times.iter().filter(|(sent, answered)| sent >= begin && *answered <= *begin + span);
        most = most.max(within.count() as u64);
    }
    most
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hot_key_needs_few_callouts() {
    let policies = json!({"hot": leasing("fixed_window", "1000000/1h")});
    let mut stack = Stack::start(&policies, &charged_to(&["hot"])).await;
    let load = Load::start(&ports(&stack), 4, "/");
    load.until_admitted(5_000).await;
    let admitted = load.stop().await.len() as u64;
    let (callouts, local) = (stack.metric("callouts").await, stack.metric("allowed_locally").await);
    println!("{admitted} admitted, {local} of them without asking, {callouts} callouts");
    assert!(callouts * 10 < admitted, "{callouts} callouts for {admitted}");
    Account::settled(&stack).await;
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rare_keys_lease_nothing() {
    let mut policy = leasing("fixed_window", "1000000/1h");
    policy["lease"]["ttl"] = json!("1m"); // long, so that a slow machine does not make a key rare
    let rules = json!([{"checks": [{"policy": "each", "key": [{"header": "x-id"}]}]}]);
    let mut stack = Stack::start(&json!({"each": policy}), &rules).await;
    for _ in 0..3 {
        for key in 0..100 {
            assert!(stack.envoy().get("/", &[("x-id", &key.to_string())]).await.is_allowed());
        }
    }
    assert_eq!(stack.metric("callouts").await, 300);
    assert_eq!((stack.metric("leased").await, stack.metric("allowed_locally").await), (0, 0));
    for _ in 0..20 {
        assert!(stack.envoy().get("/", &[("x-id", "7")]).await.is_allowed());
    }
    eventually("a busy one does", async || (stack.metric("allowed_locally").await > 0).then_some(())).await;
    assert_eq!(stack.sidecar().remaining("each", "8").await, 1_000_000 - 3);
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_policies_are_charged_together_or_not_at_all() {
    const LIMIT: u64 = 500;
    let policies = json!({
        "tight": leasing("fixed_window", &format!("{LIMIT}/1h")),
        "wide": leasing("token_bucket", "2000/1d"),
        "exact": {"algorithm": "fixed_window", "rate": "1000000/1h"},
    });
    let mut rules = charged_to(&["tight", "wide"]);
    rules[0]["match"] = json!({"path": {"exact": "/both"}});
    rules.as_array_mut().unwrap().extend(charged_to(&["wide", "exact"]).as_array().unwrap().clone());
    rules[1]["match"] = json!({"path": {"exact": "/exact"}});
    let mut stack = two_by_two(&policies, &rules).await;
    let load = Load::start(&ports(&stack), 4, "/both");
    load.until_exhausted(QUIET).await;
    let admitted = load.stop().await.len() as u64;
    let account = Account::settled(&stack).await;
    assert!((LIMIT / 100 * 99..=LIMIT).contains(&admitted), "{admitted} of {LIMIT}");
    let local = stack.metric("allowed_locally").await;
    assert!(local > 0 && account.spent == 2 * local, "{} spent on {local} requests", account.spent);
    assert_eq!(stack.sidecar().remaining("tight", "all").await, LIMIT - admitted);
    // At most a token comes back during the test: one takes 43 s.
    let wide = stack.sidecar().remaining("wide", "all").await;
    assert!((2000 - admitted..=2000 - admitted + 1).contains(&wide), "{wide} remain beside {admitted}");

    // A request that has to be asked about has nothing leased.
    for _ in 0..50 {
        assert!(stack.envoy().get("/exact", &[]).await.is_allowed());
    }
    assert_eq!((stack.metric("leased").await, stack.metric("allowed_locally").await), (account.leased, local));
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_spent_is_given_back_when_nobody_asks_any_more() {
    let policies = json!({"hot": leasing("fixed_window", "1000/1h")});
    let mut stack = Stack::start(&policies, &charged_to(&["hot"])).await;
    let load = Load::start(&ports(&stack), 2, "/");
    load.until_admitted(200).await;
    let admitted = load.stop().await.len() as u64;
    eventually("all of it is back", async || {
        (stack.sidecar().remaining("hot", "all").await == 1000 - admitted).then_some(())
    })
    .await;
    let account = Account::settled(&stack).await;
    assert!(account.refunded > 0, "there was nothing to give back");
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_can_be_off() {
    let policies = json!({"hot": leasing("fixed_window", "1000/1h")});
    let mut stack = Stack::start_with(1, 1, &policies, |options| {
        options.plugin = plugin_config(&charged_to(&["hot"]));
        options.plugin["leases"] = json!("off");
    })
    .await;
    for remaining in (950..1000).rev() {
        assert_eq!(stack.envoy().get("/", &[]).await.rate_limit(), ("hot", remaining));
    }
    assert_eq!((stack.metric("leased").await, stack.metric("callouts").await), (0, 50));
    stack.assert_invariants(&[]).await;
}
