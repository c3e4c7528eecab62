//! A connection whose peer must read: it has to take everything the service writes within a limit.
//!
//! The time starts with the first write that finds no room, and stops when the kernel has taken everything. A
//! peer that reads a few bytes now and then does not restart it, and so cannot keep its place forever.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream that ends when its peer leaves a written answer unread for longer than the limit.
pub(super) struct UnreadLimit<S> {
    stream: S,
    limit: Duration,
    /// The timer; set while the kernel has no room for what the service wants to write.
    running: Option<Pin<Box<Sleep>>>,
}

impl<S: Unpin> UnreadLimit<S> {
    pub(super) fn new(stream: S, limit: Duration) -> UnreadLimit<S> {
        UnreadLimit { stream, limit, running: None }
    }

    /// Passes a write on. A write that finds no room starts the time; when it is over, the connection ends.
    fn poll_limited<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(written) = write(Pin::new(&mut self.stream), context) {
            return Poll::Ready(written);
        }
        let limit = self.limit;
        let running = self.running.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(running.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for UnreadLimit<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for UnreadLimit<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_limited(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_limited(context, |stream, context| stream.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// The HTTP library flushes when it has written everything, so a flush that succeeds stops the time.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.poll_limited(context, AsyncWrite::poll_flush);
        if flushed.is_ready() {
            self.running = None;
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_limited(context, AsyncWrite::poll_shutdown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::interval;

    const LIMIT: Duration = Duration::from_secs(30);
    /// How many bytes the pipe between the two ends holds.
    const PIPE: usize = 16;

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_a_little_now_and_then_does_not_gain_time() {
        let (near, mut far) = duplex(PIPE);
        let mut near = UnreadLimit::new(near, LIMIT);
        let started = tokio::time::Instant::now();
        let reader = tokio::spawn(async move {
            let (mut byte, mut turns) = ([0], interval(LIMIT / 3));
            // The reader ends when the connection does.
            while far.read(&mut byte).await.is_ok_and(|read| read > 0) {
                turns.tick().await;
            }
        });
        let refused = near.write_all(&[0; 100 * PIPE]).await.unwrap_err();
        assert_eq!((refused.kind(), started.elapsed()), (io::ErrorKind::TimedOut, LIMIT));
        drop(near);
        reader.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_may_take_as_many_answers_as_it_likes() {
        let (near, mut far) = duplex(PIPE);
        let mut near = UnreadLimit::new(near, LIMIT);
        let reader = tokio::spawn(async move {
            let (mut bytes, mut turns) = ([0; 2 * PIPE], interval(LIMIT / 2));
            while far.read_exact(&mut bytes).await.is_ok() {
                turns.tick().await;
            }
        });
        for _ in 0..10 {
            near.write_all(&[0; 2 * PIPE]).await.unwrap();
            near.flush().await.unwrap();
        }
        drop(near);
        reader.await.unwrap();
    }
}
