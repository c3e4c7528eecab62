//! Opens connections, to the given addresses alone.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::Uri;
use http::uri::Scheme;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::connection::Stream;
use super::{AttemptFault, Failure, SendError};
use crate::guard::{Guard, LocateFault};

/// How long an address may take while there is another one to try: a dead one must not use up the time limit.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Knows the addresses that a connection may go to.
#[async_trait]
pub(crate) trait Locate: Send + Sync + 'static {
    /// The addresses; the connector tries them one after the other.
    async fn addresses(&self, uri: &Uri) -> Result<Vec<SocketAddr>, Failure>;
}

/// Gives judged addresses alone: each new connection needs a new verdict.
#[async_trait]
impl Locate for Guard {
    async fn addresses(&self, uri: &Uri) -> Result<Vec<SocketAddr>, Failure> {
        // The rest of the URL says nothing of where it is, and is longer here than it was written: its
        // characters are encoded.
        let (scheme, authority) = (uri.scheme_str().unwrap_or_default(), uri.authority());
        let origin = format!("{scheme}://{}/", authority.map_or("", http::uri::Authority::as_str));
        match self.locate(&origin).await {
            Ok(target) => Ok(target.socket_addresses().collect()),
            Err(LocateFault::Url(fault)) => Err(Failure::Theirs(fault.into())),
            Err(LocateFault::ResolverAway) => Err(Failure::Ours(SendError::Resolver)),
        }
    }
}

/// Opens connections to located addresses. Every connection goes through it, whether the host is a name or an
/// address.
pub(super) struct Connector {
    locate: Box<dyn Locate>,
    tls: TlsConnector,
}

impl Connector {
    pub(super) fn new(locate: impl Locate, tls: ClientConfig) -> Connector {
        Connector { locate: Box::new(locate), tls: Arc::new(tls).into() }
    }

    /// Connects to the host of the URI, with TLS if its scheme is https.
    pub(super) async fn connect(&self, uri: &Uri) -> Result<Box<dyn Stream>, Failure> {
        let stream = connect_first(self.locate.addresses(uri).await?).await?;
        if uri.scheme() != Some(&Scheme::HTTPS) {
            return Ok(Box::new(stream));
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host).map_err(|_| Failure::Theirs(AttemptFault::InvalidUrl))?;
        match self.tls.connect(name, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(fault) => Err(Failure::of_handshake(&fault)),
        }
    }
}

/// The first of the addresses that takes a connection.
async fn connect_first(addresses: Vec<SocketAddr>) -> Result<TcpStream, Failure> {
    let mut last = Failure::Theirs(AttemptFault::Connect(io::ErrorKind::AddrNotAvailable));
    let mut is_answered = false;
    let mut addresses = addresses.into_iter();
    while let Some(address) = addresses.next() {
        let connecting = TcpStream::connect(address);
        let connected = if addresses.len() == 0 {
            connecting.await
        } else {
            let late = |_| Err(io::ErrorKind::TimedOut.into());
            timeout(CONNECT_TIMEOUT, connecting).await.unwrap_or_else(late)
        };
        // A notification is one small write: waiting to fill a packet would only delay it.
        match connected.and_then(|stream| stream.set_nodelay(true).map(|()| stream)) {
            Ok(stream) => return Ok(stream),
            Err(fault) => match Failure::of_connecting(address.ip(), &fault) {
                // What one address said stands, whatever we lack for the next.
                Failure::Ours(_) if is_answered => break,
                ours @ Failure::Ours(_) => return Err(ours),
                theirs @ Failure::Theirs(_) => (last, is_answered) = (theirs, true),
            },
        }
    }
    Err(last)
}
