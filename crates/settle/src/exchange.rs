//! One HTTP request of a command, on a connection of its own.

use std::io;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// Sends a request to a host; gives the status, and the body unless it is too long.
pub(crate) async fn exchange(
    host: &str,
    port: u16,
    request: Request<Full<Bytes>>,
    answer_bytes_max: usize,
) -> io::Result<(StatusCode, Option<Bytes>)> {
    let stream = TcpStream::connect((host, port)).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let answered = async {
        let response = sender.send_request(request).await.map_err(io::Error::other)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), answer_bytes_max).collect().await;
        Ok((status, body.ok().map(http_body_util::Collected::to_bytes)))
    };
    let driven = async {
        // The exchange learns by itself that the connection has ended, and what was read before.
        let _ = connection.await;
        std::future::pending().await
    };
    tokio::select! {
        answered = answered => answered,
        never = driven => never,
    }
}

/// Asks a service in JSON with a token; gives the status, and the answer if it is JSON. Waits no longer than
/// the limit.
pub(crate) async fn ask(
    (host, port): (&str, u16),
    method: Method,
    path: &str,
    token: &str,
    body: Option<&Value>,
    (timeout, answer_bytes_max): (Duration, usize),
) -> io::Result<(StatusCode, Option<Value>)> {
    let mut request = Request::new(Full::new(Bytes::from(body.map(Value::to_string).unwrap_or_default())));
    *request.method_mut() = method;
    *request.uri_mut() = path.parse().map_err(io::Error::other)?;
    let value = |text: String| HeaderValue::try_from(text).map_err(io::Error::other);
    let mut bearer = value(format!("Bearer {token}"))?;
    bearer.set_sensitive(true);
    let headers = request.headers_mut();
    headers.insert(header::HOST, value(format!("{host}:{port}"))?);
    headers.insert(header::AUTHORIZATION, bearer);
    if body.is_some() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    let asked = tokio::time::timeout(timeout, exchange(host, port, request, answer_bytes_max));
    let late = |_| Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {timeout:?}")));
    let (status, answer) = asked.await.unwrap_or_else(late)?;
    Ok((status, answer.and_then(|answer| serde_json::from_slice(&answer).ok())))
}
