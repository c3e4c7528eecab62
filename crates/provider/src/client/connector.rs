//! Opens connections to a provider.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::connection::Stream;
use super::endpoint::Endpoint;
use crate::seen::NotSentFault;

/// How long an address may take while there is another one to try: a dead one must not use up the time limit.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Most characters kept of a TLS error: the other side writes part of it.
const TLS_CHARACTERS_MAX: usize = 200;

/// Extra certificates that are not certificates.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a certificate: {0}")]
pub struct RootsFault(String);

pub(super) struct Connector {
    tls: TlsConnector,
}

impl Connector {
    /// Trusts the web's certification authorities and the certificates in the given PEM text.
    pub(super) fn new(extra_roots_pem: &[u8]) -> Result<Connector, RootsFault> {
        let mut roots: RootCertStore = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
        for certificate in CertificateDer::pem_slice_iter(extra_roots_pem) {
            let certificate = certificate.map_err(|fault| RootsFault(fault.to_string()))?;
            roots.add(certificate).map_err(|fault| RootsFault(fault.to_string()))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|fault| RootsFault(fault.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Connector { tls: Arc::new(tls).into() })
    }

    /// A connection, with TLS if the URL says so.
    pub(super) async fn connect(&self, endpoint: &Endpoint) -> Result<Box<dyn Stream>, NotSentFault> {
        let found = lookup_host((endpoint.host(), endpoint.port())).await;
        let addresses: Vec<SocketAddr> = found.map_err(|_| NotSentFault::Dns)?.collect();
        let stream = connect_first(&addresses).await?;
        if !endpoint.is_tls() {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(endpoint.host().to_owned());
        let name = name.map_err(|fault| NotSentFault::Tls(fault.to_string()))?;
        match self.tls.connect(name, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(fault) => Err(NotSentFault::Tls(tls_text(&fault))),
        }
    }
}

/// The first of the addresses that takes a connection.
async fn connect_first(addresses: &[SocketAddr]) -> Result<TcpStream, NotSentFault> {
    let mut last = NotSentFault::Dns;
    for (index, address) in addresses.iter().enumerate() {
        let connecting = TcpStream::connect(address);
        let connected = if index + 1 == addresses.len() {
            connecting.await
        } else {
            let late = |_| Err(io::ErrorKind::TimedOut.into());
            timeout(CONNECT_TIMEOUT, connecting).await.unwrap_or_else(late)
        };
        // A request is one small write: waiting to fill a packet would only delay it.
        match connected.and_then(|stream| stream.set_nodelay(true).map(|()| stream)) {
            Ok(stream) => return Ok(stream),
            Err(fault) => last = NotSentFault::Connect(fault.kind()),
        }
    }
    Err(last)
}

/// What TLS says of a fault; an I/O error wraps it.
fn tls_text(fault: &io::Error) -> String {
    let text =
        fault.get_ref().map_or_else(|| fault.to_string(), |wrapped| (wrapped as &dyn Error).to_string());
    text.chars().take(TLS_CHARACTERS_MAX).collect()
}
