//! Leases as the sidecar grants them: charged at once, a share of what remains, and given back with a later batch.

use serde_json::{Value, json};

use crate::support::{Client, Redis, Sidecar, assert_invariants};

struct Ground {
    redis: Redis,
    sidecar: Sidecar,
    client: Client,
}

impl Ground {
    async fn start() -> Self {
        let redis = Redis::start().await;
        let lease = json!({"max": 100, "share": 0.1, "ttl": "250ms"});
        let policies = json!({
            "window": {"algorithm": "fixed_window", "rate": "1000/1h", "lease": lease},
            "short": {"algorithm": "fixed_window", "rate": "1000/100ms", "align": true, "lease": lease},
            "bucket": {"algorithm": "token_bucket", "rate": "1000/1h", "lease": lease},
            "small": {"algorithm": "fixed_window", "rate": "1/1h"},
            "plain": {"algorithm": "fixed_window", "rate": "1000/1h"},
        });
        let sidecar = Sidecar::start(redis.port(), &policies).await;
        Self { redis, sidecar, client: Client::new() }
    }

    async fn ask(&self, body: Value) -> Value {
        let answer = self.client.post(self.sidecar.port(), "/v1/check", body.to_string()).await;
        assert!(answer.is_allowed(), "{answer:?}");
        answer.json()["decisions"].clone()
    }

    /// The verdict of one check.
    async fn check(&self, policy: &str, cost: u64, lease: u64) -> Value {
        let check = json!({"policy": policy, "key": ["k"], "cost": cost, "lease": lease});
        self.ask(json!({"requests": [{"checks": [check]}]})).await[0]["checks"][0].clone()
    }

    async fn end(self) {
        assert_invariants(&self.redis, &mut [], &[self.sidecar.process.log()], &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_granted_is_charged_and_a_share_of_what_remains() {
    let ground = Ground::start().await;
    // Policies without leases grant none, and say nothing of it.
    assert_eq!(ground.check("plain", 1, 50).await.get("lease"), None);
    for policy in ["window", "bucket"] {
        let verdict = ground.check(policy, 1, 0).await;
        assert_eq!((&verdict["remaining"], &verdict["lease"]["granted"]), (&json!(999), &json!(0)), "{verdict}");
        assert_eq!((&verdict["lease"]["ttl_ms"], &verdict["lease"]["charge"]), (&json!(250), &json!(0)), "{verdict}");
        // As much as is wanted, at most a tenth of what remains, at most 100.
        let verdict = ground.check(policy, 1, 50).await;
        assert_eq!((&verdict["remaining"], &verdict["lease"]["granted"]), (&json!(948), &json!(50)), "{verdict}");
        let verdict = ground.check(policy, 1, 1_000_000_000).await;
        assert_eq!((&verdict["remaining"], &verdict["lease"]["granted"]), (&json!(853), &json!(94)), "{verdict}");
        // Near the end there is none, and the rest is decided one by one.
        let verdict = ground.check(policy, 844, 50).await;
        assert_eq!((&verdict["remaining"], &verdict["lease"]["granted"]), (&json!(9), &json!(0)), "{verdict}");
        for _ in 0..9 {
            assert_eq!(ground.check(policy, 1, 50).await["allowed"], true);
        }
        let verdict = ground.check(policy, 1, 50).await;
        assert_eq!((&verdict["allowed"], verdict.get("lease")), (&json!(false), None), "{verdict}");
    }
    ground.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_spent_is_given_back_with_a_later_batch() {
    let ground = Ground::start().await;
    let verdict = ground.check("window", 1, 50).await;
    let charge = &verdict["lease"]["charge"];
    let refund = json!({"policy": "window", "key": ["k"], "cost": 30, "charge": charge});
    assert_eq!(ground.ask(json!({"requests": [], "refunds": [refund]})).await, json!([]));
    assert_eq!(ground.check("window", 0, 0).await["remaining"], 979);
    // Beside questions, and before them.
    let again = json!({"policy": "window", "key": ["k"], "cost": 20, "charge": charge});
    // What can't be given back is no reason to decide nothing, or to keep the rest.
    let unknown = json!({"policy": "nope", "key": ["k"], "cost": 20, "charge": charge});
    let check = json!({"policy": "window", "key": ["k"]});
    let decisions = ground.ask(json!({"requests": [{"checks": [check]}], "refunds": [unknown, again]})).await;
    assert_eq!(decisions[0]["checks"][0]["remaining"], 998);
    ground.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_request_is_granted_nothing() {
    let ground = Ground::start().await;
    assert_eq!(ground.check("small", 1, 0).await["allowed"], true);
    let checks = json!([{"policy": "window", "key": ["k"], "lease": 50}, {"policy": "small", "key": ["k"]}]);
    let decision = &ground.ask(json!({"requests": [{"checks": checks}]})).await[0];
    assert_eq!(decision["allowed"], false);
    assert_eq!(decision["checks"][0]["lease"]["granted"], 0, "{decision}");
    assert_eq!(ground.check("window", 0, 0).await["remaining"], 1000);
    ground.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_ends_with_its_window() {
    let ground = Ground::start().await;
    let verdict = ground.check("short", 1, 10).await;
    let (ttl_ms, reset_ms) = (verdict["lease"]["ttl_ms"].as_u64().unwrap(), verdict["reset_ms"].as_u64().unwrap());
    assert!(ttl_ms <= reset_ms && ttl_ms < 100, "{verdict}");
    ground.end().await;
}
