//! Serves a router on a listener: it bounds the connections, cuts off clients that send or read too slowly,
//! and lets requests finish when it stops.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

mod unread;

use unread::UnreadLimit;

/// The bounds of a listener.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// How many connections the listener serves at once; others wait in the kernel's queue.
    pub connections_max: usize,
    /// How long a client may take to send the head of a request.
    pub header_timeout: Duration,
    /// How long a client may leave an answer or a part of it unread.
    pub write_timeout: Duration,
    /// How long requests under way may take to finish when the service stops.
    pub shutdown_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            connections_max: 4_096,
            header_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(30),
            shutdown_timeout: Duration::from_secs(20),
        }
    }
}

/// How long the listener waits after the kernel refused it a connection for want of resources.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop` ends, then finishes the requests under way.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ServerLimits,
    stop: impl Future<Output = ()>,
) {
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let graceful = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    // A client may close its half after the request; it still gets its answer.
    http.timer(TokioTimer::new()).header_read_timeout(limits.header_timeout).half_close(true);
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = &mut stop => break,
        };
        let (stream, place) = match accepted {
            Ok(accepted) => accepted,
            Err(fault) => {
                tracing::warn!(%fault, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let stream = TokioIo::new(UnreadLimit::new(stream, limits.write_timeout));
        let connection = http.serve_connection(stream, TowerToHyperService::new(router.clone()));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(fault) = connection.await {
                tracing::debug!(%fault, "a connection ended early");
            }
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(limits.shutdown_timeout, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests under way did not finish in time and were cut off");
    }
}

/// Waits until a place is free, then for the next connection.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> std::io::Result<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    // The service writes small answers whole: waiting to fill a packet would only delay them.
    stream.set_nodelay(true)?;
    Ok((stream, place))
}
