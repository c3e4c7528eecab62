//! Connections: how many, and how one is cut.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Connections at once.
const CONNECTIONS_MAX: usize = 1_024;
/// How long a connection may be without a request: longer than any client keeps one.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);
/// How long the listener waits after the kernel refused it a connection for want of resources.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Marks a response that is not to be sent: the connection ends instead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut;

/// The end of a connection that was cut on purpose.
#[derive(Debug, thiserror::Error)]
#[error("the connection was cut on purpose")]
struct CutOff;

/// Serves until `stop` ends. What is under way then is cut off, as a crash would.
pub(crate) async fn serve(listener: TcpListener, router: Router, stop: impl Future<Output = ()>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = tokio::task::JoinSet::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(IDLE_TIMEOUT);
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            Some(_) = connections.join_next() => continue,
            () = &mut stop => return,
        };
        let Some((stream, place)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let connection = http.serve_connection(TokioIo::new(stream), service(router.clone()));
        connections.spawn(async move {
            if let Err(fault) = connection.await {
                tracing::debug!(%fault, "a connection ended early");
            }
            drop(place);
        });
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    let (stream, _) = listener.accept().await.ok()?;
    // Answers are small and written whole: waiting to fill a packet would only delay them.
    stream.set_nodelay(true).ok()?;
    Some((stream, place))
}

fn service(
    router: Router,
) -> impl Service<Request<Incoming>, Response = Response, Error = CutOff, Future: Send> {
    let router = TowerToHyperService::new(router);
    service_fn(move |request: Request<Incoming>| {
        let answering = router.call(request);
        async move {
            let answered: Result<Response, Infallible> = answering.await;
            let Ok(response) = answered;
            if response.extensions().get::<Cut>().is_some() { Err(CutOff) } else { Ok(response) }
        }
    })
}
