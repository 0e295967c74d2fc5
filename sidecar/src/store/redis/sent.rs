//! A question that has been put to a server, whoever still waits for the answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use redis::{RedisError, Value};
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

type Answer = Pin<Box<dyn Future<Output = Result<Value, RedisError>> + Send>>;

/// A question on its way. It holds a permit until the server has answered or the connection is lost, even if
/// this is dropped before: only so does the number of permits bound what a server that has stopped for a while
/// finds when it goes on.
pub struct Sent {
    answer: Option<Answer>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Sent {
    /// `answer` puts the question when it is polled for the first time.
    pub fn new(
        permit: OwnedSemaphorePermit,
        answer: impl Future<Output = Result<Value, RedisError>> + Send + 'static,
    ) -> Self {
        Self { answer: Some(Box::pin(answer)), permit: Some(permit) }
    }
}

impl Future for Sent {
    type Output = Result<Value, RedisError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(answer) = &mut self.answer else { return Poll::Pending };
        let answer = std::task::ready!(answer.as_mut().poll(context));
        self.answer = None;
        self.permit = None;
        Poll::Ready(answer)
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        // Without a runtime the process is about to end.
        if let (Some(answer), Some(permit), Ok(runtime)) =
            (self.answer.take(), self.permit.take(), Handle::try_current())
        {
            runtime.spawn(async move {
                // Whatever it says, nobody waits for it any more.
                let _ = answer.await;
                drop(permit);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::{Semaphore, oneshot};

    use super::*;

    #[tokio::test]
    async fn a_permit_is_held_until_the_answer_is_there() {
        let permits = Arc::new(Semaphore::new(1));
        let (answer, answered) = oneshot::channel();
        let permit = Arc::clone(&permits).acquire_owned().await.unwrap();
        let sent = Sent::new(permit, async move { Ok(answered.await.unwrap()) });
        drop(sent);
        tokio::task::yield_now().await;
        assert_eq!(permits.available_permits(), 0);
        answer.send(Value::Okay).unwrap();
        let permit = permits.acquire_owned().await.unwrap();

        let sent = Sent::new(permit, async { Ok(Value::Okay) });
        assert_eq!(sent.await.unwrap(), Value::Okay);
    }
}
