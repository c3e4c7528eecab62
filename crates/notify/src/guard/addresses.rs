//! Which addresses are public.
//!
//! For IPv4 the table lists the blocks that are not public. For IPv6 only the block of global unicast
//! addresses can be public, so mapped, compatible and NAT64 forms, unique and link-local addresses, multicast
//! and blocks reserved in the future are refused without being listed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// IPv4 blocks that are not public.
const REFUSED_V4: &[Ipv4Net] = &[
    v4([0, 0, 0, 0], 8),        // "this network"; Linux connects 0.0.0.0 to the local host
    v4([10, 0, 0, 0], 8),       // private, RFC 1918
    v4([100, 64, 0, 0], 10),    // carrier-grade NAT, RFC 6598; Alibaba's metadata service
    v4([127, 0, 0, 0], 8),      // loopback
    v4([168, 63, 129, 16], 32), // Azure's WireServer, which looks public and is in no registry
    v4([169, 254, 0, 0], 16),   // link-local; the metadata services of most clouds
    v4([172, 16, 0, 0], 12),    // private, RFC 1918
    v4([192, 0, 0, 0], 24),     // IETF protocol assignments; Oracle's metadata service
    v4([192, 0, 2, 0], 24),     // documentation, TEST-NET-1
    v4([192, 31, 196, 0], 24),  // AS112 anycast sink
    v4([192, 52, 193, 0], 24),  // AMT relay anycast
    v4([192, 88, 99, 0], 24),   // 6to4 relay anycast, deprecated
    v4([192, 168, 0, 0], 16),   // private, RFC 1918
    v4([192, 175, 48, 0], 24),  // AS112 anycast sink
    v4([198, 18, 0, 0], 15),    // benchmarking
    v4([198, 51, 100, 0], 24),  // documentation, TEST-NET-2
    v4([203, 0, 113, 0], 24),   // documentation, TEST-NET-3
    v4([224, 0, 0, 0], 4),      // multicast
    v4([240, 0, 0, 0], 4),      // reserved, routed inside some clouds; broadcast
];

/// The block of IPv6 global unicast addresses.
const GLOBAL_V6: Ipv6Net = v6([0x2000, 0, 0], 3);

/// Blocks inside [`GLOBAL_V6`] that are not public.
const REFUSED_V6: &[Ipv6Net] = &[
    v6([0x2001, 0, 0], 23),      // IETF protocol assignments; Teredo, benchmarking, ORCHID
    v6([0x2001, 0x0db8, 0], 32), // documentation
    v6([0x2002, 0, 0], 16),      // 6to4, which carries any IPv4 address
    v6([0x2620, 0x004f, 0x8000], 48), // AS112 anycast sink
    v6([0x3fff, 0, 0], 20),      // documentation, RFC 9637
];

/// Whether the address is public: everyone on the internet can reach it.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !REFUSED_V4.iter().any(|block| block.contains(&address)),
        IpAddr::V6(address) => {
            GLOBAL_V6.contains(&address) && !REFUSED_V6.iter().any(|block| block.contains(&address))
        }
    }
}

const fn v4([a, b, c, d]: [u8; 4], prefix_length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix_length)
}

/// The first three groups are enough: no prefix in the tables is longer than 48 bits.
const fn v6([a, b, c]: [u16; 3], prefix_length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), prefix_length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_written_with_its_first_address() {
        assert!(REFUSED_V4.iter().all(|block| block.network() == block.addr()));
        assert!(REFUSED_V6.iter().all(|block| block.network() == block.addr()));
        assert!(REFUSED_V6.iter().all(|block| GLOBAL_V6.contains(block)));
    }

    #[test]
    fn forms_that_carry_an_ipv4_address_are_not_public() {
        for text in
            ["::ffff:8.8.8.8", "::8.8.8.8", "64:ff9b::8.8.8.8", "64:ff9b:1::8.8.8.8", "2002:808:808::1"]
        {
            let address = text.parse().expect("an address");
            assert!(!is_public(address), "{text}");
        }
    }
}
