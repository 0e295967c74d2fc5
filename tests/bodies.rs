//! Requests with bodies: the upstream sees nothing before the verdict, and every byte after it.

use std::time::Duration;

use axum::body::Body;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Client, Envoy, EnvoyOptions, FakeSidecar, Reply, Stack, Upstream, eventually, plugin_config};

/// Long enough for Envoy to send on what it should not.
const A_WHILE: Duration = Duration::from_millis(100);

struct Scene {
    sidecar: FakeSidecar,
    upstream: Upstream,
    envoy: Envoy,
}

impl Scene {
    async fn start() -> Self {
        let (sidecar, upstream) = (FakeSidecar::start(Reply::Nothing).await, Upstream::start().await);
        let rules = json!([{"checks": [{"policy": "any", "key": ["client_ip"]}]}]);
        let mut plugin = plugin_config(&rules);
        plugin["sidecar"]["timeout"] = "10s".into();
        let sidecars = vec![sidecar.port()];
        let options = EnvoyOptions { plugin, sidecars, upstream: Some(upstream.port()), ..EnvoyOptions::default() };
        let envoy = Envoy::start(&options).await;
        Self { sidecar, upstream, envoy }
    }

    /// The verdict is waited for, and the upstream has not so much as a connection.
    async fn assert_nothing_reached_the_upstream(&self) {
        eventually("the request is asked about", async || (self.sidecar.batches().len() == 1).then_some(())).await;
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(self.upstream.connections(), 0);
        assert!(self.upstream.requests().is_empty());
    }

    async fn assert_upstream_saw(&self, body: &[u8]) {
        let seen = eventually("the upstream has the request", async || self.upstream.requests().pop()).await;
        assert_eq!(self.upstream.requests().len(), 1);
        assert_eq!(seen.length, body.len());
        assert_eq!(seen.sha256, <[u8; 32]>::from(Sha256::digest(body)), "other bytes than were sent");
    }
}

fn bytes(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    StdRng::seed_from_u64(7).fill_bytes(&mut bytes);
    bytes
}

async fn post(count: usize) {
    let scene = Scene::start().await;
    let body = bytes(count);
    let (port, sent) = (scene.envoy.port(), Body::from(body.clone()));
    let answer = tokio::spawn(async move { Client::new().post(port, "/", sent).await });
    scene.assert_nothing_reached_the_upstream().await;
    scene.sidecar.set(Reply::Allow);
    let answer = answer.await.unwrap();
    assert!(answer.is_allowed(), "{answer:?}");
    assert_eq!(answer.rate_limit(), ("any", 99));
    scene.assert_upstream_saw(&body).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_byte() {
    post(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_megabyte() {
    post(1 << 20).await;
}

/// More than Envoy buffers for a connection: it must stop reading instead of refusing the request.
#[tokio::test(flavor = "multi_thread")]
async fn more_than_envoy_holds() {
    post(5 << 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_some_before_and_some_after_the_verdict() {
    let scene = Scene::start().await;
    let body = bytes(100_000);
    let (before, after) = body.split_at(33_333);
    let mut client = TcpStream::connect(("127.0.0.1", scene.envoy.port())).await.unwrap();
    let head = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    client.write_all(head).await.unwrap();
    send_chunks(&mut client, before).await;
    scene.assert_nothing_reached_the_upstream().await;
    scene.sidecar.set(Reply::Allow);
    send_chunks(&mut client, after).await;
    client.write_all(b"0\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    scene.assert_upstream_saw(&body).await;
}

async fn send_chunks(client: &mut TcpStream, bytes: &[u8]) {
    for chunk in bytes.chunks(1000) {
        client.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await.unwrap();
        client.write_all(chunk).await.unwrap();
        client.write_all(b"\r\n").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_denied_request_the_upstream_sees_nothing_at_all() {
    let upstream = Upstream::start().await;
    let blocked = json!([{"key": "all", "blocked": true}]);
    let policies = json!({"none": {"algorithm": "fixed_window", "rate": "1/1h", "overrides": blocked}});
    let rules = json!([{"checks": [{"policy": "none", "key": [{"literal": "all"}]}]}]);
    let mut stack = Stack::start_with(1, 1, &policies, |options| {
        options.plugin = plugin_config(&rules);
        options.upstream = Some(upstream.port());
    })
    .await;
    let answer = Client::new().post(stack.envoy().port(), "/", bytes(1000)).await;
    assert_eq!(answer.status, 429, "{answer:?}");
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(upstream.connections(), 0);
    stack.assert_invariants(&[]).await;
}
