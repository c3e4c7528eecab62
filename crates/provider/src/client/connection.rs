//! One HTTP/1.1 connection to a provider: a request at a time.

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};

use crate::seen::NotSentFault;

/// Most bytes of an answer's head. Of its headers hyper reads 100 at most.
const HEAD_BYTES_MAX: usize = 32 * 1_024;

/// A request that is ready to be sent.
pub(super) type Request = http::Request<Full<Bytes>>;

/// A stream of bytes in both directions, with or without TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection that takes requests.
pub(super) struct Connection {
    requests: SendRequest<Full<Bytes>>,
    opened: Instant,
}

/// A request that got no response.
pub(super) enum NoResponse {
    /// The connection had ended before it took the request, and gives it back.
    Untaken(Box<Request>),
    /// The connection had taken it: any part of it may have left us.
    Lost,
}

impl Connection {
    /// Takes a stream for requests. The connection ends after `age_max`, whoever still uses it.
    pub(super) async fn over(stream: Box<dyn Stream>, age_max: Duration) -> Result<Connection, NotSentFault> {
        let handshake = Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await;
        let lost = |_| NotSentFault::Connect(std::io::ErrorKind::ConnectionAborted);
        let (requests, connection) = handshake.map_err(lost)?;
        // Whoever waits for a response hears of the connection's end. While nobody does, it ends by itself
        // as soon as the other side closes it, or says something that nobody asked for.
        tokio::spawn(timeout(age_max, connection));
        Ok(Connection { requests, opened: Instant::now() })
    }

    /// Sends a request and waits for the head of its response.
    pub(super) async fn send(&mut self, request: Request) -> Result<Response<Incoming>, NoResponse> {
        self.requests.try_send_request(request).await.map_err(|mut fault| match fault.take_message() {
            Some(request) => NoResponse::Untaken(Box::new(request)),
            None => NoResponse::Lost,
        })
    }

    /// Waits until the connection can take another request; whether it ever will.
    pub(super) async fn is_reusable(&mut self) -> bool {
        self.requests.ready().await.is_ok()
    }

    pub(super) fn is_open(&self) -> bool {
        !self.requests.is_closed()
    }

    pub(super) fn opened(&self) -> Instant {
        self.opened
    }
}
