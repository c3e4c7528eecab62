//! One delivery attempt: over pooled connections that the guard opened, within its time, whatever the other
//! side does.
//!
//! Redirects are not followed, bodies are not decompressed, proxies of the environment are not used: each
//! would lead somewhere that the guard has not judged, or cost more than it was asked for.

use std::time::Duration;

use async_trait::async_trait;

use crate::guard::{Guard, UrlFault};
use crate::notification::Notification;

mod client;
mod connector;
mod fault;

pub(crate) use client::HttpClient;
pub(crate) use connector::Locate;
pub use fault::AttemptFault;

/// What came of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The status, if there was a response.
    pub response_status: Option<u16>,
    /// What went wrong; `None` when it was answered with 2xx in time.
    pub fault: Option<AttemptFault>,
}

impl Attempt {
    /// Whether the endpoint answered with 2xx in time.
    #[must_use]
    pub fn is_delivered(&self) -> bool {
        self.fault.is_none()
    }

    fn failed(response_status: Option<u16>, fault: AttemptFault) -> Attempt {
        Attempt { response_status, fault: Some(fault) }
    }
}

/// Who carries a notification to an endpoint: the network, or what a simulation puts in its place.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Makes one attempt, and always comes back within its time.
    async fn attempt(&self, url: &str, notification: Notification) -> Attempt;
}

/// A sender that cannot be made: its certificates are none.
#[derive(Debug, thiserror::Error)]
#[error("not a certificate: {0}")]
pub struct SenderFault(String);

impl From<rustls::Error> for SenderFault {
    fn from(fault: rustls::Error) -> SenderFault {
        SenderFault(fault.to_string())
    }
}

/// The network.
pub struct Sender {
    client: HttpClient,
    guard: Guard,
}

impl Sender {
    /// A sender that connects through the guard and gives each attempt the given time, all of it. It trusts
    /// the web's certification authorities and the certificates in the given PEM text.
    pub fn new(guard: Guard, timeout: Duration, extra_roots_pem: &[u8]) -> Result<Sender, SenderFault> {
        Ok(Sender { client: HttpClient::new(guard.clone(), timeout, extra_roots_pem)?, guard })
    }
}

#[async_trait]
impl Transport for Sender {
    async fn attempt(&self, url: &str, notification: Notification) -> Attempt {
        match self.guard.uri(url) {
            Ok(uri) => self.client.post(uri, notification.headers, notification.body).await,
            Err(fault) => Attempt::failed(None, fault.into()),
        }
    }
}

impl From<UrlFault> for AttemptFault {
    fn from(fault: UrlFault) -> AttemptFault {
        match fault {
            UrlFault::InvalidUrl => AttemptFault::InvalidUrl,
            UrlFault::UnsafeUrl => AttemptFault::UnsafeAddress,
            UrlFault::UnresolvableHost => AttemptFault::Dns,
        }
    }
}
