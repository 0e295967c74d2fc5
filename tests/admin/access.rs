//! Who may use the admin API: a token, or this machine and none of its browsers' foreign pages.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::json;
use tempfile::TempDir;

use super::{ask, sluice};
use crate::support::{Answer, Client, Port, Redis, Sidecar, assert_invariants, eventually};

const TOKEN: &str = "admin-token-0123456789";
const WRONG: &str = "wrong-token-0123456789";

/// All that wants leave.
const GUARDED: [(&str, &str); 8] = [
    ("GET", "/v1/status"),
    ("GET", "/v1/events"),
    ("GET", "/v1/policies"),
    ("GET", "/v1/top"),
    ("GET", "/v1/keys/p/x"),
    ("GET", "/v1/peek/p/x"),
    ("DELETE", "/v1/keys/p/x"),
    ("POST", "/v1/reload"),
];

fn policies() -> serde_json::Value {
    json!({"p": {"algorithm": "fixed_window", "rate": "1/1h"}})
}

/// The answer's status and, but for a stream that doesn't end, its body.
async fn send(port: u16, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::builder().method(method).uri(format!("http://127.0.0.1:{port}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Client::without_pool().send(request.body(Body::empty()).unwrap()).await.unwrap()
}

/// A good answer to `/v1/events` never ends.
fn ending() -> impl Iterator<Item = (&'static str, &'static str)> {
    GUARDED.into_iter().filter(|(_, path)| *path != "/v1/events")
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tokens_only_whoever_shows_one_may() {
    let (redis, directory) = (Redis::start().await, TempDir::new().unwrap());
    let file = directory.path().join("tokens");
    std::fs::write(&file, format!("# for us\n{TOKEN}\n")).unwrap();
    let admin = json!({"admin": {"token_file": file}, "store_timeout": "2s"});
    let mut sidecar = Sidecar::launch_for(redis.port(), &policies(), &admin);
    sidecar.until_ready().await;
    let port = sidecar.admin_port();
    for (method, path) in GUARDED {
        for token in [None, Some(WRONG), Some("")] {
            let value = token.map(|token| format!("Bearer {token}"));
            let headers: Vec<_> = value.iter().map(|value| ("authorization", value.as_str())).collect();
            let answer = send(port, method, path, &headers).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{method} {path} {token:?}: {answer:?}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            assert!(answer.json()["detail"].as_str().unwrap().contains("admin.token_file"), "{answer:?}");
        }
    }
    // Where a token is shown, it doesn't matter by which name the listener is reached.
    let token = format!("Bearer {TOKEN}");
    for (method, path) in ending() {
        let headers =
            [("authorization", token.as_str()), ("host", "sluice.example"), ("origin", "https://proxy.example")];
        let answer = send(port, method, path, &headers).await;
        assert_eq!(answer.status, StatusCode::OK, "{method} {path}: {answer:?}");
    }
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(send(port, "GET", path, &[]).await.status, StatusCode::OK, "{path}");
    }
    // The token is of the admin listener, and not of the other one, which has none.
    assert!(sidecar.take("p", "y").await.is_allowed());

    let said = ask(&sidecar, &["policies"]);
    assert!(said.error(1).contains("answers 401") && said.stderr.contains("--token-file"), "{said:?}");
    let file = file.to_str().unwrap();
    assert_eq!(ask(&sidecar, &["policies", "--token-file", file, "--json"]).json()["generation"], 1);
    let log = sidecar.process.log();
    assert_invariants(&redis, &mut [], &[log, format!("{said:?}")], &[TOKEN, WRONG]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tokens_it_is_for_this_machine_only() {
    let redis = Redis::start().await;
    for (listen, may) in [("127.0.0.1", true), ("0.0.0.0", false)] {
        let admin = Port::free();
        let more = json!({"admin": {"listen": format!("{listen}:{}", admin.number())}, "store_timeout": "2s"});
        let mut sidecar = Sidecar::launch_for(redis.port(), &policies(), &more);
        let client = Client::new();
        sidecar.process.until_ready(async || client.is_ready(admin.number(), "/livez").await).await;
        for (method, path) in ending() {
            let answer = send(admin.number(), method, path, &[]).await;
            let expected = if may { StatusCode::OK } else { StatusCode::FORBIDDEN };
            assert_eq!(answer.status, expected, "{listen} {method} {path}: {answer:?}");
            if !may {
                assert!(answer.json()["detail"].as_str().unwrap().contains("Set admin.token_file"), "{answer:?}");
            }
            if may {
                assert_eq!(answer.header("cache-control"), Some("no-store"));
            }
        }
        for path in ["/livez", "/readyz", "/metrics"] {
            assert_eq!(send(admin.number(), "GET", path, &[]).await.status, StatusCode::OK, "{listen} {path}");
        }
        if !may {
            let said = sluice(&format!("http://127.0.0.1:{}", admin.number()), &["top"]);
            assert!(said.error(1).contains("answers 403") && said.stderr.contains("Set admin.token_file"), "{said:?}");
        }
        assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
    }
}

/// A browser of this machine has whatever page asks from here: a name that leads to 127.0.0.1 makes the listener that
/// page's own, and forms can be sent to anybody.
#[tokio::test(flavor = "multi_thread")]
async fn pages_from_elsewhere_may_not() {
    let redis = Redis::start().await;
    let sidecar = Sidecar::start(redis.port(), &policies()).await;
    let port = sidecar.admin_port();
    let own = format!("http://127.0.0.1:{port}");
    let local = format!("localhost:{port}");
    let table: [(&[(&str, &str)], bool); 10] = [
        (&[], true),
        (&[("host", &local)], true),
        (&[("origin", &own)], true),
        (&[("sec-fetch-site", "same-origin")], true),
        (&[("host", "evil.example")], false),
        (&[("host", "127.0.0.1.evil.example")], false),
        (&[("host", "evil.example"), ("origin", "http://evil.example")], false),
        (&[("origin", "http://evil.example")], false),
        (&[("origin", "null")], false),
        (&[("sec-fetch-site", "cross-site")], false),
    ];
    for (headers, may) in table {
        for (method, path) in ending() {
            let answer = send(port, method, path, headers).await;
            let expected = if may { StatusCode::OK } else { StatusCode::FORBIDDEN };
            assert_eq!(answer.status, expected, "{method} {path} {headers:?}: {answer:?}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
    // Nothing of what was refused has been done.
    assert!(sidecar.take("p", "x").await.is_allowed());
    send(port, "DELETE", "/v1/keys/p/x", &[("origin", "http://evil.example")]).await;
    assert_eq!(sidecar.take("p", "x").await.status, 429);
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

/// What is for those who run Sluice is not on the listener that filters reach.
#[tokio::test(flavor = "multi_thread")]
async fn the_check_listener_has_nothing_of_it() {
    let redis = Redis::start().await;
    let sidecar = Sidecar::start(redis.port(), &policies()).await;
    for (method, path) in GUARDED.into_iter().chain([("GET", "/"), ("GET", "/metrics"), ("GET", "/page/page.css")]) {
        let answer = send(sidecar.port(), method, path, &[]).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method} {path}: {answer:?}");
    }
    let answer = send(sidecar.admin_port(), "POST", "/v1/check/p/x", &[]).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND, "{answer:?}");
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_rotated_here_as_well_and_a_bad_file_is_told_at_the_start() {
    let (redis, directory) = (Redis::start().await, TempDir::new().unwrap());
    let file = directory.path().join("tokens");
    std::fs::write(&file, TOKEN).unwrap();
    let admin = json!({"admin": {"token_file": file}, "store_timeout": "2s"});
    let mut sidecar = Sidecar::launch_for(redis.port(), &policies(), &admin);
    sidecar.until_ready().await;
    let takes = async |token: &str| {
        let value = format!("Bearer {token}");
        send(sidecar.admin_port(), "GET", "/v1/policies", &[("authorization", &value)]).await.is_allowed()
    };
    assert!(takes(TOKEN).await && !takes(WRONG).await);
    std::fs::write(&file, WRONG).unwrap();
    eventually("the new token is taken", async || takes(WRONG).await.then_some(())).await;
    assert!(!takes(TOKEN).await);
    let log =
        Sidecar::refuses(&json!({"store": "memory", "admin": {"token_file": "/nowhere"}, "policies": policies()}))
            .await;
    assert!(log.contains("admin.token_file: /nowhere: cannot be read"), "{log}");
    assert_invariants(&redis, &mut [], &[sidecar.process.log()], &[TOKEN, WRONG]).await;
}
