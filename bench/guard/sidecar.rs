//! The sidecar's side: a batch from its bytes to those of its answer, and what is written to and read from Redis.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use redis::Value;
use serde_json::json;
use sluice::config_file::ConfigFile;
use sluice::http::{App, check_router};
use sluice::keys;
use sluice::policy::{Algorithm, Limit, Rate};
use sluice::store::{Ahead, Store, StoreAddress, StoreCheck, StoreSettings, script};
use tower_service::Service;

const POLICIES: &str = "policies: {per-tenant: {algorithm: token_bucket, rate: 1000000/s}}";

fn key(number: u32) -> [String; 1] {
    [format!("key-{number:07}")]
}

/// `count` batches of `requests` requests over HTTP, decided by the memory store: no network, and no waiting.
pub fn batch(count: u32, requests: u32) {
    let file = ConfigFile::parse(Path::new("sluice.yaml"), POLICIES).unwrap();
    let store = Store::connect(&StoreSettings::new(StoreAddress::Memory)).unwrap();
    let app = App::new(file, store, None);
    let mut router = check_router(Arc::clone(&app));
    let request = |number| json!({"checks": [{"policy": "per-tenant", "key": key(number)}]});
    let body = json!({"requests": (0..requests).map(request).collect::<Vec<_>>()}).to_string();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        for _ in 0..count {
            let request = Request::post("/v1/check").body(Body::from(body.clone())).unwrap();
            let response = router.call(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            black_box(to_bytes(response.into_body(), usize::MAX).await.unwrap());
        }
    });
}

fn questions() -> Vec<Vec<StoreCheck>> {
    let rate = Rate { count: 1_000_000, period_us: 1_000_000 };
    let limit = Limit { algorithm: Algorithm::TokenBucket { burst: 1_000_000 }, rate, shadow: false };
    (0..32)
        .map(|number| {
            vec![StoreCheck {
                key: keys::state_key("per-tenant", &key(number)),
                limit,
                cost: 1,
                ahead: Ahead::default(),
            }]
        })
        .collect()
}

/// The bytes that have the script decide 32 requests.
pub fn arguments(count: u32) {
    let (questions, sha1) = (questions(), "0123456789012345678901234567890123456789");
    for _ in 0..count {
        black_box(script::decide(sha1, &questions).get_packed_command());
    }
}

/// The script's answer to 32 requests, as outcomes.
pub fn answer(count: u32) {
    let (questions, check) = (questions(), [1, 41, 0, 580_000, 1_796_041_503_674_602]);
    let answer = Value::Array(check.repeat(32).into_iter().map(Value::Int).collect());
    for _ in 0..count {
        black_box(script::outcomes(&answer, &questions).unwrap());
    }
}

pub fn state_key(count: u32) {
    let parts = key(42);
    for _ in 0..count {
        black_box(keys::state_key("per-tenant", black_box(&parts)));
    }
}
