//! One HTTP/1.1 connection: a request at a time, and what the other side may answer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, timeout};

use super::AttemptFault;
use super::pool::Reusable;

/// Most bytes of a response's head. Of its headers hyper reads 100 at most.
const HEAD_BYTES_MAX: usize = 32 * 1_024;

/// A connection that takes requests.
pub(super) struct Connection {
    requests: SendRequest<Full<Bytes>>,
    /// Whether anything was read since the last request began.
    has_read: Arc<AtomicBool>,
    opened: Instant,
}

/// A request that got no response.
pub(super) struct NoResponse {
    pub(super) fault: AttemptFault,
    /// Whether not a byte of an answer came.
    pub(super) is_silent: bool,
}

impl Connection {
    /// Takes a stream for requests. The connection ends after `age_max`, whoever still uses it.
    pub(super) async fn over(stream: Box<dyn Stream>, age_max: Duration) -> Result<Connection, AttemptFault> {
        let has_read = Arc::new(AtomicBool::new(false));
        let watched = TokioIo::new(Watched { stream, has_read: has_read.clone() });
        let handshake = Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .handshake(watched)
            .await;
        let (requests, connection) = handshake.map_err(|fault| AttemptFault::of(&fault))?;
        // Whoever waits for a response hears of the connection's end. While nobody does, it ends by itself
        // as soon as the other side closes it, or says something that nobody asked for.
        tokio::spawn(timeout(age_max, connection));
        Ok(Connection { requests, has_read, opened: Instant::now() })
    }

    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, NoResponse> {
        self.has_read.store(false, Ordering::Relaxed);
        self.requests.try_send_request(request).await.map_err(|mut fault| {
            let was_never_sent = fault.take_message().is_some();
            let is_silent = was_never_sent || !self.has_read.load(Ordering::Relaxed);
            NoResponse { fault: AttemptFault::of(fault.error()), is_silent }
        })
    }

    /// Waits until the connection can take another request; whether it ever will.
    pub(super) async fn is_reusable(&mut self) -> bool {
        self.requests.ready().await.is_ok()
    }
}

impl Reusable for Connection {
    fn is_open(&self) -> bool {
        !self.requests.is_closed()
    }

    fn opened(&self) -> Instant {
        self.opened
    }
}

/// A stream of bytes in both directions, with or without TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A stream that remembers whether anything was read from it.
struct Watched {
    stream: Box<dyn Stream>,
    has_read: Arc<AtomicBool>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.has_read.store(true, Ordering::Relaxed);
        }
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
