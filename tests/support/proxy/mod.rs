//! A TCP proxy that does to connections what networks do: between the sidecar and Redis, or Envoy and the sidecar.

mod connection;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Port;

/// What it does. A change applies at once, to connections that are open too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing amiss.
    None,
    /// Whatever arrives is sent on this much later, in both directions.
    Delay(Duration),
    /// Accepts and reads, and sends nothing on. What it holds is sent on afterwards, as a network does that only
    /// paused, even if the sender has gone meanwhile.
    Stall,
    /// Accepts and doesn't read: the sender's and the system's buffers fill up.
    StopReading,
    /// Open connections are reset, and new ones as soon as they are there.
    Reset,
    /// New connections are refused; open ones go on.
    Refuse,
    /// Each connection ends after this many more bytes of replies.
    CutReply(usize),
    /// The first request on a connection that contains `from` arrives; its reply does not, and nor does anything after
    /// it, or the replies that follow would be taken for it. `close` ends the connection when the reply is there.
    /// An empty `from` is every request.
    LoseReply { from: &'static str, close: bool },
}

/// A running proxy.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    state: watch::Sender<State>,
    is_listening: watch::Sender<bool>,
    target: Mutex<SocketAddr>,
    opened: AtomicUsize,
    open: AtomicUsize,
    lost: AtomicUsize,
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
struct State {
    fault: Fault,
    /// Counts the changes: a connection that began under a former one does not belong to it.
    changes: usize,
    /// How often all connections were reset.
    resets: usize,
}

impl Proxy {
    /// In front of a port on 127.0.0.1.
    pub async fn start(target: u16) -> Self {
        let port = Port::free();
        let shared = Arc::new(Shared {
            state: watch::Sender::new(State { fault: Fault::None, changes: 0, resets: 0 }),
            is_listening: watch::Sender::new(true),
            target: Mutex::new(local(target)),
            opened: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            lost: AtomicUsize::new(0),
            bytes_up: AtomicU64::new(0),
            bytes_down: AtomicU64::new(0),
        });
        let listener = TcpListener::bind(local(port.number())).await.unwrap();
        let server = tokio::spawn(serve(local(port.number()), listener, Arc::clone(&shared)));
        Self { port, shared, server }
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Does this from now on. Returns when new connections find it so.
    pub async fn set(&self, fault: Fault) {
        self.shared.state.send_modify(|state| {
            state.fault = fault;
            state.changes += 1;
            if fault == Fault::Reset {
                state.resets += 1;
            }
        });
        let mut is_listening = self.shared.is_listening.subscribe();
        is_listening.wait_for(|is| *is == (fault != Fault::Refuse)).await.unwrap();
    }

    /// Connections lead there from now on; those that are open stay where they are.
    pub fn point_to(&self, target: u16) {
        *self.shared.target.lock().unwrap() = local(target);
    }

    /// Resets all open connections.
    pub fn reset_open(&self) {
        self.shared.state.send_modify(|state| state.resets += 1);
    }

    /// How many connections it has accepted.
    pub fn opened(&self) -> usize {
        self.shared.opened.load(Ordering::Relaxed)
    }

    /// How many are open now.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// How many replies [`Fault::LoseReply`] has lost: each is the end of what its connection says.
    pub fn lost(&self) -> usize {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// How many bytes were sent on to the target.
    pub fn bytes_up(&self) -> u64 {
        self.shared.bytes_up.load(Ordering::Relaxed)
    }

    /// How many bytes of replies were sent on.
    pub fn bytes_down(&self) -> u64 {
        self.shared.bytes_down.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

async fn serve(address: SocketAddr, listener: TcpListener, shared: Arc<Shared>) {
    let mut state = shared.state.subscribe();
    let mut listener = Some(listener);
    // Ends with this task.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        if state.borrow_and_update().fault == Fault::Refuse {
            listener = None;
            shared.is_listening.send_replace(false);
        } else if listener.is_none() {
            listener = Some(TcpListener::bind(address).await.unwrap());
            shared.is_listening.send_replace(true);
        }
        let accept = async {
            match &listener {
                Some(listener) => listener.accept().await.unwrap().0,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            changed = state.changed() => if changed.is_err() { return },
            stream = accept => { connections.spawn(connection::serve(stream, Arc::clone(&shared))); }
        }
        while connections.try_join_next().is_some() {}
    }
}
