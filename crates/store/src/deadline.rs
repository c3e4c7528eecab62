//! A limit on how long a caller waits for the database.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep};

use crate::{StoreError, StoreResult};

/// How long a background task waits for an answer of the database: longer than the database lets a statement
/// wait for a lock.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(15);

/// In how many parts a caller waits until its limit. A machine that stood still spends one of them, however
/// long it did: the database, which may have stood still with it, has the others to answer in. So a limit is
/// no bound for a lease: what is written after one has run out is refused by its fence.
const PARTS: u32 = 8;

/// The result of a call, or an error if it takes longer than the limit; the call is then dropped.
pub async fn within<T>(limit: Duration, call: impl Future<Output = StoreResult<T>> + Send) -> StoreResult<T> {
    let late = || Err(StoreError::Unavailable("the database did not answer in time".into()));
    answered(limit, call).await.unwrap_or_else(late)
}

/// What a call gives, or `None` if it takes longer than the limit; the call is then dropped.
pub fn answered<C: Future>(limit: Duration, call: C) -> Answered<C> {
    let part = limit / PARTS;
    Answered { call, part, end: sleep(part), parts_left: PARTS }
}

pin_project! {
    /// See [`answered`]. Not an `async fn`: that would keep the call twice, as argument and as what is
    /// awaited, and calls are nested.
    #[must_use = "futures do nothing unless polled"]
    pub struct Answered<C> {
        #[pin]
        call: C,
        part: Duration,
        // Of the present part.
        #[pin]
        end: Sleep,
        parts_left: u32,
    }
}

impl<C: Future> Future for Answered<C> {
    type Output = Option<C::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<C::Output>> {
        let mut own = self.project();
        if let Poll::Ready(given) = own.call.as_mut().poll(context) {
            return Poll::Ready(Some(given));
        }
        while own.end.as_mut().poll(context).is_ready() {
            *own.parts_left = own.parts_left.saturating_sub(1);
            if *own.parts_left == 0 {
                return Poll::Ready(None);
            }
            own.end.as_mut().reset(Instant::now() + *own.part);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;
    use tokio::task::yield_now;
    use tokio::time::advance;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn a_call_that_never_ends_is_given_up_at_the_limit() {
        let began = Instant::now();

        assert_eq!(answered(LIMIT, pending::<()>()).await, None);

        assert_eq!(began.elapsed().as_millis(), LIMIT.as_millis());
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_stood_still_makes_no_call_late() {
        let (answer, call) = oneshot::channel();
        let caller = tokio::spawn(answered(LIMIT, call));
        yield_now().await;

        advance(LIMIT * 10).await;
        yield_now().await;
        let _ = answer.send("found");

        assert_eq!(caller.await.unwrap(), Some(Ok("found")));
    }
}
