//! Properties that hold for all addresses and all texts.
//!
//! The blocked ranges are written here a second time, as the decision states them and not as the code does,
//! so that a mistake in either place shows.

#![expect(clippy::expect_used, reason = "in a test a panic is the message")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use proptest::prelude::*;
use settle_notify::guard::stub::StubResolver;
use settle_notify::guard::{Guard, GuardPolicy, Target, UrlFault, is_public};

const REFUSED_V4: &str = "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 \
    172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 \
    192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4";

const GLOBAL_V6: &str = "2000::/3";

const REFUSED_V6: &str = "2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20";

fn blocks<Block: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> Vec<Block> {
    text.split_whitespace().map(|block| block.parse().expect("a block")).collect()
}

/// The decision, read literally.
fn is_public_by_decision(address: IpAddr) -> bool {
    let is_in = |text| blocks::<IpNet>(text).iter().any(|block| block.contains(&address));
    match address {
        IpAddr::V4(_) => !is_in(REFUSED_V4),
        IpAddr::V6(_) => is_in(GLOBAL_V6) && !is_in(REFUSED_V6),
    }
}

/// First and last address of every block, and the addresses just outside.
fn edges() -> Vec<IpAddr> {
    let v4 = blocks::<Ipv4Net>(REFUSED_V4).into_iter().flat_map(|block| {
        let (first, last) = (u32::from(block.network()), u32::from(block.broadcast()));
        [first.wrapping_sub(1), first, last, last.wrapping_add(1)]
            .map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)))
    });
    let v6_blocks = [blocks::<Ipv6Net>(GLOBAL_V6), blocks::<Ipv6Net>(REFUSED_V6)].concat();
    let v6 = v6_blocks.into_iter().flat_map(|block| {
        let (first, last) = (u128::from(block.network()), u128::from(block.broadcast()));
        [first - 1, first, last, last + 1].map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)))
    });
    v4.chain(v6).collect()
}

#[test]
fn blocks_end_exactly_where_the_decision_says() {
    let edges = edges();
    assert_eq!(edges.len(), 4 * (19 + 6));
    for address in edges {
        assert_eq!(is_public(address), is_public_by_decision(address), "{address}");
    }
    // The neighbours of a block that touches no other, written out.
    for public in ["9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0", "223.255.255.255", "2003::"] {
        assert!(is_public(public.parse().expect("an address")), "{public}");
    }
}

/// Any address, most of them in or near a block of the decision.
fn any_address() -> impl Strategy<Value = IpAddr> {
    let refused_v4 =
        (prop::sample::select(blocks::<Ipv4Net>(REFUSED_V4)), any::<u32>()).prop_map(|(block, bits)| {
            IpAddr::V4(Ipv4Addr::from_bits(block.network().to_bits() | bits & block.hostmask().to_bits()))
        });
    let refused_v6 =
        (prop::sample::select(blocks::<Ipv6Net>(REFUSED_V6)), any::<u128>()).prop_map(|(block, bits)| {
            IpAddr::V6(Ipv6Addr::from_bits(block.network().to_bits() | bits & block.hostmask().to_bits()))
        });
    let global_v6 = any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(1 << 125 | bits >> 3)));
    prop_oneof![
        refused_v4,
        refused_v6,
        global_v6,
        prop::sample::select(edges()),
        any::<Ipv4Addr>().prop_map(IpAddr::V4),
        any::<Ipv6Addr>().prop_map(IpAddr::V6),
    ]
}

/// Texts made of pieces of URLs and of attacks on their parsers.
fn any_url() -> impl Strategy<Value = String> {
    let pieces = [
        "https://",
        "HTTPS://",
        "http://",
        "https:",
        "/",
        "//",
        "\\",
        "?",
        "#",
        "@",
        ":",
        "%",
        "%2e",
        "[",
        "]",
        ".",
        "..",
        "-",
        "_",
        "443",
        "8443",
        "0",
        "22",
        "65536",
        "127",
        "127.0.0.1",
        "0x7f",
        "017",
        "8.8.8.8",
        "1",
        "::1",
        "[::1]",
        "[2606:4700::1]",
        "::ffff:8.8.8.8",
        "localhost",
        "example",
        "com",
        ".internal",
        "xn--",
        "ü",
        "☃",
        "\u{ff11}",
        "\u{2460}",
        "\u{3002}",
        "\u{ff0e}",
        "\u{ad}",
        "\u{200d}",
        "\t",
        "\n",
        " ",
        "\0",
        "\u{e000}",
    ];
    let soup = prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..12)
        .prop_map(|pieces| pieces.concat());
    let on_a_good_start = soup.clone().prop_map(|tail| format!("https://example.com{tail}"));
    let literal = any_address().prop_map(|address| match address {
        IpAddr::V4(address) => format!("https://{address}/"),
        IpAddr::V6(address) => format!("https://[{address}]/"),
    });
    prop_oneof![any::<String>(), soup, on_a_good_start, literal]
}

/// The verdict if every name has this answer, and how often the guard asked the DNS.
fn judge(url: &str, answer: Vec<IpAddr>, policy: GuardPolicy) -> (Result<Target, UrlFault>, usize) {
    let resolver = Arc::new(StubResolver::answering(Ok(answer)));
    let guard = Guard::new(policy, resolver.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let verdict = runtime.block_on(guard.judge(url));
    (verdict, resolver.questions().len())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn an_address_is_public_exactly_if_the_decision_says_so(address in any_address()) {
        prop_assert_eq!(is_public(address), is_public_by_decision(address));
    }

    #[test]
    fn no_text_panics_and_what_is_accepted_has_checked_addresses_only(
        url in any_url(),
        answer in prop::collection::vec(any_address(), 0..4),
        allow_http in any::<bool>(),
    ) {
        let policy = GuardPolicy { allow_http, ..GuardPolicy::default() };
        let (verdict, questions) = judge(&url, answer.clone(), policy);
        prop_assert!(questions <= 1);
        match verdict {
            Ok(target) => {
                prop_assert!(!target.addresses().is_empty());
                prop_assert!(target.addresses().iter().all(|address| is_public_by_decision(*address)));
                prop_assert!(questions == 0 || target.addresses() == answer.as_slice());
                prop_assert!(url.to_ascii_lowercase().starts_with(target.scheme().as_str()));
            }
            Err(UrlFault::UnresolvableHost) => prop_assert!(answer.is_empty()),
            Err(UrlFault::InvalidUrl) => prop_assert_eq!(questions, 0),
            Err(UrlFault::UnsafeUrl) => {}
        }
    }

    #[test]
    fn one_private_address_among_public_ones_refuses_the_name(
        answer in prop::collection::vec(any_address(), 1..6),
    ) {
        let (verdict, _) = judge("https://shop.example/", answer.clone(), GuardPolicy::default());
        let all_public = answer.iter().all(|address| is_public_by_decision(*address));
        prop_assert_eq!(verdict.map(|_| ()), if all_public { Ok(()) } else { Err(UrlFault::UnsafeUrl) });
    }

    #[test]
    fn an_address_literal_is_judged_by_its_address(address in any_address()) {
        let url = match address {
            IpAddr::V4(address) => format!("https://{address}/"),
            IpAddr::V6(address) => format!("https://[{address}]/"),
        };
        let (verdict, questions) = judge(&url, Vec::new(), GuardPolicy::default());
        prop_assert_eq!(verdict.is_ok(), is_public_by_decision(address));
        prop_assert_eq!(questions, 0);
    }
}
