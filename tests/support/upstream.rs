//! An upstream that remembers what reached it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::serve::ListenerExt;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// One request's body, as it arrived.
#[derive(Debug, Clone)]
pub struct Seen {
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

async fn handle(State(record): State<Arc<Mutex<Record>>>, request: Request) -> StatusCode {
    let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let seen = Seen { length: body.len(), sha256: Sha256::digest(&body).into() };
    record.lock().unwrap().requests.push(seen);
    StatusCode::OK
}
