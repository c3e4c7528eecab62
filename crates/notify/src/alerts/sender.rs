//! One attempt to post an alert over real HTTP.
//!
//! The guard does not judge the URL; all other limits are those of a delivery attempt.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Uri, header};

use super::AlertUrl;
use crate::sender::{AttemptFault, Failure, HttpClient, Locate, SendError, SenderFault};

/// How long an attempt may take in all.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Why an alert did not arrive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AlertError {
    /// The receiver did not answer with 2xx in time.
    #[error(transparent)]
    Receiver(#[from] AttemptFault),
    /// We could not send it.
    #[error(transparent)]
    Ours(#[from] SendError),
}

/// Carries an alert to operators: over the network, or in a test.
#[async_trait]
pub trait AlertTransport: Send + Sync {
    /// Posts an alert's JSON, and always returns within its time limit. Any answer but 2xx is an error.
    async fn post(&self, body: Vec<u8>) -> Result<(), AlertError>;
}

/// Posts alerts over the network.
pub struct AlertSender {
    client: HttpClient,
    url: AlertUrl,
}

impl AlertSender {
    /// A sender to the given URL that gives each attempt the given time. It trusts the web's certification
    /// authorities and the certificates in the given PEM text.
    pub fn new(url: AlertUrl, timeout: Duration, extra_roots_pem: &[u8]) -> Result<AlertSender, SenderFault> {
        Ok(AlertSender { client: HttpClient::new(SystemNames, timeout, extra_roots_pem)?, url })
    }
}

#[async_trait]
impl AlertTransport for AlertSender {
    async fn post(&self, body: Vec<u8>) -> Result<(), AlertError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let agent = HeaderValue::from_static(concat!("settle/", env!("CARGO_PKG_VERSION")));
        headers.insert(header::USER_AGENT, agent);
        if let Some(authorization) = &self.url.authorization {
            headers.insert(header::AUTHORIZATION, authorization.clone());
        }
        let attempt = self.client.post(self.url.uri.clone(), headers, body).await?;
        Ok(attempt.fault.map_or(Ok(()), Err)?)
    }
}

/// Resolves names as the machine does, so that names of the operator's own network work.
struct SystemNames;

#[async_trait]
impl Locate for SystemNames {
    async fn addresses(&self, uri: &Uri) -> Result<Vec<SocketAddr>, Failure> {
        const HTTP_PORT: u16 = 80;
        const HTTPS_PORT: u16 = 443;
        let default_port = if uri.scheme() == Some(&Scheme::HTTPS) { HTTPS_PORT } else { HTTP_PORT };
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let found = tokio::net::lookup_host((host, uri.port_u16().unwrap_or(default_port))).await;
        found.map(Iterator::collect).map_err(|_: io::Error| Failure::Theirs(AttemptFault::Dns))
    }
}
