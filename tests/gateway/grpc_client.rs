//! A real gRPC client and a real gRPC server, of the standard health service, with Envoy between them.

use std::net::SocketAddr;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_health::ServingStatus;
use tonic_health::pb::health_check_response::ServingStatus as Seen;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_health::server::{HealthReporter, health_reporter};

use super::{policies, rules};
use crate::support::{Envoy, Stack, plugin_config};

/// A server with a service whose health can be set.
struct Health {
    address: SocketAddr,
    reporter: HealthReporter,
    server: JoinHandle<()>,
}

impl Health {
    async fn start() -> Self {
        let (reporter, service) = health_reporter();
        reporter.set_service_status("shop", ServingStatus::Serving).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::builder().add_service(service).serve_with_incoming(TcpIncoming::from(listener));
        Self { address, reporter, server: tokio::spawn(async move { server.await.unwrap() }) }
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn start(health: &Health, on_error: &str) -> Stack {
    Stack::start_with(1, 1, &policies(), |options| {
        options.plugin = plugin_config(&rules());
        options.plugin["on_error"] = on_error.into();
        // For HTTP; a client of gRPC would make `UNAVAILABLE` of that status.
        options.plugin["denied"] = json!({"status": 503, "body": "custom"});
        options.upstream = Some(health.address.port());
        options.upstream_http2 = true;
    })
    .await
}

/// A client with a connection that it keeps, which calls as a tenant.
struct Caller {
    client: HealthClient<Channel>,
    tenant: &'static str,
}

impl Caller {
    async fn connect(envoy: &Envoy, tenant: &'static str) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{}", envoy.port())).unwrap();
        Self { client: HealthClient::new(endpoint.connect().await.unwrap()), tenant }
    }

    fn request(&self) -> Request<HealthCheckRequest> {
        let mut request = Request::new(HealthCheckRequest { service: "shop".to_owned() });
        request.metadata_mut().insert("x-tenant-id", self.tenant.parse().unwrap());
        request
    }

    async fn check(&mut self) -> Result<Response<HealthCheckResponse>, Status> {
        self.client.check(self.request()).await
    }

    async fn watch(&mut self) -> Result<Response<Streaming<HealthCheckResponse>>, Status> {
        self.client.watch(self.request()).await
    }
}

fn left<T>(response: &Response<T>) -> &str {
    response.metadata().get("ratelimit").unwrap().to_str().unwrap().split(";t=").next().unwrap()
}

fn assert_denied(status: &Status) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.message().contains("The limit of policy \"two\" is reached; retry in "), "{status:?}");
    assert_eq!(status.metadata().get("x-envoy-ratelimited").unwrap(), "true");
    let retry_after = status.metadata().get("retry-after").unwrap().to_str().unwrap();
    assert!(retry_after.parse::<u64>().unwrap() > 3500, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unary_calls() {
    let health = Health::start().await;
    let mut stack = start(&health, "deny").await;
    let mut acme = Caller::connect(stack.envoy(), "acme").await;
    for remaining in ["\"two\";r=1", "\"two\";r=0"] {
        let response = acme.check().await.unwrap();
        assert_eq!(left(&response), remaining);
        assert_eq!(response.into_inner().status(), Seen::Serving);
    }
    // Decided by the sidecar, then from memory, on the same connection.
    for _ in 0..2 {
        assert_denied(&acme.check().await.unwrap_err());
    }
    let mut other = Caller { client: acme.client.clone(), tenant: "other" };
    assert_eq!(other.check().await.unwrap().into_inner().status(), Seen::Serving);
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_streams() {
    let health = Health::start().await;
    let mut stack = start(&health, "deny").await;
    let mut acme = Caller::connect(stack.envoy(), "acme").await;
    let response = acme.watch().await.unwrap();
    assert_eq!(left(&response), "\"two\";r=1");
    let mut stream = response.into_inner();
    assert_eq!(stream.message().await.unwrap().unwrap().status(), Seen::Serving);

    // The whole limit is used, and the open stream goes on: it has been paid for.
    assert_eq!(left(&acme.check().await.unwrap()), "\"two\";r=0");
    for _ in 0..2 {
        assert_denied(&acme.watch().await.unwrap_err());
    }
    for (status, seen) in [(ServingStatus::NotServing, Seen::NotServing), (ServingStatus::Serving, Seen::Serving)] {
        health.reporter.set_service_status("shop", status).await;
        assert_eq!(stream.message().await.unwrap().unwrap().status(), seen);
    }
    drop(stream);
    stack.assert_invariants(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_decision_calls_end_as_configured() {
    for on_error in ["deny", "allow"] {
        let health = Health::start().await;
        let mut stack = start(&health, on_error).await;
        stack.sidecars[0].kill();
        let mut acme = Caller::connect(stack.envoy(), "acme").await;
        if on_error == "allow" {
            let response = acme.check().await.unwrap();
            assert!(response.metadata().get("ratelimit").is_none(), "{response:?}");
            assert_eq!(response.into_inner().status(), Seen::Serving);
            let mut stream = acme.watch().await.unwrap().into_inner();
            assert_eq!(stream.message().await.unwrap().unwrap().status(), Seen::Serving);
        } else {
            for status in [acme.check().await.unwrap_err(), acme.watch().await.unwrap_err()] {
                assert_eq!(status.code(), Code::Unavailable, "{status:?}");
                assert_eq!(status.message(), "The rate limit of this request could not be checked.");
            }
        }
        stack.assert_invariants(&[]).await;
    }
}
