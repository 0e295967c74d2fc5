//! An upstream that remembers what reached it, and sends back what comes over a `WebSocket`.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt;
use hyper_util::rt::TokioIo;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// One request, as it arrived.
#[derive(Debug, Clone)]
pub struct Seen {
    pub path: String,
    pub headers: HeaderMap,
    pub length: usize,
    pub sha256: [u8; 32],
}

#[derive(Debug, Default)]
struct Record {
    connections: usize,
    requests: Vec<Seen>,
}

/// A running upstream, which answers everything with 200 once it has read it.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    record: Arc<Mutex<Record>>,
    server: JoinHandle<()>,
}

impl Upstream {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let record = Arc::new(Mutex::new(Record::default()));
        let counted = Arc::clone(&record);
        let listener = listener.tap_io(move |_| counted.lock().unwrap().connections += 1);
        let app = Router::new().fallback(handle).with_state(Arc::clone(&record));
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, record, server }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// How often anybody connected: not even that happens before a request is allowed for the first time.
    pub fn connections(&self) -> usize {
        self.record.lock().unwrap().connections
    }

    pub fn requests(&self) -> Vec<Seen> {
        self.record.lock().unwrap().requests.clone()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn handle(State(record): State<Arc<Mutex<Record>>>, mut request: Request) -> Response {
    let upgrade = request.headers().contains_key(header::UPGRADE).then(|| hyper::upgrade::on(&mut request));
    let (parts, body) = request.into_parts();
    let body = if upgrade.is_some() { Vec::new() } else { to_bytes(body, usize::MAX).await.unwrap().to_vec() };
    let seen = Seen {
        path: parts.uri.to_string(),
        headers: parts.headers,
        length: body.len(),
        sha256: Sha256::digest(&body).into(),
    };
    record.lock().unwrap().requests.push(seen);
    let Some(upgrade) = upgrade else { return StatusCode::OK.into_response() };
    tokio::spawn(async move {
        let (mut reader, mut writer) = tokio::io::split(TokioIo::new(upgrade.await.unwrap()));
        let _ = tokio::io::copy(&mut reader, &mut writer).await; // until either side ends it
    });
    let headers = [(header::UPGRADE, "websocket"), (header::CONNECTION, "upgrade")];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}
