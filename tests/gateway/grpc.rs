//! gRPC clients, frame by frame.

use axum::body::Bytes;
use axum::http::{HeaderMap, Request, Response};
use h2::RecvStream;
use serde_json::json;
use tokio::net::TcpStream;

use super::{BLOCKED, policies, rules};
use crate::support::{Envoy, Stack, plugin_config};

/// A call with an empty message.
async fn call(envoy: &Envoy, headers: &[(&str, &str)]) -> Response<RecvStream> {
    let stream = TcpStream::connect(("127.0.0.1", envoy.port())).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::post("http://envoy/service/Method").header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (answer, mut body) = client.send_request(request.body(()).unwrap(), false).unwrap();
    let _ = body.send_data(Bytes::from_static(b"\0\0\0\0\0"), true); // the answer may have come before
    answer.await.unwrap()
}

fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

/// Trailers only: a single HEADERS frame that ends the stream.
async fn assert_trailers_only(answer: &mut Response<RecvStream>, status: &str) {
    assert_eq!(answer.status(), 200, "{answer:?}");
    assert_eq!(value(answer.headers(), "content-type"), Some("application/grpc"));
    assert_eq!(value(answer.headers(), "grpc-status"), Some(status), "{answer:?}");
    assert!(answer.body().is_end_stream(), "there is more than headers: {answer:?}");
    assert!(answer.body_mut().data().await.is_none());
    assert_eq!(answer.body_mut().trailers().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn denials_are_trailers_with_status_8() {
    let mut stack = Stack::start_with(1, 1, &policies(), |options| {
        options.plugin = plugin_config(&rules());
        // For HTTP; gRPC clients have no use for it.
        options.plugin["denied"] = json!({"status": 503, "body": "custom", "headers": {"x-custom": "1"}});
    })
    .await;
    for kind in ["application/grpc", "application/grpc+proto"] {
        let mut answer = call(stack.envoy(), &[("content-type", kind), BLOCKED]).await;
        assert_trailers_only(&mut answer, "8").await;
        let message = value(answer.headers(), "grpc-message").unwrap();
        assert!(message.contains("two"), "{message}");
        assert_eq!(value(answer.headers(), "x-envoy-ratelimited"), Some("true"));
        assert!(value(answer.headers(), "ratelimit").is_some(), "{answer:?}");
        assert_eq!(value(answer.headers(), "x-custom"), None);
    }
    // Close to it, and plain HTTP.
    for kind in ["application/grpc-web", "application/grpcx", "application/json", "text/plain; application/grpc"] {
        let answer = call(stack.envoy(), &[("content-type", kind), BLOCKED]).await;
        assert_eq!(answer.status(), 503, "{kind}: {answer:?}");
        assert_eq!(value(answer.headers(), "grpc-status"), None, "{kind}");
        assert_eq!(value(answer.headers(), "x-custom"), Some("1"), "{kind}");
    }
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn undecided_calls_are_trailers_with_status_14() {
    let mut stack = Stack::start(&policies(), &rules()).await;
    stack.sidecars[0].kill();
    let headers = [("content-type", "application/grpc"), ("x-tenant-id", "acme")];
    let mut answer = call(stack.envoy(), &headers).await;
    assert_trailers_only(&mut answer, "14").await;
    stack.assert_invariants(&[]).await;
}
