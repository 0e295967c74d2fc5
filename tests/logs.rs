//! The sidecar's log has a line for each change, and none for a request.

use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::support::{Client, Redis, Sidecar, assert_invariants, eventually};

const REQUESTS: usize = 1000;
/// What a key holds must not be in a log, at whatever level.
const KEY: &str = "key-of-the-test";

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_goes_and_comes_costs_two_lines_whatever_is_asked() {
    for format in ["text", "json"] {
        let mut redis = Redis::start().await;
        let policies = json!({"per-tenant": {"algorithm": "token_bucket", "rate": "1000000/1h"}});
        let config = json!({"store": format!("redis://127.0.0.1:{}", redis.port()), "store_timeout": "1s", "policies": policies});
        let mut sidecar = Sidecar::launch_in(&[("SLUICE_LOG_FORMAT", format.to_owned())], &config);
        sidecar.until_ready().await;
        assert!(sidecar.take("per-tenant", KEY).await.is_allowed());
        let before = sidecar.process.log();

        redis.kill();
        eventually("it is down", async || (sidecar.store().await["state"] == "down").then_some(())).await;
        let (client, path) = (Client::new(), format!("/v1/check/per-tenant/{KEY}"));
        for _ in 0..REQUESTS {
            assert_eq!(client.post(sidecar.port(), &path, "").await.status, 503);
        }
        // What nobody should ask is no line either.
        for (path, body) in [("/v1/check", "nonsense"), ("/v1/check/unknown/x", ""), ("/nowhere", "")] {
            assert!(!client.post(sidecar.port(), path, body).await.is_allowed());
        }
        redis.restart().await;
        sidecar.until_ready().await;
        assert!(sidecar.take("per-tenant", KEY).await.is_allowed());

        let log = sidecar.process.log();
        let lines: Vec<_> = log.strip_prefix(&before).unwrap().lines().collect();
        assert_eq!(lines.len(), 2, "{log}");
        assert!(lines[0].contains("the store is down") && lines[1].contains("the store is up"), "{log}");
        let is_json =
            |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|line| line["fields"]["message"].is_string());
        assert!(log.lines().all(|line| is_json(line) == (format == "json")), "{log}");
        assert!(!log.contains(KEY), "{log}");
        assert_invariants(&redis, &mut [], &[log], &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn not_even_the_most_talkative_log_has_keys_or_tokens() {
    const TOKEN: &str = "0123456789abcdef-of-the-test";
    let redis = Redis::start().await;
    let directory = tempfile::TempDir::new().unwrap();
    std::fs::write(directory.path().join("tokens"), TOKEN).unwrap();
    let config = json!({
        "store": format!("redis://127.0.0.1:{}", redis.port()),
        "store_timeout": "2s",
        "auth": {"token_file": directory.path().join("tokens")},
        "policies": {"per-tenant": {"algorithm": "token_bucket", "rate": "1000000/1h"}},
    });
    let mut sidecar = Sidecar::launch_in(&[("RUST_LOG", "trace".to_owned())], &config);
    sidecar.until_ready().await;
    let body =
        json!({"requests": [{"checks": [{"policy": "per-tenant", "key": [KEY]}]}, {"checks": [{"key": [KEY]}]}]});
    // HTTP/2, because its library has much to say.
    let stream = TcpStream::connect(("127.0.0.1", sidecar.port())).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    for token in [TOKEN, "another-token-of-the-test"] {
        let request = Request::post("http://sluice/v1/check").header("authorization", format!("Bearer {token}"));
        let (answer, mut sender) = client.send_request(request.body(()).unwrap(), false).unwrap();
        sender.send_data(body.to_string().into(), true).unwrap();
        let answer = answer.await.unwrap();
        assert_eq!(answer.status() == StatusCode::OK, token == TOKEN, "{answer:?}");
    }
    connection.abort();
    let log = sidecar.process.log();
    assert!(log.contains("TRACE"), "{log}");
    assert!(!log.contains("of-the-test"), "{log}");
    assert_invariants(&redis, &mut [], &[log], &[TOKEN]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slip_in_the_level_is_refused() {
    for text in ["sluice=loud", "inf=o=x"] {
        let config = json!({"store": "memory", "policies": {}});
        let mut sidecar = Sidecar::launch_in(&[("RUST_LOG", text.to_owned())], &config);
        assert!(!sidecar.process.ended().await.success());
        let log = sidecar.process.log();
        assert!(log.starts_with("sluice: RUST_LOG: ") && log.lines().count() == 1, "{log}");
    }
}
