//! The address guard: it judges a URL, and gives the addresses that a connector may use.
//!
//! The guard judges in four steps, and the first that objects names the fault:
//!
//! 1. the text itself ([`UrlFault::InvalidUrl`]): length, characters, scheme, authority, host syntax;
//! 2. what the text names ([`UrlFault::UnsafeUrl`]), still without asking the DNS: disguised address
//!    literals, private names, ports;
//! 3. the DNS ([`UrlFault::UnresolvableHost`]): no address, or no complete answer in time;
//! 4. every single address ([`UrlFault::UnsafeUrl`]), of a literal and of a name alike: one that is not
//!    public refuses the whole host.
//!
//! The guard judges connections, not requests. A notification may use a connection that was opened for an
//! earlier one: it still leads to the address that was checked when it was opened. A new connection needs a
//! new verdict, whatever the verdict on the URL was before.
//!
//! The guard does not connect. A [`Target`] carries what a connector needs, and nothing that it could misuse.

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
pub use resolver::{DnsResolver, PROBE_NAME, RESOLVE_TIMEOUT};
pub use scheme::Scheme;
pub use target::{ADDRESSES_MAX, Target};
pub use written::URL_BYTES_MAX;

use syntax::Host;

/// Why the guard refuses a URL: the three codes that a merchant sees on the field.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, thiserror::Error)]
pub enum UrlFault {
    /// The text is not a URL that the service could call at all.
    #[error("the URL is not a well-formed https address")]
    InvalidUrl,
    /// The URL leads, or may lead, to an address that is not public.
    #[error("the URL leads to an address, a name or a port that is not allowed")]
    UnsafeUrl,
    /// The DNS knows no address of the host, or did not answer in time.
    #[error("the host of the URL has no address")]
    UnresolvableHost,
}

/// Why a connector gets no addresses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LocateFault {
    /// The guard refuses the URL.
    Url(UrlFault),
    /// Our own name servers do not answer: that says nothing about the URL.
    ResolverAway,
}

impl From<UrlFault> for LocateFault {
    fn from(fault: UrlFault) -> Self {
        Self::Url(fault)
    }
}

/// What the guard allows besides public addresses over https; nothing by default.
///
/// All of it is for development.
#[derive(Clone, Debug, Default)]
pub struct GuardPolicy {
    /// Networks whose addresses are allowed although they are not public, as literals and as answers of the
    /// DNS. With one of them private names are asked for too: `localhost`, a single label, `*.internal`. All
    /// their addresses must be in these networks.
    pub allow_networks: Vec<IpNet>,
    /// Whether a merchant may set a name that does not resolve here: it may where the sender runs. Every
    /// connection is judged all the same.
    pub allow_unresolved: bool,
    /// Whether `http://` is allowed too, and with it its default port 80. All other rules stay.
    pub allow_http: bool,
}

impl GuardPolicy {
    /// Whether a connection to this address may be opened.
    #[must_use]
    pub fn permits(&self, address: IpAddr) -> bool {
        is_public(address) || self.opens(address)
    }

    /// Whether it is allowed because the policy says so.
    fn opens(&self, address: IpAddr) -> bool {
        self.allow_networks.iter().any(|network| network.contains(&address))
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
    /// The DNS could not be asked, or answered with an error; the text is for the log.
    #[error("DNS failure: {0}")]
    Failed(String),
}

/// Turns a name into addresses.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// All addresses of an absolute name, given in ASCII without its trailing dot.
    ///
    /// The answer must be complete: an implementation that knows only some of the addresses returns a fault,
    /// because the guard cannot check an address that it leaves out. It also limits its time itself.
    async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, ResolveFault>;

    /// All addresses of a name that has a meaning only here: in a host file, or behind a search domain.
    async fn private_addresses(&self, name: &str) -> Result<Vec<IpAddr>, ResolveFault> {
        self.addresses(name).await
    }

    /// Whether the name servers that we ask answer nothing at all, so that a name without an answer says
    /// nothing about that name. A resolver that cannot tell says no.
    async fn is_away(&self) -> bool {
        false
    }
}

/// The guard. Cheap to clone.
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

    /// Whether a merchant may set this URL.
    pub async fn accept(&self, url: &str) -> Result<(), UrlFault> {
        match self.judge(url).await {
            Err(UrlFault::UnresolvableHost) if self.policy.allow_unresolved => Ok(()),
            verdict => verdict.map(drop),
        }
    }

    /// The verdict on a URL as the merchant sent it.
    pub async fn judge(&self, url: &str) -> Result<Target, UrlFault> {
        let candidate = syntax::examine(url, &self.policy)?;
        let addresses = match &candidate.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.resolve(name).await.map_err(|_| UrlFault::UnresolvableHost)?,
        };
        Target::admit(candidate, addresses, &self.policy)
    }

    /// The same verdict, for a connector that opens a connection: a name may resolve to other addresses by
    /// then. It tells a name without an answer from name servers without one.
    pub async fn locate(&self, url: &str) -> Result<Target, LocateFault> {
        let candidate = syntax::examine(url, &self.policy)?;
        let addresses = match &candidate.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => match self.resolve(name).await {
                Ok(addresses) => addresses,
                Err(ResolveFault::NoRecords) => return Err(UrlFault::UnresolvableHost.into()),
                Err(ResolveFault::TimedOut | ResolveFault::Failed(_)) => {
                    let is_away = self.resolver.is_away().await;
                    return Err(if is_away {
                        LocateFault::ResolverAway
                    } else {
                        UrlFault::UnresolvableHost.into()
                    });
                }
            },
        };
        Ok(Target::admit(candidate, addresses, &self.policy)?)
    }

    /// The URL in the form that an HTTP client takes, judged as far as possible without the DNS.
    ///
    /// The connector asks for the whole verdict on every connection that it opens.
    pub fn uri(&self, url: &str) -> Result<Uri, UrlFault> {
        let candidate = syntax::examine(url, &self.policy)?;
        let uri = Uri::builder()
            .scheme(candidate.scheme.as_str())
            .authority(candidate.authority())
            .path_and_query(candidate.path_and_query());
        uri.build().map_err(|_| UrlFault::InvalidUrl)
    }

    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, ResolveFault> {
        if names::is_unresolvable(name) {
            return Err(ResolveFault::NoRecords);
        }
        let resolved = if names::is_private(name) {
            self.resolver.private_addresses(name).await
        } else {
            self.resolver.addresses(name).await
        };
        resolved.inspect_err(|fault| {
            tracing::debug!(name, %fault, "the host of an endpoint does not resolve");
        })
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Guard").field("policy", &self.policy).finish_non_exhaustive()
    }
}
