//! The guard as a connector: it judges, and connects to an address it has just judged.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service;

use super::AttemptFault;
use crate::guard::Guard;

/// How long an address may take while there is another one to try: a dead one must not use up all the time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

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
            let mut addresses = target.socket_addresses();
            while let Some(address) = addresses.next() {
                let connecting = TcpStream::connect(address);
                let connected = if addresses.len() == 0 {
                    connecting.await
                } else {
                    let late = |_| Err(io::ErrorKind::TimedOut.into());
                    timeout(CONNECT_TIMEOUT, connecting).await.unwrap_or_else(late)
                };
                match connected {
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
