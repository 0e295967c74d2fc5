//! Every example of docs/filter.md does in a real Envoy what is said there.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::config_files::code_blocks;
use crate::support::{
    Answer, Client, Collector, Envoy, EnvoyOptions, Redis, Sidecar, Stack, Told, Upstream, repository,
};

const LIMIT: u64 = 1_000_000;
const API_KEY: &str = "an-api-key-that-nobody-sees";

/// What runs while an example is tried out.
struct Scene {
    stack: Stack,
    upstream: Upstream,
    collector: Collector,
    client: Client,
}

impl Scene {
    /// On a connection of its own, which is not the one before's in any way.
    async fn request(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.client.request(method, self.stack.envoy().port(), path, headers).await
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.request("GET", path, headers).await
    }

    /// The policy of which a request tells.
    async fn told(&self, path: &str, headers: &[(&str, &str)]) -> Option<String> {
        let answer = self.get(path, headers).await;
        assert!(answer.is_allowed(), "{path}: {answer:?}");
        answer.headers.contains_key("ratelimit").then(|| answer.rate_limit().0.to_owned())
    }

    async fn taken(&self, policy: &str, key: &str) -> u64 {
        LIMIT - self.stack.sidecar().remaining(policy, key).await
    }

    /// Leaves nothing of a limit.
    async fn exhaust(&self, policy: &str, key: &str) {
        let path = format!("/v1/check/{policy}/{key}?cost={LIMIT}");
        assert!(self.client.post(self.stack.sidecar().port(), &path, "").await.is_allowed());
    }
}

/// The examples by the heading they stand under, and the policies they name.
fn examples() -> (BTreeMap<String, Value>, Value) {
    let text = std::fs::read_to_string(repository().join("docs/filter.md")).unwrap();
    let headings: Vec<_> = (1..).zip(text.lines()).filter(|(_, line)| line.starts_with("##")).collect();
    let mut examples = BTreeMap::new();
    let mut policies = json!({});
    for (at, block) in code_blocks(&text) {
        let heading = headings.iter().rev().find(|(line, _)| *line < at).unwrap().1.trim_start_matches(['#', ' ']);
        let mut example: Value = serde_saphyr::from_str(&block).unwrap();
        for check in example["rules"].as_array().unwrap().iter().filter_map(|rule| rule["checks"].as_array()).flatten()
        {
            policies[check["policy"].as_str().unwrap()] =
                json!({"algorithm": "fixed_window", "rate": format!("{LIMIT}/1h")});
        }
        if heading == "Leases" {
            policies["per-caller"]["lease"] = json!({"ttl": "1m"});
        }
        // A busy machine is not what this is about.
        example["sidecar"]["timeout"] = "2s".into();
        assert!(examples.insert(heading.to_owned(), example).is_none(), "two examples under {heading}");
    }
    (examples, policies)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_does_what_is_said_of_it() {
    let (examples, policies) = examples();
    let redis = Redis::start().await;
    let collector = Collector::start().await;
    let store = format!("redis://127.0.0.1:{}", redis.port());
    let config = json!({"store": store, "store_timeout": "2s", "policies": policies});
    let environment = [collector.endpoint(), ("OTEL_BSP_SCHEDULE_DELAY", "50".to_owned())];
    let mut sidecar = Sidecar::launch_in(&environment, &config);
    sidecar.until_ready().await;
    let ports = vec![sidecar.port()];
    let stack = Stack { redis, sidecars: vec![sidecar], envoys: Vec::new() };
    let mut scene = Scene { stack, upstream: Upstream::start().await, collector, client: Client::new() };
    for (heading, plugin) in examples {
        let _: () = scene.stack.redis.command(&["FLUSHALL"]);
        scene.upstream = Upstream::start().await;
        let (sidecars, upstream) = (ports.clone(), Some(scene.upstream.port()));
        let options = EnvoyOptions { plugin, sidecars, upstream, ..EnvoyOptions::default() };
        scene.stack.envoys = vec![Envoy::start(&options).await];
        match heading.as_str() {
            "Keys" => keys(&scene).await,
            "Client address" => client_address(&scene).await,
            "Matching" => matching(&scene).await,
            "Paths" => paths(&scene).await,
            "Cost" => cost(&scene).await,
            "Answers" => answers(&scene).await,
            "Preflights" => preflights(&scene).await,
            "Headers" => headers(&scene).await,
            "Denial cache" => denial_cache(&scene).await,
            "Leases" => leases(&scene).await,
            "Traces" => traces(&scene).await,
            other => panic!("say here what the example of \"{other}\" does"),
        }
        let failed = scene.stack.metric("failed_open").await + scene.stack.metric("failed_closed").await;
        assert_eq!(failed, 0, "{heading}");
        scene.stack.assert_invariants(&[API_KEY]).await;
    }
}

async fn keys(scene: &Scene) {
    assert_eq!(scene.get("/users/42", &[]).await.status, 401, "`on_missing_status`");
    let answer = scene.get("/users/42/orders", &[("x-api-key", API_KEY)]).await;
    assert!(answer.is_allowed(), "{answer:?}");
    assert_eq!(scene.taken("per-user-and-method", "anonymous/GET").await, 1);
    assert_eq!(scene.taken("per-profile", "42").await, 1);
    let keys = scene.stack.redis.keys();
    assert!(keys.iter().any(|key| key.contains("per-api-key") && key.contains("hmac-")), "{keys:?}");
}

async fn traces(scene: &Scene) {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    let traceparent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let told = scene.told("/", &[("x-tenant-id", "acme"), ("traceparent", &traceparent)]).await;
    assert_eq!(told.as_deref(), Some("per-tenant"));
    let spans = scene.collector.spans_of(TRACE, 2).await;
    assert_eq!(spans.iter().map(Told::name).collect::<Vec<_>>(), ["EVALSHA", "POST /v1/check"]);
    // The others' questions had none.
    assert_eq!(scene.collector.spans().len(), 2);
}

async fn client_address(scene: &Scene) {
    // The peer is none of the proxies that are believed.
    scene.get("/", &[("x-forwarded-for", "203.0.113.7")]).await;
    assert_eq!(scene.taken("per-ip", "127.0.0.1").await, 1);
    assert_eq!(scene.taken("per-network", "127.0.0.0%2F24").await, 1);
}

async fn matching(scene: &Scene) {
    let host = ("host", "eu.api.example.com");
    assert_eq!(scene.told("/v2/search?deep=true", &[host]).await.as_deref(), Some("deep-search"));
    for (path, headers) in [
        ("/v2/search/more?deep=true", &[host][..]),
        ("/v2/search?deep=false", &[host]),
        ("/v2/search?deep=true", &[("host", "www.example.com")]),
        ("/v2/search?deep=true", &[host, ("x-plan", "gold")]),
    ] {
        assert_eq!(scene.told(path, headers).await, None, "{path} {headers:?}");
    }
}

async fn paths(scene: &Scene) {
    for (path, policy) in
        [("/files/", Some("listings")), ("//x/../%66iles/", Some("listings")), ("/files", None), ("/files;v=1/", None)]
    {
        assert_eq!(scene.told(path, &[]).await.as_deref(), policy, "{path}");
    }
}

async fn cost(scene: &Scene) {
    for (cost, sum) in [("7", 7), ("5000", 1007), ("seven", 1017)] {
        scene.get("/graphql", &[("x-tenant-id", "acme"), ("x-query-cost", cost)]).await;
        assert_eq!(scene.taken("per-tenant", "acme").await, sum, "{cost}");
    }
    for (path, sum) in [("/export?limit=20", 20), ("/export", 120), ("/export?limit=9999", 5120)] {
        scene.get(path, &[]).await;
        assert_eq!(scene.taken("rows", "127.0.0.1").await, sum, "{path}");
    }
}

async fn answers(scene: &Scene) {
    scene.exhaust("per-tenant", "acme").await;
    let shop = scene.get("/shop/1", &[("x-tenant-id", "acme")]).await;
    assert_eq!((shop.status.as_u16(), &shop.body[..]), (503, &b"<h1>One moment, please</h1>"[..]), "{shop:?}");
    assert_eq!(shop.header("content-type"), Some("text/html"));
    scene.exhaust("per-ip", "127.0.0.1").await;
    let other = scene.get("/", &[]).await;
    assert_eq!(other.status, 429, "{other:?}");
    let retry_after = other.retry_after().to_string();
    let error = json!({"error": {"code": "slow_down", "limit": "per-ip", "retry_after": retry_after}});
    assert_eq!(other.json(), error);
    let header = |name| other.header(name).unwrap();
    let seen = (header("content-type"), header("cache-control"), header("x-denied-by"));
    assert_eq!(seen, ("application/json", "no-store", "per-ip"));
}

async fn preflights(scene: &Scene) {
    let preflight = [("origin", "https://a.example"), ("access-control-request-method", "PUT")];
    assert_eq!(scene.request("OPTIONS", "/", &preflight).await.rate_limit(), ("per-ip", LIMIT - 1));
}

async fn headers(scene: &Scene) {
    scene.get("/", &[("x-tenant-id", "acme"), ("x-sluice-policy", "spoofed")]).await;
    let seen = &scene.upstream.requests()[0].headers;
    assert_eq!(seen["x-sluice-policy"], "per-tenant");
    assert_eq!(seen["x-sluice-remaining"], (LIMIT - 1).to_string());
}

async fn denial_cache(scene: &Scene) {
    scene.exhaust("per-ip", "127.0.0.1").await;
    for _ in 0..2 {
        assert_eq!(scene.get("/", &[]).await.status, 429);
    }
    assert_eq!(scene.stack.metric("callouts").await, 1);
    scene.stack.counted("denied_locally", 1).await;
}

async fn leases(scene: &Scene) {
    for remaining in (LIMIT - 50..LIMIT).rev() {
        assert_eq!(scene.get("/", &[("x-api-key", "a")]).await.rate_limit(), ("per-caller", remaining));
    }
    assert!(scene.stack.metric("allowed_locally").await > 0);
}
