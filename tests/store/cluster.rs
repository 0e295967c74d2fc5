//! A real cluster: keys everywhere, slots that move while they are asked for, nodes that go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{NOISE, RECOVERY, STORE_TIMEOUT, config};
use crate::support::{
    Certificates, Client, Redis, RedisCluster, RedisOptions, RedisTls, Sidecar, assert_invariants_of, eventually,
};

/// Limits that don't come back during a test.
fn policies() -> Value {
    json!({
        "window": {"algorithm": "fixed_window", "rate": "1/1h"},
        "sliding": {"algorithm": "sliding_window", "rate": "1/1h"},
        "bucket": {"algorithm": "token_bucket", "rate": "1/1h"},
        "busy": {"algorithm": "fixed_window", "rate": format!("{BUSY}/1h")},
        "busier": {"algorithm": "token_bucket", "rate": "1000000/1h"},
    })
}

/// The limit of a key that many ask for at once.
const BUSY: u64 = 3_000;

fn url(scheme: &str, cluster: &RedisCluster) -> String {
    let hosts: Vec<String> = cluster.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("{scheme}://{}", hosts.join(","))
}

async fn start(store: Value) -> Sidecar {
    Sidecar::start_with(&config(&json!({"store": store, "store_timeout": "2s", "policies": policies()}))).await
}

async fn end(cluster: &RedisCluster, sidecar: &Sidecar, secrets: &[&str]) {
    let log = sidecar.process.log();
    assert!(!log.contains("CROSSSLOT") && !log.contains("CrossSlot"), "{log}");
    assert_invariants_of(&cluster.servers(), &mut [], &[log], secrets).await;
}

/// One check each, as one batch: how many were allowed and denied. Nothing else is expected.
async fn batch(client: &Client, port: u16, policy: &str, keys: &[String]) -> (usize, usize) {
    let requests: Vec<Value> = keys.iter().map(|key| json!({"checks": [{"policy": policy, "key": [key]}]})).collect();
    let answer = client.post(port, "/v1/check", json!({"requests": requests}).to_string()).await;
    assert!(answer.is_allowed(), "{answer:?}");
    let decisions = answer.json()["decisions"].as_array().unwrap().clone();
    assert_eq!(decisions.len(), keys.len());
    let count = |allowed| decisions.iter().filter(|decision| decision["allowed"] == allowed).count();
    (count(true), count(false))
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_keys_of_each_algorithm() {
    const KEYS: usize = 10_000;
    const BATCH: usize = 500;
    let cluster = RedisCluster::start().await;
    let sidecar = start(url("redis+cluster", &cluster).into()).await;
    let client = Client::new();
    let keys: Vec<String> = (0..KEYS).map(|key| format!("key-{key}")).collect();
    for policy in ["window", "sliding", "bucket"] {
        for keys in keys.chunks(BATCH) {
            assert_eq!(batch(&client, sidecar.port(), policy, keys).await, (BATCH, 0), "{policy}");
            assert_eq!(batch(&client, sidecar.port(), policy, keys).await, (0, BATCH), "{policy}");
        }
    }
    let count = |node: &&Redis| node.keys().iter().filter(|key| key.contains("key-")).count();
    let each: Vec<usize> = cluster.servers().iter().map(count).collect();
    assert_eq!(each.iter().sum::<usize>(), 3 * KEYS);
    // A third each, more or less.
    assert!(each.iter().all(|count| (8 * KEYS / 10..12 * KEYS / 10).contains(count)), "{each:?}");
    end(&cluster, &sidecar, &[]).await;
}

/// Many who ask for one key, until they are stopped: how often they were allowed, denied, and not answered.
struct Load {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
    clients: JoinSet<[u64; 3]>,
}

impl Load {
    /// Each request has two checks of one key: a script with two keys, both in its slot.
    fn start(port: u16, key: &'static str) -> Self {
        let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut clients = JoinSet::new();
        for _ in 0..8 {
            let (stop, asked, client) = (Arc::clone(&stop), Arc::clone(&asked), Client::new());
            clients.spawn(async move {
                let mut counts = [0; 3];
                while !stop.load(Ordering::Relaxed) {
                    let checks = json!([{"policy": "busy", "key": [key]}, {"policy": "busier", "key": [key]}]);
                    let body = json!({"requests": [{"checks": checks}]}).to_string();
                    let start = Instant::now();
                    let answer = client.post(port, "/v1/check", body).await;
                    assert!(start.elapsed() <= Duration::from_secs(2) + NOISE, "{:?}", start.elapsed());
                    asked.fetch_add(1, Ordering::Relaxed);
                    let allowed = answer.is_allowed().then(|| answer.json()["decisions"][0]["allowed"] == true);
                    counts[allowed.map_or(2, |allowed| usize::from(!allowed))] += 1;
                }
                counts
            });
        }
        Self { stop, asked, clients }
    }

    /// Waits until so many more were answered.
    async fn until_asked(&self, more: u64) {
        let from = self.asked.load(Ordering::Relaxed);
        eventually("requests are answered", async || (self.asked.load(Ordering::Relaxed) >= from + more).then_some(()))
            .await;
    }

    async fn stop(self) -> [u64; 3] {
        self.stop.store(true, Ordering::Relaxed);
        let counts = self.clients.join_all().await;
        counts.into_iter().fold([0; 3], |[a, b, c], [x, y, z]| [a + x, b + y, c + z])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_moves_back_and_forth_under_load() {
    let cluster = RedisCluster::start().await;
    let sidecar = start(url("redis+cluster", &cluster).into()).await;
    let slot = cluster.slot("sluice:{a}:busy:a");
    let home = (0..3).find(|primary| RedisCluster::first_slots(*primary).contains(&slot)).unwrap();
    let load = Load::start(sidecar.port(), "a");
    let mut at = home;
    for step in 0..9 {
        let to = (at + 1) % 3;
        load.until_asked(20).await;
        let migration = cluster.migrate(slot, at, to);
        // Before its keys have moved, and after they have: redirected in between.
        load.until_asked(20).await;
        assert_eq!(migration.move_keys(), 2, "step {step}");
        load.until_asked(20).await;
        migration.finish();
        at = to;
    }
    while load.asked.load(Ordering::Relaxed) < BUSY + 200 {
        load.until_asked(50).await;
    }
    let [allowed, denied, failed] = load.stop().await;
    println!("{allowed} allowed, {denied} denied, {failed} failed");
    assert_eq!(failed, 0, "a redirection is safe to follow");
    assert_eq!(allowed, BUSY);
    assert!(denied > 0);
    end(&cluster, &sidecar, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_lost_under_load() {
    let more = vec!["cluster-require-full-coverage no".to_owned()];
    let mut cluster = RedisCluster::start_with(&RedisOptions { more, ..Default::default() }).await;
    let sidecar = start(url("redis+cluster", &cluster).into()).await;
    let client = Client::new();
    let primary_of = |key: &str| {
        let slot = cluster.slot(&format!("sluice:{{{key}}}:window:{key}"));
        (0..3).find(|primary| RedisCluster::first_slots(*primary).contains(&slot)).unwrap()
    };
    let lost = primary_of("a");
    let elsewhere: Vec<String> =
        (0..300).map(|key| format!("e{key}")).filter(|key| primary_of(key) != lost).take(90).collect();
    let load = Load::start(sidecar.port(), "a");
    load.until_asked(200).await;

    cluster.nodes[lost].kill();
    // Others have nothing to do with it.
    for keys in elsewhere.chunks(30) {
        assert_eq!(batch(&client, sidecar.port(), "window", keys).await, (30, 0));
    }
    let promoted = cluster.until_promoted(lost + 3).await;
    let start = Instant::now();
    while !sidecar.take("busier", "a").await.is_allowed() {
        assert!(start.elapsed() < RECOVERY, "not within {RECOVERY:?}; it says {}", sidecar.store().await);
    }
    load.until_asked(BUSY + 200).await;
    let [allowed, denied, failed] = load.stop().await;
    println!("{allowed} allowed, {denied} denied, {failed} failed; {promoted} was promoted");
    // What the lost node had not yet told its replica is forgotten: a few, that were under way when it died.
    assert!(allowed <= BUSY + 16 && allowed + failed >= BUSY && denied > 0, "{allowed} allowed, {failed} failed");

    cluster.nodes[lost].restart().await;
    cluster.until_whole().await;
    assert_eq!(sidecar.remaining("busy", "a").await, 0);
    end(&cluster, &sidecar, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_that_answers_is_enough() {
    let mut cluster = RedisCluster::start().await;
    let addresses = url("redis+cluster", &cluster);
    cluster.nodes[0].kill();
    cluster.until_promoted(3).await;
    let sidecar = start(addresses.into()).await;
    let keys: Vec<String> = (0..300).map(|key| format!("key-{key}")).collect();
    assert_eq!(batch(&Client::new(), sidecar.port(), "window", &keys).await, (300, 0));
    assert_eq!(batch(&Client::new(), sidecar.port(), "window", &keys).await, (0, 300));
    end(&cluster, &sidecar, &[]).await;

    // And of those that were named, none has to be there later.
    let first = format!("redis+cluster://127.0.0.1:{}", cluster.nodes[1].port());
    let sidecar = start(first.into()).await;
    cluster.nodes[1].kill();
    cluster.until_promoted(4).await;
    let keys: Vec<String> = (0..300).map(|key| format!("again-{key}")).collect();
    let is_lost = |key: &&String| {
        let slot = cluster.slot(&format!("sluice:{{{key}}}:busier:{key}"));
        RedisCluster::first_slots(1).contains(&slot)
    };
    let lost = keys.iter().find(is_lost).unwrap();
    eventually("a key of the lost node is decided", async || {
        sidecar.take("busier", lost).await.is_allowed().then_some(())
    })
    .await;
    assert_eq!(batch(&Client::new(), sidecar.port(), "window", &keys).await, (300, 0));
    end(&cluster, &sidecar, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_down_answers_in_time_and_comes_back() {
    let cluster = RedisCluster::start().await;
    let timeout = format!("{}ms", STORE_TIMEOUT.as_millis());
    let sidecar = Sidecar::start_with(&config(&json!({
        "store": url("redis+cluster", &cluster), "store_timeout": timeout, "policies": policies(),
    })))
    .await;
    for node in &cluster.nodes {
        node.pause();
    }
    for key in 0..10 {
        let start = Instant::now();
        let answer = sidecar.take("busier", &format!("key-{key}")).await;
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(start.elapsed() <= STORE_TIMEOUT + NOISE, "{:?}", start.elapsed());
    }
    eventually("it says so", async || (sidecar.store().await["state"] == "down").then_some(())).await;
    for node in &cluster.nodes {
        node.resume();
    }
    cluster.until_whole().await;
    let start = Instant::now();
    eventually("it decides", async || sidecar.take("busier", "key-1").await.is_allowed().then_some(())).await;
    assert!(start.elapsed() < RECOVERY + NOISE, "{:?}", start.elapsed());
    end(&cluster, &sidecar, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn password_and_tls_on_every_node() {
    let certificates = Arc::new(Certificates::new());
    let options = RedisOptions {
        password: Some("cluster-secret".into()),
        tls: Some(RedisTls { client_certificates: true, ..RedisTls::new(&certificates) }),
        ..RedisOptions::default()
    };
    let cluster = RedisCluster::start_with(&options).await;
    let file = certificates.path("password");
    std::fs::write(&file, "cluster-secret\n").unwrap();
    let sidecar = start(json!({
        "url": url("rediss+cluster", &cluster),
        "password_file": file,
        "tls": {
            "ca_file": certificates.path("ca.pem"),
            "cert_file": certificates.path("client.pem"),
            "key_file": certificates.path("client.key"),
        },
    }))
    .await;
    let keys: Vec<String> = (0..300).map(|key| format!("key-{key}")).collect();
    assert_eq!(batch(&Client::new(), sidecar.port(), "bucket", &keys).await, (300, 0));
    assert_eq!(batch(&Client::new(), sidecar.port(), "bucket", &keys).await, (0, 300));
    end(&cluster, &sidecar, &["cluster-secret"]).await;
}
