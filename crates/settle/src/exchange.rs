//! One HTTP request of a command, on a connection of its own.

use std::io;

use axum::body::Bytes;
use axum::http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
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
