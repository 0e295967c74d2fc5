//! What `on_store_error` says is done while the store can't decide, and only then.

use serde_json::{Value, json};

use super::{RECOVERY, config};
use crate::support::{Client, Proxy, Redis, Sidecar, assert_invariants, eventually};

struct Fallback {
    redis: Redis,
    sidecars: Vec<Sidecar>,
    client: Client,
}

impl Fallback {
    /// Sidecars on one Redis, which has gone after they were ready, with two policies: a window of 90 and a bucket of
    /// 12, neither of which comes back during a test.
    async fn start(sidecars: usize, settings: &Value) -> Self {
        let mut fallback = Self { redis: Redis::start().await, sidecars: Vec::new(), client: Client::new() };
        for _ in 0..sidecars {
            let mut settings = settings.clone();
            settings["store"] = format!("redis://127.0.0.1:{}", fallback.redis.port()).into();
            settings["policies"] = json!({
                "window": {"algorithm": "fixed_window", "rate": "90/1h"},
                "bucket": {"algorithm": "token_bucket", "rate": "12/1h"},
                "sliding": {"algorithm": "sliding_window", "rate": "90/1h"},
            });
            fallback.sidecars.push(Sidecar::start_with(&config(&settings)).await);
        }
        fallback.redis.kill();
        fallback
    }

    /// The decision about one check in a batch.
    async fn decide(&self, sidecar: usize, policy: &str, key: &str) -> Value {
        let body = json!({"requests": [{"checks": [{"policy": policy, "key": [key]}]}]}).to_string();
        let answer = self.client.post(self.sidecars[sidecar].port(), "/v1/check", body).await;
        assert!(answer.is_allowed(), "{answer:?}");
        answer.json()["decisions"][0].clone()
    }

    /// How many of `attempts` are allowed.
    async fn admitted(&self, sidecar: usize, policy: &str, key: &str, attempts: usize) -> u64 {
        let mut admitted = 0;
        for _ in 0..attempts {
            admitted += u64::from(self.decide(sidecar, policy, key).await["allowed"] == true);
        }
        admitted
    }

    /// Redis is back, and decides: of a fresh key, as many as its limit.
    async fn end(mut self) {
        self.redis.restart().await;
        let start = std::time::Instant::now();
        for sidecar in &self.sidecars {
            eventually("the store is up", async || (sidecar.store().await["state"] == "up").then_some(())).await;
        }
        assert!(start.elapsed() < RECOVERY + super::NOISE, "{:?}", start.elapsed());
        for sidecar in 0..self.sidecars.len() {
            let share = usize::from(sidecar == 0) * 200;
            assert_eq!(
                self.admitted(sidecar, "window", "fresh", share.max(5)).await,
                if sidecar == 0 { 90 } else { 0 }
            );
        }
        let logs: Vec<String> = self.sidecars.iter().map(|sidecar| sidecar.process.log()).collect();
        assert_invariants(&self.redis, &mut [], &logs, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fail_is_the_default_and_a_problem() {
    for settings in [json!({}), json!({"on_store_error": "fail"})] {
        let fallback = Fallback::start(1, &settings).await;
        assert_eq!(fallback.sidecars[0].take("window", "a").await.status, 503);
        fallback.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn allow_and_deny_are_decisions() {
    for (on_store_error, allowed, status) in [("allow", true, 200), ("deny", false, 429)] {
        let fallback = Fallback::start(1, &json!({"on_store_error": on_store_error})).await;
        for _ in 0..200 {
            assert_eq!(fallback.decide(0, "window", "a").await["allowed"], allowed);
        }
        assert_eq!(fallback.sidecars[0].take("bucket", "a").await.status, status);
        fallback.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn local_sidecars_admit_no_more_than_the_limit_together() {
    let fallback = Fallback::start(3, &json!({"on_store_error": "local", "replicas": 3})).await;
    for (policy, each) in [("window", 30), ("sliding", 30), ("bucket", 4)] {
        for sidecar in 0..3 {
            assert_eq!(fallback.admitted(sidecar, policy, "a", 50).await, each, "{policy} of sidecar {sidecar}");
        }
    }
    // Keys have limits of their own.
    assert_eq!(fallback.admitted(0, "window", "b", 50).await, 30);
    assert_eq!(fallback.sidecars[0].take("window", "b").await.status, 429);
    fallback.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_local_share_can_be_set() {
    let fallback = Fallback::start(1, &json!({"on_store_error": "local", "local_share": 0.25, "replicas": 3})).await;
    assert_eq!(fallback.admitted(0, "bucket", "a", 20).await, 3);
    // Rounded down: two sidecars with half of an odd number each are not to have one more together.
    assert_eq!(fallback.admitted(0, "window", "a", 50).await, 22);
    fallback.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_a_store_that_cannot_decide() {
    let redis = Redis::start().await;
    let proxy = Proxy::start(redis.port()).await;
    let store = format!("redis://127.0.0.1:{}", proxy.port());
    let sidecar = Sidecar::start_with(&config(&json!({"store": store, "on_store_error": "deny"}))).await;
    assert!(sidecar.take("any", "a").await.is_allowed());
    let _: () = redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(sidecar.take("any", "a").await.status, 429);
    let _: () = redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    eventually("it decides again", async || sidecar.take("any", "a").await.is_allowed().then_some(())).await;
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}
