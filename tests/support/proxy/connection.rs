//! One connection through the proxy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::{Fault, Shared, State};

/// A chunk, and when it arrived.
type Chunk = (Instant, Vec<u8>);

pub(super) async fn serve(mut client: TcpStream, shared: Arc<Shared>) {
    let mut state = shared.state.subscribe();
    let resets = state.borrow_and_update().resets;
    let target = *shared.target.lock().unwrap();
    shared.opened.fetch_add(1, Ordering::Relaxed);
    if state.borrow().fault == Fault::Reset {
        return reset(&client);
    }
    let _open = Open::new(&shared);
    // Nobody there: who connected is told at once.
    let Ok(mut server) = TcpStream::connect(target).await else { return reset(&client) };
    // What is delayed is delayed by us.
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let is_ended = {
        let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
        let is_losing = AtomicBool::new(false);
        let up = Pump { shared: &shared, state: shared.state.subscribe(), is_up: true, is_losing: &is_losing };
        let down = Pump { shared: &shared, state: shared.state.subscribe(), is_up: false, is_losing: &is_losing };
        tokio::select! {
            () = up.run(from_client, to_server) => true,
            () = down.run(from_server, to_client) => true,
            // An error is the end of the proxy.
            _ = state.wait_for(|state| state.resets != resets) => false,
        }
    };
    if is_ended {
        // What was written arrives; an error says that the other side was quicker.
        let _ = client.shutdown().await;
        let _ = server.shutdown().await;
    } else {
        reset(&client);
        reset(&server);
    }
}

fn reset(stream: &TcpStream) {
    stream.set_zero_linger().unwrap();
}

struct Open<'a>(&'a Shared);

impl<'a> Open<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.open.fetch_add(1, Ordering::Relaxed);
        Self(shared)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One direction of a connection.
struct Pump<'a> {
    shared: &'a Shared,
    state: watch::Receiver<State>,
    is_up: bool,
    /// A request was sent on whose reply is to be lost; set on the way up, read on the way down.
    is_losing: &'a AtomicBool,
}

impl Pump<'_> {
    /// Until the source ends and all it sent has been dealt with, or the fault ends it.
    async fn run(self, mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
        // Reading goes on while writing waits.
        let (chunks, queue) = mpsc::unbounded_channel();
        let state = self.state.clone();
        tokio::join!(read(&mut from, state, chunks), self.write(&mut to, queue));
    }

    async fn write(mut self, to: &mut (impl AsyncWrite + Unpin), mut queue: mpsc::UnboundedReceiver<Chunk>) {
        let mut seen = Vec::new();
        // The change under which replies were counted, and how many more bytes of them may pass.
        let (mut counted, mut left) = (0, 0);
        let mut is_lost = false;
        while let Some((arrived, mut chunk)) = queue.recv().await {
            let state = self.until_due(arrived).await;
            if state.changes != counted {
                counted = state.changes;
                if let Fault::CutReply(bytes) = state.fault {
                    left = bytes;
                }
            }
            if self.is_up {
                self.look_for_request(state.fault, &chunk, &mut seen);
            } else if is_lost || self.is_losing.load(Ordering::SeqCst) {
                if !is_lost {
                    self.shared.lost.fetch_add(1, Ordering::Relaxed);
                    is_lost = true;
                }
                if matches!(state.fault, Fault::LoseReply { close: true, .. }) {
                    return;
                }
                continue;
            }
            let is_cut = matches!(state.fault, Fault::CutReply(_)) && !self.is_up && chunk.len() >= left;
            if is_cut {
                chunk.truncate(left);
            }
            left = left.saturating_sub(chunk.len());
            if to.write_all(&chunk).await.is_err() || is_cut {
                return;
            }
            let bytes = if self.is_up { &self.shared.bytes_up } else { &self.shared.bytes_down };
            bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        }
    }

    /// Waits until a chunk may be sent on, and returns the state that let it.
    async fn until_due(&mut self, arrived: Instant) -> State {
        loop {
            let state = *self.state.borrow_and_update();
            let due = match state.fault {
                Fault::Stall => None,
                Fault::Delay(delay) => Some(arrived + delay),
                _ => return state,
            };
            let wait = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = wait => return state,
                changed = self.state.changed() => if changed.is_err() { return state },
            }
        }
    }

    /// Notes that the reply to this chunk is to be lost. `seen` is the end of what came before it.
    fn look_for_request(&self, fault: Fault, chunk: &[u8], seen: &mut Vec<u8>) {
        let Fault::LoseReply { from, .. } = fault else { return seen.clear() };
        seen.extend_from_slice(chunk);
        if from.is_empty() || seen.windows(from.len()).any(|window| window == from.as_bytes()) {
            // Before the request is sent on, so that its reply can't be quicker.
            self.is_losing.store(true, Ordering::SeqCst);
        }
        seen.drain(..seen.len().saturating_sub(from.len()));
    }
}

/// Reads until the end. Dropping `chunks` tells the writer of it.
async fn read(
    from: &mut (impl AsyncRead + Unpin),
    mut state: watch::Receiver<State>,
    chunks: mpsc::UnboundedSender<Chunk>,
) {
    loop {
        let mut chunk = Vec::with_capacity(64 * 1024);
        tokio::select! {
            // The writer has ended.
            () = chunks.closed() => return,
            // An error is the end of the proxy.
            _ = state.wait_for(|state| state.fault != Fault::StopReading) => {}
        }
        tokio::select! {
            // In this order: what was sent after a fault was set must not be read because it is there as well.
            biased;
            () = chunks.closed() => return,
            changed = state.changed() => if changed.is_err() { return },
            // An error is an end as well.
            read = from.read_buf(&mut chunk) => if !matches!(read, Ok(1..)) { return },
        }
        if !chunk.is_empty() && chunks.send((Instant::now(), chunk)).is_err() {
            return;
        }
    }
}
