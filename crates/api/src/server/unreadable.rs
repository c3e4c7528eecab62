//! Requests that the HTTP library refuses before there is a request: they get the envelope too.
//!
//! The library answers a head that it cannot read, or that is too long, by itself: with a status and no body,
//! and there is no hook. But its answer passes through the connection's stream. This stream recognises it,
//! because every answer of ours has an id, holds it back, and asks the router for the answer to an
//! [`Unreadable`] request instead. So the envelope, the id, the metrics and the log come from the one layer
//! that makes them for everybody else.

use std::fmt::Write;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::Response;
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::Source;

/// Marks the request that stands for one that could not be read, with the status of its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unreadable(pub(crate) StatusCode);

/// A stream on which the library's own refusals become ours.
pub(super) struct Refined<S> {
    stream: S,
    router: Router,
    source: Source,
    held: Option<Held>,
}

/// A refusal of the library's that is being replaced.
enum Held {
    Asked(BoxFuture<'static, Vec<u8>>),
    /// The answer, and how much of it is written.
    Answered(Vec<u8>, usize),
}

impl<S> Refined<S> {
    pub(super) fn new(stream: S, router: Router, source: Source) -> Refined<S> {
        Refined { stream, router, source, held: None }
    }
}

impl<S: AsyncWrite + Unpin> Refined<S> {
    /// Writes our answer in the place of the library's, which then counts as written.
    fn poll_held(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match &mut self.held {
                None => return Poll::Ready(Ok(())),
                Some(Held::Asked(asked)) => {
                    let answer = ready!(asked.as_mut().poll(context));
                    self.held = Some(Held::Answered(answer, 0));
                }
                Some(Held::Answered(answer, written)) if *written == answer.len() => self.held = None,
                Some(Held::Answered(answer, written)) => {
                    let rest = &answer[*written..];
                    *written += match ready!(Pin::new(&mut self.stream).poll_write(context, rest))? {
                        0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                        number => number,
                    };
                }
            }
        }
    }

    /// Holds the bytes back if they are a refusal of the library's.
    fn hold(&mut self, bytes: &[u8]) {
        if let (None, Some(status)) = (&self.held, refusal(bytes)) {
            self.held = Some(Held::Asked(Box::pin(answer(self.router.clone(), self.source, status))));
        }
    }
}

/// The status of an answer that the library made: the head of a refusal, without our id and without a body.
fn refusal(bytes: &[u8]) -> Option<StatusCode> {
    const ID: &[u8] = b"x-request-id:";
    let status = bytes.strip_prefix(b"HTTP/1.1 ").or_else(|| bytes.strip_prefix(b"HTTP/1.0 "))?.get(..3)?;
    let status = StatusCode::from_bytes(status).ok().filter(StatusCode::is_client_error)?;
    let is_head_alone = bytes.ends_with(b"\r\n\r\n") && !bytes.windows(ID.len()).any(|part| part == ID);
    is_head_alone.then_some(status)
}

/// What our router says of a request that could not be read, as bytes.
async fn answer(router: Router, source: Source, status: StatusCode) -> Vec<u8> {
    let mut request = Request::new(Body::empty());
    request.headers_mut().insert(header::HOST, HeaderValue::from_static("unreadable"));
    request.extensions_mut().insert(source);
    request.extensions_mut().insert(Unreadable(status));
    let Ok(response) = TowerToHyperService::new(router).call(request).await;
    write(response).await
}

/// The answer as HTTP/1.1, after which the connection ends.
async fn write(response: Response) -> Vec<u8> {
    let (parts, body) = response.into_parts();
    // The envelope stands in memory: reading it cannot fail.
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let mut head = String::new();
    // A text in memory takes whatever is written.
    let _ =
        write!(head, "HTTP/1.1 {}\r\nconnection: close\r\ncontent-length: {}\r\n", parts.status, body.len());
    let mut bytes = head.into_bytes();
    for (name, value) in parts.headers.iter().filter(|(name, _)| *name != header::CONTENT_LENGTH) {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&body);
    bytes
}

impl<S: AsyncRead + Unpin> AsyncRead for Refined<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Refined<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.hold(bytes);
        if self.held.is_some() {
            ready!(self.poll_held(context))?;
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A refusal has no body: its head is the one part that is not empty.
        let mut parts = slices.iter().filter(|part| !part.is_empty());
        if let (Some(head), None) = (parts.next(), parts.next()) {
            return self.poll_write(context, head);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_of_the_library_is_replaced() {
        let bare = "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(refusal(bare.as_bytes()), Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
        for ours in [
            "HTTP/1.1 404 Not Found\r\nx-request-id: 1\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 307 Temporary Redirect\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "",
        ] {
            assert_eq!(refusal(ours.as_bytes()), None, "{ours}");
        }
    }
}
