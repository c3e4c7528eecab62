//! The guard as a connector: it judges, and connects to an address it has just judged.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use super::AttemptFault;
use crate::guard::Guard;

/// Opens connections to judged addresses alone. Name or literal, every connection takes this one way.
#[derive(Debug, Clone)]
pub(super) struct GuardedConnector {
    guard: Guard,
}

impl GuardedConnector {
    pub(super) fn new(guard: Guard) -> GuardedConnector {
        GuardedConnector { guard }
    }
}

impl Service<Uri> for GuardedConnector {
    type Response = TokioIo<TcpStream>;
    type Error = AttemptFault;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, AttemptFault>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), AttemptFault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let guard = self.guard.clone();
        Box::pin(async move {
            let target = guard.judge(&uri.to_string()).await?;
            let mut last = AttemptFault::Connect(io::ErrorKind::AddrNotAvailable);
            for address in target.socket_addresses() {
                match TcpStream::connect(address).await {
                    Ok(stream) => {
                        // A notification is one small write: waiting to fill a packet only delays it.
                        stream.set_nodelay(true).map_err(|fault| AttemptFault::Connect(fault.kind()))?;
                        return Ok(TokioIo::new(stream));
                    }
                    Err(fault) => last = AttemptFault::Connect(fault.kind()),
                }
            }
            Err(last)
        })
    }
}
