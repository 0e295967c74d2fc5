//! `GET /v1/events`: the status again and again, as server-sent events, for a page that is open.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{MissedTickBehavior, interval};

use super::status::Status;
use crate::http::{ApiError, App};

const INTERVAL: Duration = Duration::from_secs(1);

/// How many may look at once. Each takes a status a second, which is not for nothing where there are many policies.
const MAX_STREAMS: usize = 16;

/// Room for those who look.
#[derive(Debug, Clone)]
pub struct Streams(Arc<Semaphore>);

impl Default for Streams {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_STREAMS)))
    }
}

impl Streams {
    fn enter(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        Arc::clone(&self.0).try_acquire_owned().map_err(|_| ApiError::TooManyStreams(MAX_STREAMS))
    }
}

/// At once and then each second, until the client goes or the process stops: what is open then would hold the end up.
pub(super) async fn events(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let permit = app.streams.enter()?;
    let stopped = app.stopping();
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let events = stream::unfold((app, ticks, stopped, permit), async |(app, mut ticks, mut stopped, permit)| {
        tokio::select! {
            biased;
            // An error means that nobody is left to tell, which is the end as well.
            _ = stopped.wait_for(|stopped| *stopped) => return None,
            _ = ticks.tick() => {}
        }
        // A status is nothing but texts and numbers, so that it can be written.
        let event = Event::default().event("status").json_data(Status::of(&app)).ok()?;
        Some((Ok::<_, Infallible>(event), (app, ticks, stopped, permit)))
    });
    Ok(Sse::new(events).into_response())
}
