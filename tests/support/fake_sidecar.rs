//! A sidecar that does what no sidecar should.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluice_filter::wire::{CheckAnswer, CheckBody, Decision, Entry, Verdict};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What it does with a callout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// Allows every request.
    Allow,
    /// Waits until it is told something else, and then does that.
    Nothing,
    /// 200 with a body that is no JSON.
    Garbage,
    /// 200 with JSON of another kind.
    OtherJson,
    /// 200 without a body.
    Empty,
    /// 200 with one decision fewer than there were requests.
    OneTooFew,
    /// 200 with a decision that lacks a verdict.
    VerdictMissing,
    /// 500.
    Error,
    /// Something that is not HTTP.
    NotHttp,
    /// Closes the connection.
    Close,
    /// Announces a body and closes in the middle of it.
    HalfBody,
}

impl Reply {
    /// Everything that is no answer.
    pub const NONSENSE: [Self; 10] = [
        Self::Nothing,
        Self::Garbage,
        Self::OtherJson,
        Self::Empty,
        Self::OneTooFew,
        Self::VerdictMissing,
        Self::Error,
        Self::NotHttp,
        Self::Close,
        Self::HalfBody,
    ];
}

/// The heads and bodies of callouts.
type Seen = Arc<Mutex<Vec<(String, CheckBody)>>>;

/// A running fake.
#[derive(Debug)]
pub struct FakeSidecar {
    port: u16,
    reply: watch::Sender<Reply>,
    seen: Seen,
    server: JoinHandle<()>,
}

impl FakeSidecar {
    pub async fn start(reply: Reply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (reply, replies) = watch::channel(reply);
        let seen = Seen::default();
        let written = Arc::clone(&seen);
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, replies.clone(), Arc::clone(&written)));
            }
        });
        Self { port, reply, seen, server }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Does this from now on, and with the callouts that wait.
    pub fn set(&self, reply: Reply) {
        self.reply.send_replace(reply);
    }

    /// All callouts so far.
    pub fn batches(&self) -> Vec<CheckBody> {
        self.seen.lock().unwrap().iter().map(|(_, body)| body.clone()).collect()
    }

    /// The request line and the header fields of all callouts so far, in lower case.
    pub fn heads(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|(head, _)| head.clone()).collect()
    }
}

impl Drop for FakeSidecar {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(mut stream: TcpStream, mut replies: watch::Receiver<Reply>, seen: Seen) -> Option<()> {
    let mut buffer = Vec::new();
    loop {
        let (head, body) = read(&mut stream, &mut buffer).await?;
        let body: CheckBody = serde_json::from_slice(&body).unwrap();
        seen.lock().unwrap().push((head, body.clone()));
        let reply = *replies.wait_for(|reply| *reply != Reply::Nothing).await.ok()?;
        let mut entries: Vec<Entry> = body.requests.iter().map(|request| allowed(request.checks.len())).collect();
        let (status, answer) = match reply {
            Reply::Allow => (200, decisions(entries)),
            Reply::Garbage => (200, b"\xff\x00<html>{{{".to_vec()),
            Reply::OtherJson => (200, br#"{"message":"hello"}"#.to_vec()),
            Reply::Empty => (200, Vec::new()),
            Reply::OneTooFew => {
                entries.pop();
                (200, decisions(entries))
            }
            Reply::VerdictMissing => (200, decisions(entries.iter().map(|_| allowed(0)).collect())),
            Reply::Error => (500, b"oh".to_vec()),
            Reply::NotHttp => {
                stream.write_all(b"\x16\x03\x01\x00\x05hello\r\n\r\n").await.ok()?;
                return None;
            }
            Reply::HalfBody => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"decisions\":[").await.ok()?;
                stream.flush().await.ok()?;
                return None;
            }
            Reply::Close | Reply::Nothing => return None,
        };
        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", answer.len());
        stream.write_all(&[head.as_bytes(), &answer].concat()).await.ok()?;
    }
}

/// The head and the body of the next request, which has a content-length; `None` at the connection's end.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let total = end + 4 + length.expect("a content-length").trim().parse::<usize>().unwrap();
            if buffer.len() >= total {
                let rest = buffer.split_off(total);
                return Some((head, std::mem::replace(buffer, rest).split_off(end + 4)));
            }
        }
        let count = stream.read_buf(buffer).await.ok()?;
        if count == 0 {
            return None;
        }
    }
}

fn allowed(checks: usize) -> Entry {
    let verdict = Verdict {
        policy: "any".to_owned(),
        allowed: true,
        limit: 100,
        period_ms: Duration::from_secs(1).as_millis().try_into().unwrap(),
        remaining: 99,
        reset_ms: 10,
        retry_after_ms: Some(0),
        charge: None,
        lease: None,
        unlimited: false,
        shadow: false,
    };
    Entry::Decided(Decision { allowed: true, degraded: false, checks: vec![verdict; checks] })
}

fn decisions(decisions: Vec<Entry>) -> Vec<u8> {
    serde_json::to_vec(&CheckAnswer { decisions }).unwrap()
}
