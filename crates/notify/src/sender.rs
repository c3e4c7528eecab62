//! One delivery attempt: over pooled connections to addresses that the guard has checked, within a time
//! limit, whatever the endpoint does.
//!
//! The sender follows no redirects, decompresses no bodies and uses no proxies of the environment: each would
//! lead somewhere that the guard has not judged, or cost more than the limits allow.
//!
//! What goes wrong on our side is no attempt: [`SendError`] says so by its type, and whoever counts attempts
//! cannot take one for the other.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::Uri;
use lru::LruCache;

use crate::guard::{Guard, UrlFault};
use crate::notification::Notification;

mod client;
mod connection;
mod connector;
mod fault;
mod pool;
mod tls;

pub(crate) use client::HttpClient;
pub(crate) use connector::Locate;
use fault::KEPT_CONNECTION;
pub use fault::{AttemptFault, FAULT_CAUSES, SendError};
pub(crate) use fault::{Failure, count_fault};

/// What came of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The status, if there was a response.
    pub response_status: Option<u16>,
    /// What went wrong; `None` when the endpoint answered with 2xx in time.
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

/// Carries a notification to an endpoint: over the network, or in a simulation.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Makes one attempt, and always returns within its time limit. An error means that we could not make it.
    async fn attempt(&self, url: &str, notification: Notification) -> Result<Attempt, SendError>;
}

/// A sender that cannot be built: the extra certificates are malformed.
#[derive(Debug, thiserror::Error)]
#[error("not a certificate: {0}")]
pub struct SenderFault(String);

impl From<rustls::Error> for SenderFault {
    fn from(fault: rustls::Error) -> SenderFault {
        SenderFault(tls::words(&fault))
    }
}

/// URLs whose verdict is kept.
const JUDGED_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(999);

/// Sends over the network.
pub struct Sender {
    client: HttpClient,
    guard: Guard,
    /// URLs that may be called. This part of the verdict depends on nothing but the text and the policy, and
    /// most attempts go to a URL that one before them went to.
    judged: Mutex<LruCache<String, Uri>>,
}

impl Sender {
    /// A sender that connects through the guard, and gives each attempt the given time in all. It trusts the
    /// web's certification authorities and the certificates in the given PEM text.
    pub fn new(guard: Guard, timeout: Duration, extra_roots_pem: &[u8]) -> Result<Sender, SenderFault> {
        let client = HttpClient::new(guard.clone(), timeout, extra_roots_pem)?;
        Ok(Sender { client, guard, judged: Mutex::new(LruCache::new(JUDGED_MAX)) })
    }

    /// The URL as the client takes it, if the guard lets it pass.
    fn uri(&self, url: &str) -> Result<Uri, UrlFault> {
        // Nothing panics while it is locked.
        let judged = || self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(uri) = judged().get(url) {
            return Ok(uri.clone());
        }
        let uri = self.guard.uri(url)?;
        judged().put(url.to_owned(), uri.clone());
        Ok(uri)
    }
}

#[async_trait]
impl Transport for Sender {
    async fn attempt(&self, url: &str, notification: Notification) -> Result<Attempt, SendError> {
        match self.uri(url) {
            Ok(uri) => self.client.post(uri, notification.headers, notification.body).await,
            Err(fault) => Ok(Attempt::failed(None, fault.into())),
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
