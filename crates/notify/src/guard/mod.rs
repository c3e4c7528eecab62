//! The address guard: one verdict a URL, and the addresses a connector may use.
//!
//! The verdict is reached in four steps, and the first that objects names the fault:
//!
//! 1. the text itself ([`UrlFault::InvalidUrl`]): length, characters, scheme, authority, host syntax;
//! 2. what the text names ([`UrlFault::UnsafeUrl`]), still without asking the DNS: disguised address
//!    literals, private names, ports;
//! 3. the DNS ([`UrlFault::UnresolvableHost`]): no address, or no complete answer in time;
//! 4. every single address ([`UrlFault::UnsafeUrl`]), of a literal as of a name: one that is not public
//!    refuses the whole host.
//!
//! What is not here: connecting. The [`Target`] carries what a connector needs and nothing it could misuse.

mod addresses;
mod characters;
mod names;
mod ports;
mod resolver;
mod scheme;
#[cfg(feature = "testing")]
pub mod stub;
mod syntax;
mod target;
mod written;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use http::Uri;
use ipnet::IpNet;

pub use addresses::is_public;
pub use ports::is_allowed as is_port_allowed;
pub use resolver::{DnsResolver, RESOLVE_TIMEOUT};
pub use scheme::Scheme;
pub use target::{ADDRESSES_MAX, Target};
pub use written::URL_BYTES_MAX;

use syntax::Host;

/// Why a URL is refused; the three codes a merchant sees on the field.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, thiserror::Error)]
pub enum UrlFault {
    /// The text is not an address that could be called at all.
    #[error("the URL is not a well-formed https address")]
    InvalidUrl,
    /// The URL leads, or may lead, to a place that is not public.
    #[error("the URL leads to an address, a name or a port that is not allowed")]
    UnsafeUrl,
    /// The DNS knows no address of the host, or did not say so in time.
    #[error("the host of the URL has no address")]
    UnresolvableHost,
}

/// What the guard lets through besides public addresses over https; the default is nothing.
///
/// Both settings are for development. Neither opens a name: `localhost`, a single label or `*.internal` stay
/// refused whatever the networks say, because what such a name means depends on who resolves it. Write the
/// address instead.
#[derive(Clone, Debug, Default)]
pub struct GuardPolicy {
    /// Networks whose addresses pass although they are not public, as literals and as answers of the DNS.
    pub allow_networks: Vec<IpNet>,
    /// Whether `http://` is accepted too, and with it its default port 80. All other rules stay.
    pub allow_http: bool,
}

impl GuardPolicy {
    /// Whether a connection to this address may be opened.
    #[must_use]
    pub fn permits(&self, address: IpAddr) -> bool {
        is_public(address) || self.allow_networks.iter().any(|network| network.contains(&address))
    }
}

/// Why a name has no addresses to check.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ResolveFault {
    /// The DNS answered: no such name, or a name without A and AAAA records.
    #[error("no A or AAAA record")]
    NoRecords,
    /// No complete answer within the limit.
    #[error("no answer in time")]
    TimedOut,
    /// The DNS could not be asked or answered with an error; the text is for the log.
    #[error("DNS failure: {0}")]
    Failed(String),
}

/// Who turns a name into addresses.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// All addresses of an absolute name, given in ASCII without its trailing dot.
    ///
    /// The answer must be complete: an implementation that knows only some of the addresses returns a fault,
    /// since an address that was not seen was not checked. It also keeps a limit of its own on the time.
    async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, ResolveFault>;
}

/// The guard itself; cheap to clone.
#[derive(Clone)]
pub struct Guard {
    policy: Arc<GuardPolicy>,
    resolver: Arc<dyn Resolve>,
}

impl Guard {
    /// A guard that follows this policy and asks this resolver.
    #[must_use]
    pub fn new(policy: GuardPolicy, resolver: Arc<dyn Resolve>) -> Self {
        Self { policy: Arc::new(policy), resolver }
    }

    /// The policy this guard follows.
    #[must_use]
    pub fn policy(&self) -> &GuardPolicy {
        &self.policy
    }

    /// The verdict on a URL as the merchant sent it.
    ///
    /// Asked when the endpoint is set and again before every attempt: what a name resolves to may have
    /// changed in between, and a target is good for the attempt it was made for.
    pub async fn judge(&self, url: &str) -> Result<Target, UrlFault> {
        let candidate = syntax::examine(url, self.policy.allow_http)?;
        let addresses = match &candidate.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.resolve(name).await?,
        };
        Target::admit(candidate, addresses, &self.policy)
    }

    /// The URL in the form an HTTP client takes, judged as far as that can be done without asking the DNS.
    ///
    /// The rest of the verdict is the connector's, on every connection it opens.
    pub fn uri(&self, url: &str) -> Result<Uri, UrlFault> {
        let candidate = syntax::examine(url, self.policy.allow_http)?;
        let uri = Uri::builder()
            .scheme(candidate.scheme.as_str())
            .authority(candidate.authority())
            .path_and_query(candidate.path_and_query());
        uri.build().map_err(|_| UrlFault::InvalidUrl)
    }

    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, UrlFault> {
        if names::is_unresolvable(name) {
            return Err(UrlFault::UnresolvableHost);
        }
        self.resolver.addresses(name).await.map_err(|fault| {
            tracing::debug!(name, %fault, "the host of an endpoint does not resolve");
            UrlFault::UnresolvableHost
        })
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Guard").field("policy", &self.policy).finish_non_exhaustive()
    }
}
