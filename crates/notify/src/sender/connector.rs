//! Opens connections, to the given addresses alone.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service;

use super::AttemptFault;
use crate::guard::Guard;

/// How long an address may take while there is another one to try: a dead one must not use up the time limit.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Knows the addresses that a connection may go to.
#[async_trait]
pub(crate) trait Locate: Send + Sync + 'static {
    /// The addresses; the connector tries them one after the other.
    async fn addresses(&self, uri: &Uri) -> Result<Vec<SocketAddr>, AttemptFault>;
}

/// Gives judged addresses alone: each new connection needs a new verdict.
#[async_trait]
impl Locate for Guard {
    async fn addresses(&self, uri: &Uri) -> Result<Vec<SocketAddr>, AttemptFault> {
        let target = self.judge(&uri.to_string()).await?;
        Ok(target.socket_addresses().collect())
    }
}

/// Opens connections to located addresses. Every connection goes through it, whether the host is a name or an
/// address.
#[derive(Clone)]
pub(super) struct Connector {
    locate: Arc<dyn Locate>,
}

impl Connector {
    pub(super) fn new(locate: impl Locate) -> Connector {
        Connector { locate: Arc::new(locate) }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = AttemptFault;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, AttemptFault>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), AttemptFault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let locate = self.locate.clone();
        Box::pin(async move {
            let mut last = AttemptFault::Connect(io::ErrorKind::AddrNotAvailable);
            let mut addresses = locate.addresses(&uri).await?.into_iter();
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
                        // A notification is one small write: waiting to fill a packet would only delay it.
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
