//! `sluice serve`: binds, serves, and drains when told to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::serve::{Listener, ListenerExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::config_file::ConfigFile;
use crate::http::{self, App, Tokens};
use crate::reload::FileError;
use crate::store::{DialError, Store, StoreAddress};
use crate::tls::{self, TlsListener};

/// How long requests in flight may take once the process has been told to stop. A decision takes
/// `store_timeout` at most, so that this only cuts off clients that never send the rest of theirs.
const DRAIN: Duration = Duration::from_secs(10);

/// Why serving ended, or never began.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address can't be had. The last one is its field.
    #[error("cannot listen on {0}: {1}; set another one with `{2}`")]
    Listen(SocketAddr, #[source] io::Error, &'static str),
    /// A certificate, a key or a token can't be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// What the store needs can't be used.
    #[error("store: {0}")]
    Store(#[from] DialError),
    /// The system refused something.
    #[error("cannot serve: {0}")]
    Io(#[from] io::Error),
}

/// Serves until SIGTERM or SIGINT, then finishes what is in flight. SIGHUP has the configuration read again.
///
/// # Errors
///
/// If it can't listen. A store that is away is no error: it is waited for.
pub async fn run(file: ConfigFile) -> Result<(), ServeError> {
    let config = file.config.clone();
    let tokens = config.auth.as_ref().map(Tokens::load).transpose()?;
    let tls = config.tls.as_ref().map(tls::config).transpose()?;
    let store = Store::connect(&config.store)?;
    let app = App::new(file, store, tokens);
    let listener = bind(config.listen, "listen").await?;
    let admin = match config.admin {
        Some(address) => Some(bind(address, "admin.listen").await?),
        None => None,
    };
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut hangup = signal(SignalKind::hangup())?;
    tracing::info!(
        listen = %listener.local_addr()?, tls = tls.is_some(), token = app.tokens.is_some(),
        admin = config.admin.map_or("off".to_owned(), |address| address.to_string()),
        store = %config.store.address, policies = config.policies.len(),
        "sluice {} serves", env!("CARGO_PKG_VERSION")
    );

    if matches!(config.store.address, StoreAddress::Memory) {
        tracing::warn!(
            "counts are kept in this process's memory: no other sidecar shares them, and a restart forgets them"
        );
    }

    let (stop, stopped) = watch::channel(false);
    let routes = http::check_router(Arc::clone(&app));
    let checks = async {
        match tls {
            None => serve(listener, routes, stopped.clone()).await,
            Some(tls) => {
                let listener = TlsListener::new(listener, tls, app.engine.metrics().handshakes_failed());
                serve(listener, routes, stopped.clone()).await
            }
        }
    };
    let admin = async {
        match admin {
            None => Ok(()),
            Some(listener) => serve(listener, http::admin_router(Arc::clone(&app)), stopped.clone()).await,
        }
    };
    let drained = async { tokio::try_join!(checks, admin).map(drop) };
    tokio::pin!(drained);
    loop {
        tokio::select! {
            result = &mut drained => return Ok(result?),
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                let reloader = Arc::clone(&app.reloader);
                // What is wrong is in the log by then.
                tokio::spawn(async move { reloader.reload_now().await.ok() });
            }
        }
    }
    tracing::info!("stopping: requests in flight are finished");
    app.draining.store(true, Ordering::Relaxed);
    // Nobody receives only if the server has ended already.
    stop.send_replace(true);
    if let Ok(result) = tokio::time::timeout(DRAIN, drained).await {
        result?;
    } else {
        tracing::warn!("some requests were not finished within {} s", DRAIN.as_secs());
    }
    Ok(())
}

async fn bind(
    address: SocketAddr,
    field: &'static str,
) -> Result<impl Listener<Io = TcpStream, Addr = SocketAddr>, ServeError> {
    let listener = TcpListener::bind(address).await.map_err(|error| ServeError::Listen(address, error, field))?;
    // Answers are small and awaited: Nagle's algorithm would hold each back.
    Ok(listener.tap_io(|connection| {
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY is not set");
        }
    }))
}

async fn serve<L>(listener: L, routes: Router, mut stopped: watch::Receiver<bool>) -> io::Result<()>
where
    L: Listener,
    L::Addr: std::fmt::Debug,
{
    axum::serve(listener, routes)
        .with_graceful_shutdown(async move {
            // An error means that the sender is gone, and with it the reason to go on.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        })
        .await
}
