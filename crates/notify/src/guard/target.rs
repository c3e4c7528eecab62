//! The result of a good verdict: where to connect, and how to name the peer.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::scheme::Scheme;
use super::syntax::{Candidate, Host};
use super::{GuardPolicy, UrlFault, names};

/// Most addresses of one name that a connector tries, one after the other.
///
/// The guard checks all addresses of an answer, and cuts a long answer only afterwards.
pub const ADDRESSES_MAX: usize = 16;

/// A judged URL with its checked addresses.
///
/// Only the guard makes a target, so each of its addresses has passed. A connector connects to
/// [`Target::socket_addresses`] and never resolves [`Target::host`] again.
#[derive(Clone, Eq, PartialEq)]
pub struct Target {
    candidate: Candidate,
    host: String,
    addresses: Vec<IpAddr>,
}

impl Target {
    /// Checks every address, whether it came from the text or from the DNS.
    pub(super) fn admit(
        candidate: Candidate,
        mut addresses: Vec<IpAddr>,
        policy: &GuardPolicy,
    ) -> Result<Self, UrlFault> {
        if addresses.is_empty() {
            return Err(UrlFault::UnresolvableHost);
        }
        // A private name must not lead outside either: who resolves it elsewhere may get anything.
        let is_private = matches!(&candidate.host, Host::Name(name) if names::is_private(name));
        let is_allowed = |address: &IpAddr| {
            if is_private { policy.opens(*address) } else { policy.permits(*address) }
        };
        if !addresses.iter().all(is_allowed) {
            return Err(UrlFault::UnsafeUrl);
        }
        addresses.truncate(ADDRESSES_MAX);
        let host = match &candidate.host {
            Host::Name(name) => name.clone(),
            Host::Address(address) => address.to_string(),
        };
        Ok(Self { candidate, host, addresses })
    }

    /// The scheme of the URL.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.candidate.scheme
    }

    /// The peer's name for TLS: ASCII, lower case, no trailing dot; an IPv6 address has no brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port to connect to.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.candidate.port
    }

    /// The checked addresses: at least one, at most [`ADDRESSES_MAX`], in the order of the answer.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// The checked addresses with the port. A connector may connect to these alone.
    #[must_use]
    pub fn socket_addresses(&self) -> impl ExactSizeIterator<Item = SocketAddr> + '_ {
        self.addresses.iter().map(|address| SocketAddr::new(*address, self.port()))
    }

    /// The value of the `Host` header: brackets around IPv6, the port only if it is not the scheme's own.
    #[must_use]
    pub fn authority(&self) -> String {
        self.candidate.authority()
    }

    /// The request target: path and query, percent-encoded; at least `/`.
    #[must_use]
    pub fn path_and_query(&self) -> &str {
        self.candidate.path_and_query()
    }
}

/// Leaves out path and query: merchants put tokens there, and debug output ends up in logs.
impl fmt::Debug for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Target")
            .field("scheme", &self.scheme())
            .field("host", &self.host)
            .field("port", &self.port())
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}
