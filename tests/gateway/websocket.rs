//! A `WebSocket`'s handshake is a request like any other, and what flows after it is nobody's business.

use axum::body::Bytes;
use axum::http::{Method, Request};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{policies, rules};
use crate::support::{Stack, Upstream, plugin_config};

async fn start(upstream: &Upstream) -> Stack {
    Stack::start_with(1, 1, &policies(), |options| {
        options.plugin = plugin_config(&rules());
        options.upstream = Some(upstream.port());
        options.manager = json!({
            "upgrade_configs": [{"upgrade_type": "websocket"}],
            "http2_protocol_options": {"allow_connect": true},
        });
    })
    .await
}

/// Asks for an upgrade and returns the connection and the head of the answer.
async fn upgrade(port: u16, tenant: &str) -> (TcpStream, String) {
    let mut client = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let head = format!(
        "GET /chat HTTP/1.1\r\nhost: x\r\nx-tenant-id: {tenant}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    );
    client.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(client.read_u8().await.unwrap());
    }
    (client, String::from_utf8(answer).unwrap().to_lowercase())
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_1() {
    let upstream = Upstream::start().await;
    let mut stack = start(&upstream).await;
    for left in [1, 0] {
        let (mut client, answer) = upgrade(stack.envoy().port(), "acme").await;
        assert!(answer.starts_with("http/1.1 101 "), "{answer}");
        assert!(answer.contains(&format!("ratelimit: \"two\";r={left};")), "{answer}");
        let mut echo = [0; 4];
        for bytes in [b"ping", b"pong"] {
            client.write_all(bytes).await.unwrap();
            client.read_exact(&mut echo).await.unwrap();
            assert_eq!(&echo, bytes);
        }
    }
    for _ in 0..2 {
        let (_, answer) = upgrade(stack.envoy().port(), "acme").await;
        assert!(answer.starts_with("http/1.1 429 "), "{answer}");
        assert!(answer.contains("retry-after: "), "{answer}");
    }
    assert_eq!(upstream.requests().len(), 2);
    stack.assert_invariants(&[]).await;
}

/// Extended CONNECT, RFC 8441.
#[tokio::test(flavor = "multi_thread")]
async fn over_http_2() {
    let upstream = Upstream::start().await;
    let mut stack = start(&upstream).await;
    let stream = TcpStream::connect(("127.0.0.1", stack.envoy().port())).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    // The connection's settings come with the first answer.
    let mut client = client.ready().await.unwrap();
    for status in [200, 200, 429, 429] {
        let mut request = Request::builder()
            .method(Method::CONNECT)
            .uri("http://envoy/chat")
            .header("x-tenant-id", "acme")
            .header("sec-websocket-version", "13")
            .body(())
            .unwrap();
        request.extensions_mut().insert(h2::ext::Protocol::from("websocket"));
        let (answer, mut sender) = client.send_request(request, false).unwrap();
        let mut answer = answer.await.unwrap();
        assert_eq!(answer.status(), status, "{answer:?}");
        if status == 200 {
            sender.send_data(Bytes::from_static(b"ping"), false).unwrap();
            assert_eq!(answer.body_mut().data().await.unwrap().unwrap(), "ping");
        }
    }
    assert_eq!(upstream.requests().len(), 2);
    stack.assert_invariants(&[]).await;
}
