//! A connection that tells its place what it does, and that ends without losing its last answer.
//!
//! A client that is refused early (its body is too long, its head too) may still be sending. If the service
//! closed the connection with bytes of the client unread, the kernel would reset it, and the client would see
//! the reset instead of the answer. So the service ends its own half, then reads and forgets what still
//! comes, within bounds; meanwhile the connection waits for its client, and gives its place to whoever needs
//! one.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};
use tokio::time::{Sleep, sleep};

use super::places::Place;

/// How long, and how much, the service reads on from a client that it has refused.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
const DRAIN_BYTES_MAX: usize = 16 * 1_024 * 1_024;
/// How much of it one read takes.
const DRAIN_READ_BYTES: usize = 8 * 1_024;
/// How much a read takes at most: less than the HTTP library's first buffer holds. A read that filled the
/// buffer would make it larger, for as long as the connection lasts.
const READ_BYTES_MAX: usize = 8 * 1_024 - 1;
/// A buffer with more room than this has grown: for a long head, for heads of some thousand bytes that came
/// in pieces, or for requests that came before their turn. A body is taken out of it as it comes.
const ROOM_BYTES_MAX: usize = 16 * 1_024;

/// A stream that tells its place when it reads, writes and blocks.
pub(super) struct Watched<S> {
    stream: Take<S>,
    place: Place,
    /// The time and the bytes that are left for draining; set when our half has ended.
    draining: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Watched<S> {
    pub(super) fn new(stream: S, place: Place) -> Watched<S> {
        Watched { stream: stream.take(0), place, draining: None }
    }

    /// Reads and forgets what the client still sends, until it ends or a bound is reached.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let bounds = || (Box::pin(sleep(DRAIN_TIMEOUT)), DRAIN_BYTES_MAX);
        let (timer, left) = self.draining.get_or_insert_with(bounds);
        if timer.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let mut scratch = [0; DRAIN_READ_BYTES];
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = ready!(Pin::new(self.stream.get_mut()).poll_read(context, &mut buffer));
            let length = buffer.filled().len();
            *left = left.saturating_sub(length);
            if read.is_err() || length == 0 || *left == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn told<T>(&self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_pending() {
            self.place.block();
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, room) = (buffer.filled().len(), buffer.remaining());
        if room > ROOM_BYTES_MAX {
            self.place.enlarge();
        }
        // The last byte stays free: a buffer that doubles has more room than it had bytes, and is seen here.
        let most = room.saturating_sub(1).clamp(1, READ_BYTES_MAX);
        self.stream.set_limit(u64::try_from(most).unwrap_or(u64::MAX));
        let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) else {
            self.place.starve();
            return Poll::Pending;
        };
        read?;
        if buffer.filled().len() > before {
            self.place.set_sending(true);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(self.stream.get_mut()).poll_write(context, bytes);
        self.told(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(self.stream.get_mut()).poll_write_vectored(context, slices);
        self.told(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.get_ref().is_write_vectored()
    }

    /// The HTTP library flushes when it has written everything.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(self.stream.get_mut()).poll_flush(context);
        if flushed.is_ready() {
            self.place.wait();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.draining.is_none() {
            ready!(Pin::new(self.stream.get_mut()).poll_shutdown(context))?;
            if !self.place.is_sending() {
                return Poll::Ready(Ok(()));
            }
            self.place.wait();
        }
        self.poll_drain(context)
    }
}

/// A request's body that tells the connection's place when a handler waits for it, and when it has been read
/// to its end.
pub(super) struct WatchedBody {
    body: Incoming,
    place: Place,
}

impl WatchedBody {
    pub(super) fn new(body: Incoming, place: Place) -> WatchedBody {
        if body.is_end_stream() {
            place.set_sending(false);
        }
        WatchedBody { body, place }
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            self.place.want_body(true);
            return Poll::Pending;
        };
        self.place.want_body(false);
        if !self.place.work() {
            // Another connection has taken the place: this one ends, and nothing more is done for it.
            return Poll::Pending;
        }
        if frame.is_none() || self.body.is_end_stream() {
            self.place.set_sending(false);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::super::places::Places;
    use super::*;
    use crate::http::Proxies;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::Instant;

    const PIPE: usize = 64 * 1_024;

    /// A connection whose client has sent a byte, and the client.
    async fn connection() -> (Watched<DuplexStream>, DuplexStream) {
        let (near, mut far) = duplex(PIPE);
        let places = Places::new(1, 1, Proxies::default());
        let place = places.enter([192, 0, 2, 1].into()).await.ok().unwrap();
        let mut near = Watched::new(near, place);
        far.write_all(b"P").await.unwrap();
        near.read_u8().await.unwrap();
        (near, far)
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_refused_client_still_sends_is_read_to_its_end() {
        let (mut near, mut far) = connection().await;
        let client = tokio::spawn(async move {
            far.write_all(&vec![0; 10 * PIPE]).await.unwrap();
            far.shutdown().await.unwrap();
            far.read_to_end(&mut Vec::new()).await.unwrap()
        });
        let started = Instant::now();
        near.shutdown().await.unwrap();
        assert_eq!((client.await.unwrap(), started.elapsed()), (0, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_ends_is_left_after_a_time() {
        let (mut near, _far) = connection().await;
        let started = Instant::now();
        near.shutdown().await.unwrap();
        assert_eq!(started.elapsed(), DRAIN_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_without_end_is_left_after_so_many_bytes() {
        let (mut near, mut far) = connection().await;
        let client = tokio::spawn(async move {
            let (part, mut sent) = (vec![0; PIPE], 0);
            while far.write_all(&part).await.is_ok() {
                sent += PIPE;
            }
            sent
        });
        near.shutdown().await.unwrap();
        drop(near);
        assert!(client.await.unwrap() <= DRAIN_BYTES_MAX + 2 * PIPE);
    }

    #[tokio::test]
    async fn a_read_never_fills_the_buffer_and_a_large_one_is_noted() {
        let (mut near, mut far) = connection().await;
        far.write_all(&vec![0; PIPE]).await.unwrap();
        for (room, taken) in [(1, 1), (2, 1), (5_000, 4_999), (READ_BYTES_MAX + 1, READ_BYTES_MAX)] {
            assert_eq!(near.read(&mut vec![0; room]).await.unwrap(), taken);
        }
        assert_eq!(near.read(&mut vec![0; ROOM_BYTES_MAX]).await.unwrap(), READ_BYTES_MAX);
        assert!(!near.place.is_large());
        assert_eq!(near.read(&mut vec![0; ROOM_BYTES_MAX + 1]).await.unwrap(), READ_BYTES_MAX);
        assert!(near.place.is_large());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_has_sent_all_is_left_at_once() {
        let (mut near, _far) = connection().await;
        near.place.set_sending(false);
        let started = Instant::now();
        near.shutdown().await.unwrap();
        assert_eq!(started.elapsed(), Duration::ZERO);
    }
}
