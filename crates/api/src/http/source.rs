//! Where a request comes from: the address that limits count by.
//!
//! Behind a proxy every connection has the proxy's address. When the settings name the proxy's network, the
//! service takes the caller's address from the last entry of `X-Forwarded-For` that is not a proxy's: each
//! proxy appends the address it was called from, and what stands further left is the caller's own word.

use std::fmt::{self, Display};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The bits of an IPv6 address that name a network: one subscriber has at least all addresses of one.
const NETWORK_V6: u128 = !0 << 64;

/// An IPv4 address, or the network of an IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source(IpAddr);

impl Source {
    /// The source that an address belongs to.
    #[must_use]
    pub fn of(address: IpAddr) -> Source {
        Source(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK_V6).into(),
            address @ IpAddr::V4(_) => address,
        })
    }

    /// Where the request comes from, as its listener found.
    #[must_use]
    pub fn of_request(parts: &Parts) -> Source {
        parts.extensions.get().copied().unwrap_or_default()
    }
}

/// The source of a request that came without a connection, as in a test of the router alone.
impl Default for Source {
    fn default() -> Source {
        Source(Ipv4Addr::UNSPECIFIED.into())
    }
}

impl Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, formatter)
    }
}

/// Where a request comes from, and whether a proxy forwards it for somebody who is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The source.
    pub source: Source,
    /// Whether a proxy names it.
    pub is_forwarded: bool,
}

/// The networks of the proxies whose `X-Forwarded-For` the service believes. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Proxies(Arc<[IpNet]>);

impl Proxies {
    /// The proxies in these networks.
    #[must_use]
    pub fn new(networks: &[IpNet]) -> Proxies {
        Proxies(networks.into())
    }

    /// Whether the address is a proxy's.
    #[must_use]
    pub fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Where a request comes from that arrived on a connection of this peer.
    #[must_use]
    pub fn origin(&self, peer: IpAddr, headers: &HeaderMap) -> Origin {
        if !self.contain(peer) {
            return Origin { source: Source::of(peer), is_forwarded: false };
        }
        let lines = headers.get_all(FORWARDED_FOR).into_iter().rev();
        let entries = lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
        let mut nearest = peer;
        for entry in entries {
            // What does not parse is nobody's address: the source is whoever sent it.
            let Some(address) = parse(entry.trim()) else { break };
            nearest = address;
            if !self.contain(address) {
                break;
            }
        }
        Origin { source: Source::of(nearest), is_forwarded: !self.contain(nearest) }
    }
}

/// An address as proxies write it: alone, or with a port.
fn parse(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    let in_brackets = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    text.parse().ok().or_else(with_port).or_else(in_brackets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn origin(peer: &str, forwarded: &[&'static str]) -> Origin {
        let proxies = Proxies::new(&["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()]);
        let lines = forwarded.iter().map(|line| (FORWARDED_FOR, HeaderValue::from_static(line)));
        proxies.origin(peer.parse().unwrap(), &lines.collect())
    }

    fn source(peer: &str, forwarded: &[&'static str]) -> String {
        origin(peer, forwarded).source.to_string()
    }

    #[test]
    fn a_proxy_forwards_for_others_and_asks_on_its_own_account() {
        assert!(origin("10.1.1.1", &["198.51.100.1"]).is_forwarded);
        for (peer, forwarded) in
            [("10.1.1.1", &[][..]), ("10.1.1.1", &["10.2.3.4"]), ("192.0.2.7", &["198.51.100.1"])]
        {
            assert!(!origin(peer, forwarded).is_forwarded, "{peer} {forwarded:?}");
        }
    }

    #[test]
    fn a_stranger_cannot_choose_its_source() {
        assert_eq!(source("192.0.2.7", &["198.51.100.1"]), "192.0.2.7");
        assert_eq!(source("192.0.2.7", &[]), "192.0.2.7");
    }

    #[test]
    fn behind_proxies_the_last_address_that_is_not_theirs_counts() {
        for forwarded in [
            &["198.51.100.1"][..],
            &["203.0.113.9, 198.51.100.1"],
            &["203.0.113.9", "198.51.100.1, 10.2.3.4"],
            &["garbage, 198.51.100.1:4711,10.2.3.4"],
            &["::ffff:198.51.100.1"],
        ] {
            assert_eq!(source("10.1.1.1", forwarded), "198.51.100.1", "{forwarded:?}");
        }
        assert_eq!(source("fd00::1", &["[2001:db8:1:2:3::4]:443"]), "2001:db8:1:2::");
    }

    #[test]
    fn without_a_believable_address_the_proxy_is_the_source() {
        for forwarded in [&[][..], &[""], &["unknown"], &["198.51.100.1, unknown"], &["10.2.3.4, unknown"]] {
            assert_eq!(source("10.1.1.1", forwarded), "10.1.1.1", "{forwarded:?}");
        }
        assert_eq!(source("10.1.1.1", &["10.2.3.4"]), "10.2.3.4");
    }

    #[test]
    fn a_network_of_ipv6_is_one_source_and_mapped_addresses_are_ipv4() {
        let of = |text: &str| Source::of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::2:3:4:5"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.7"), of("192.0.2.7"));
    }
}
