//! Serves a router on a listener: it bounds the connections and their memory, cuts off clients that send or
//! read too slowly, and lets requests finish when it stops.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};

mod callers;
mod places;
mod unread;
mod unreadable;
mod watched;

use crate::http::{Proxies, Source, Tally};
pub(crate) use callers::Crowded;
use callers::{Caller, Callers};
use places::{Place, Places};
use unread::UnreadLimit;
use unreadable::Refined;
pub(crate) use unreadable::Unreadable;
use watched::{Watched, WatchedBody};

/// The bounds of a listener.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// How many connections the listener serves at once.
    pub connections_max: usize,
    /// How many of them one source may have, or requests under way if it comes through a proxy.
    pub connections_per_source: usize,
    /// Proxies: the limit of a source does not hold for their connections, but for the source that they name
    /// with each request.
    pub proxies: Proxies,
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
            connections_per_source: 1_024,
            proxies: Proxies::default(),
            header_timeout: Duration::from_secs(5),
            write_timeout: Duration::from_secs(30),
            shutdown_timeout: Duration::from_secs(20),
        }
    }
}

/// How long the listener waits after the kernel refused it a connection for want of resources.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The longest head, in bytes; the HTTP library itself accepts at most 100 headers. The buffer of a
/// connection does not grow beyond twice as much.
const HEAD_BYTES_MAX: usize = 32 * 1_024;

/// Serves until `stop` ends, then finishes the requests under way.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ServerLimits,
    stop: impl Future<Output = ()>,
) {
    let places = Places::new(limits.connections_max, limits.connections_per_source, limits.proxies.clone());
    let callers = Callers::new(limits.connections_max, limits.connections_per_source, limits.proxies.clone());
    let refused = Tally::new("connections of sources that have too many were refused");
    let graceful = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    // A client may close its half after the request; it still gets its answer.
    http.timer(TokioTimer::new()).header_read_timeout(limits.header_timeout).half_close(true);
    http.max_buf_size(HEAD_BYTES_MAX);
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &limits) => accepted,
            () = &mut stop => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(fault) => {
                tracing::warn!(%fault, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let place = tokio::select! {
            place = places.enter(peer) => place,
            () = &mut stop => break,
        };
        let Ok(place) = place else {
            refused.count(Source::of(peer));
            continue;
        };
        let stream = Watched::new(UnreadLimit::new(stream, limits.write_timeout), place.clone());
        let stream = Refined::new(stream, router.clone(), Source::of(peer));
        let service = service(router.clone(), place.clone(), peer, callers.clone());
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            tokio::select! {
                // The connection first: it is why the task wakes.
                biased;
                ended = connection => {
                    if let Err(fault) = ended {
                        tracing::debug!(%fault, "a connection ended early");
                    }
                }
                () = poll_fn(|context| place.poll_displaced(context)) => {
                    tracing::debug!("a connection gave its place to another");
                }
            }
            place.leave();
        });
    }
    drop(listener);
    if tokio::time::timeout(limits.shutdown_timeout, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests under way did not finish in time and were cut off");
    }
}

/// Waits for the next connection.
async fn accept(listener: &TcpListener, limits: &ServerLimits) -> std::io::Result<(TcpStream, IpAddr)> {
    let (stream, peer) = listener.accept().await?;
    // The service writes small answers whole: waiting to fill a packet would only delay them.
    stream.set_nodelay(true)?;
    // The kernel keeps what it has taken from the service for a client that is gone or does not read, also
    // when the service has closed the connection: no longer than the service would wait itself.
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(limits.write_timeout))?;
    Ok((stream, peer.ip()))
}

/// The length of a head, in bytes, without the blanks between its parts.
fn head_bytes(request: &Request<Incoming>) -> usize {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len());
    request.method().as_str().len() + target + headers.sum::<usize>()
}

/// What the HTTP library answers to a head that does not fit its buffer, in [`unreadable`]'s words. When a
/// read brings more than the buffer should hold, the library takes a head that is somewhat longer.
fn head_too_long() -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Serves the requests of one connection: each gets its source, and the place learns what is done.
fn service(
    router: Router,
    place: Place,
    peer: IpAddr,
    callers: Callers,
) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> {
    let router = TowerToHyperService::new(router);
    service_fn(move |request: Request<Incoming>| {
        let (router, place, callers) = (router.clone(), place.clone(), callers.clone());
        async move {
            if !place.work() {
                // Another connection has taken the place: this one ends.
                std::future::pending::<()>().await;
            }
            if head_bytes(&request) > HEAD_BYTES_MAX {
                place.answer();
                return Ok(head_too_long());
            }
            let mut request = request.map(|body| WatchedBody::new(body, place.clone()));
            let Caller { source, share } = callers.caller(peer, request.headers());
            request.extensions_mut().insert(source);
            if let Err(crowded) = share {
                request.extensions_mut().insert(crowded);
            }
            let mut response = router.call(request).await;
            drop(share);
            place.answer();
            if place.is_large()
                && let Ok(response) = &mut response
            {
                // The buffer ends with the answer. What the client has sent after it is drained.
                place.set_sending(true);
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            response
        }
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_kernel_does_not_wait_longer_than_the_service_for_a_client_that_is_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let limits = ServerLimits { write_timeout: Duration::from_secs(7), ..ServerLimits::default() };
        let (stream, _) = accept(&listener, &limits).await.unwrap();
        let timeout = socket2::SockRef::from(&stream).tcp_user_timeout().unwrap();
        assert_eq!(timeout, Some(limits.write_timeout));
    }
}
