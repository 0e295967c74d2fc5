//! Bearer tokens.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::json;
use tempfile::TempDir;

use super::{assert_decides, assert_fails_closed, policies, rules};
use crate::support::{
    Answer, Client, Envoy, EnvoyOptions, Redis, Sidecar, assert_invariants, eventually, plugin_config,
};

const OLD: &str = "old-token-0123456789";
const NEW: &str = "new-token-0123456789";
const WRONG: &str = "wrong-token-0123456789";
const VARIABLE: &str = "SLUICE_TEST_TOKEN";

/// A sidecar that wants one of the tokens in a file.
struct Scene {
    redis: Redis,
    sidecar: Sidecar,
    directory: TempDir,
}

impl Scene {
    async fn start(tokens: &str) -> Self {
        let (redis, directory) = (Redis::start().await, TempDir::new().unwrap());
        let file = directory.path().join("tokens");
        std::fs::write(&file, tokens).unwrap();
        let auth = json!({"auth": {"token_file": file}, "store_timeout": "2s"});
        let mut sidecar = Sidecar::launch_for(redis.port(), &policies(), &auth);
        sidecar.until_ready().await;
        Self { redis, sidecar, directory }
    }

    /// At once, as whoever mounts secrets does it.
    fn write(&self, tokens: &str) {
        let new = self.directory.path().join("tokens.new");
        std::fs::write(&new, tokens).unwrap();
        std::fs::rename(new, self.directory.path().join("tokens")).unwrap();
    }

    async fn ask(&self, method: &str, path: &str, authorization: &[&str]) -> Answer {
        let mut request = Request::builder().method(method);
        request = request.uri(format!("http://127.0.0.1:{}{path}", self.sidecar.port()));
        for value in authorization {
            request = request.header("authorization", *value);
        }
        Client::new().send(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    async fn takes(&self, token: &str) -> bool {
        let answer = self.ask("GET", "/v1/check/two/x", &[&format!("Bearer {token}")]).await;
        assert!(answer.is_allowed() || answer.status == StatusCode::UNAUTHORIZED, "{answer:?}");
        answer.is_allowed()
    }

    async fn envoy(&self, token: Option<&str>) -> Envoy {
        Envoy::start(&options(self.sidecar.port(), token)).await
    }

    async fn assert_invariants(&self, envoys: &mut [Envoy]) {
        let log = self.sidecar.process.log();
        assert_invariants(&self.redis, envoys, &[log], &[OLD, NEW, WRONG]).await;
    }
}

fn options(sidecar: u16, token: Option<&str>) -> EnvoyOptions {
    let mut options =
        EnvoyOptions { plugin: plugin_config(&rules()), sidecars: vec![sidecar], ..EnvoyOptions::default() };
    if let Some(token) = token {
        options.plugin["sidecar"]["token_env"] = VARIABLE.into();
        options.environment = vec![(VARIABLE.to_owned(), token.to_owned())];
    }
    options
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_shows_its_token_and_nobody_else_sees_it() {
    let scene = Scene::start(&format!("# rotated in June\n{OLD}\n{NEW}\n")).await;
    // What mounts secrets often leaves a line break at their end.
    let mut envoys = [scene.envoy(Some(OLD)).await, scene.envoy(Some(&format!("{NEW}\n"))).await];
    for (envoy, tenant) in envoys.iter().zip(["a", "b"]) {
        assert_decides(envoy, tenant).await;
        assert_eq!(envoy.metric("callouts_failed").await, 0);
        for path in ["/config_dump?include_eds", "/server_info", "/clusters", "/stats", "/listeners", "/init_dump"] {
            let shown = envoy.admin(path).await;
            assert!(!shown.contains(OLD) && !shown.contains(NEW), "{path} shows a token:\n{shown}");
        }
        assert!(envoy.admin("/config_dump").await.contains(VARIABLE), "the wrong thing was looked at");
    }
    let metrics = Client::new().get(scene.sidecar.admin_port(), "/metrics", &[]).await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    assert!(!metrics.contains(OLD) && !metrics.contains(NEW), "{metrics}");
    scene.assert_invariants(&mut envoys).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_with_a_wrong_token_or_none_gets_no_decision() {
    let scene = Scene::start(OLD).await;
    let mut envoys = [scene.envoy(Some(WRONG)).await, scene.envoy(None).await];
    for envoy in &envoys {
        assert_fails_closed(envoy).await;
        let log = envoy.process.log();
        assert!(log.contains("status 401") && log.contains("sidecar.token_env"), "{log}");
    }
    let refused = scene.sidecar.metrics().await.get(r#"sluice_http_responses_total{status="401"}"#);
    assert!((refused - 2.0).abs() < 1e-9, "{refused}");
    assert_eq!(scene.redis.keys(), Vec::<String>::new(), "something was charged");
    scene.assert_invariants(&mut envoys).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_that_is_named_must_be_there() {
    let redis = Redis::start().await;
    for (value, message) in [
        (None, "is missing or empty"),
        (Some(""), "is missing or empty"),
        (Some("not a token at all"), "a token has 16"),
    ] {
        let mut options = options(1, Some(""));
        options.environment = value.map(|value| (VARIABLE.to_owned(), value.to_owned())).into_iter().collect();
        let log = Envoy::refuses_with(&options).await;
        let expected = format!("sidecar.token_env: the variable {VARIABLE}");
        assert!(log.contains(&expected) && log.contains(message), "{value:?}: {log}");
        assert!(!log.contains("not a token at all"), "{log}");
    }
    assert_invariants(&redis, &mut [], &[], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_is_asked_wants_a_token_and_probes_do_not() {
    let scene = Scene::start(OLD).await;
    let good = format!("Bearer {OLD}");
    let bad: [&[&str]; 6] = [&[], &["Bearer"], &["Bearer "], &["Basic b2xkOg=="], &[OLD], &[&good, &good]];
    let routes =
        [("POST", "/v1/check"), ("POST", "/v1/check/two/x"), ("GET", "/v1/check/two/x"), ("POST", "/v1/refund")];
    for (method, path) in routes {
        let wrong = format!("Bearer {WRONG}");
        let almost = format!("Bearer {OLD}x");
        for authorization in bad.into_iter().chain([&[wrong.as_str()] as &[&str], &[almost.as_str()]]) {
            let answer = scene.ask(method, path, authorization).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{method} {path} {authorization:?}: {answer:?}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            assert_eq!(answer.header("content-type"), Some("application/problem+json"));
            assert_eq!(answer.json()["status"], 401);
        }
        for authorization in [good.as_str(), &good.replace("Bearer", "bEARER")] {
            let answer = scene.ask(method, path, &[authorization]).await;
            assert_ne!(answer.status, StatusCode::UNAUTHORIZED, "{method} {path}: {answer:?}");
        }
    }
    for path in ["/livez", "/readyz"] {
        assert!(scene.ask("GET", path, &[]).await.is_allowed());
    }
    scene.assert_invariants(&mut []).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_rotated_without_a_restart() {
    let scene = Scene::start(OLD).await;
    assert!(scene.takes(OLD).await && !scene.takes(NEW).await);
    scene.write(&format!("{OLD}\n{NEW}\n"));
    eventually("both are taken", async || scene.takes(NEW).await.then_some(())).await;
    assert!(scene.takes(OLD).await);
    scene.write(NEW);
    eventually("the old one is not any more", async || (!scene.takes(OLD).await).then_some(())).await;
    assert!(scene.takes(NEW).await);
    // A file that is no good takes nobody's token away.
    scene.write("\n");
    eventually("it is said that there is none", async || {
        scene.sidecar.process.log().contains("there is no token in it").then_some(())
    })
    .await;
    assert!(scene.takes(NEW).await && !scene.takes("").await && !scene.takes(OLD).await);
    scene.assert_invariants(&mut []).await;
}
