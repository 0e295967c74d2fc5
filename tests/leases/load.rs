//! Clients that ask as fast as they are answered.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use tokio::task::JoinSet;

use crate::support::{Client, eventually};

/// What the clients of one test have seen so far.
#[derive(Debug, Default)]
pub struct Seen {
    pub admitted: AtomicU64,
    pub denied: AtomicU64,
    /// 503, or no answer at all.
    pub failed: AtomicU64,
    stop: AtomicBool,
    /// When each admitted request was sent and answered.
    times: Mutex<Vec<(Instant, Instant)>>,
}

/// Running clients.
#[derive(Debug)]
pub struct Load {
    seen: Arc<Seen>,
    clients: JoinSet<()>,
}

impl Load {
    /// `connections` to each of these ports.
    pub fn start(ports: &[u16], connections: usize, path: &'static str) -> Self {
        let (seen, mut clients) = (Arc::new(Seen::default()), JoinSet::new());
        for &port in ports {
            for _ in 0..connections {
                clients.spawn(ask(Client::new(), port, path, Arc::clone(&seen)));
            }
        }
        Self { seen, clients }
    }

    pub fn admitted(&self) -> u64 {
        self.seen.admitted.load(Ordering::Relaxed)
    }

    pub fn failed(&self) -> u64 {
        self.seen.failed.load(Ordering::Relaxed)
    }

    /// Waits until so many are admitted.
    pub async fn until_admitted(&self, count: u64) {
        eventually("enough is admitted", async || (self.admitted() >= count).then_some(())).await;
    }

    /// Waits until nothing has been admitted for so long.
    pub async fn until_exhausted(&self, quiet: Duration) {
        loop {
            let before = self.admitted();
            tokio::time::sleep(quiet).await;
            if self.admitted() == before && self.seen.denied.load(Ordering::Relaxed) > 0 {
                return;
            }
        }
    }

    /// Waits for the last answers, and returns when each admitted request was sent and answered.
    pub async fn stop(mut self) -> Vec<(Instant, Instant)> {
        self.seen.stop.store(true, Ordering::Relaxed);
        while let Some(client) = self.clients.join_next().await {
            client.unwrap();
        }
        std::mem::take(&mut self.seen.times.lock().unwrap())
    }
}

async fn ask(client: Client, port: u16, path: &str, seen: Arc<Seen>) {
    while !seen.stop.load(Ordering::Relaxed) {
        let request = Request::get(format!("http://127.0.0.1:{port}{path}")).body(Body::empty()).unwrap();
        let sent = Instant::now();
        let status = client.send(request).await.map_or(503, |answer| answer.status.as_u16());
        let count = match status {
            200 => {
                seen.times.lock().unwrap().push((sent, Instant::now()));
                &seen.admitted
            }
            429 => &seen.denied,
            503 => &seen.failed,
            other => panic!("{other}"),
        };
        count.fetch_add(1, Ordering::Relaxed);
        if status != 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
