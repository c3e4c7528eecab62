//! Every reader of a request's head on any bytes, and on texts near to what it accepts. None panics; what is
//! accepted is in its range.
//!
//! The bodies are read by the domain, whose `tests/fuzz.rs` does the same with a corpus; URLs by the guard,
//! whose properties are in `settle-notify`.

use std::net::{IpAddr, Ipv4Addr};

use axum::http::{HeaderMap, HeaderValue, header};
use proptest::prelude::*;
use settle_domain::credential::CredentialKind;
use settle_domain::page::{LIMIT_MAX, OFFSET_MAX};

use super::bearer::bearer;
use super::query::{Paging, Parameters};
use super::source::{Proxies, Source};
use crate::language::Messages;

const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

/// Pieces that the readers know, in any order, or any text.
fn any_text() -> impl Strategy<Value = String> {
    let pieces = [
        "limit",
        "offset",
        "status",
        "=",
        "&",
        "%",
        "%2",
        "%00",
        "%C3%28",
        "+",
        "0",
        "1",
        "200",
        "10000",
        "-1",
        "4294967296",
        "１",
        "10.0.0.1",
        "192.0.2.7",
        "[2001:db8::1]",
        ":443",
        ",",
        " ",
        ";",
        "q=0",
        "en",
        "pt-BR",
        "*",
        "Bearer",
        "sk_",
        "op_",
        "00ff",
        "\t",
        "é",
    ];
    let soup = prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..12);
    prop_oneof![3 => soup.prop_map(|pieces| pieces.concat()), 1 => any::<String>()]
}

fn headers(name: &header::HeaderName, texts: &[String]) -> HeaderMap {
    let values = texts.iter().filter_map(|text| HeaderValue::from_bytes(text.as_bytes()).ok());
    values.map(|value| (name.clone(), value)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn a_page_is_in_its_range_or_every_fault_is_named(query in any_text()) {
        let mut faults = Vec::new();
        match Paging::parse(&Parameters::new(Some(&query)), &mut faults) {
            Some(page) => {
                prop_assert!((1..=LIMIT_MAX).contains(&page.limit()) && page.offset() <= OFFSET_MAX);
                prop_assert!(faults.is_empty());
            }
            None => prop_assert!(!faults.is_empty()),
        }
    }

    #[test]
    fn a_credential_is_what_stands_in_the_one_header(texts in prop::collection::vec(any_text(), 0..3)) {
        let headers = headers(&header::AUTHORIZATION, &texts);
        if let Ok(credential) = bearer(CredentialKind::ApiKey, &headers) {
            prop_assert_eq!(headers.len(), 1);
            prop_assert!(texts.iter().any(|text| text.ends_with(credential.expose())));
        }
    }

    #[test]
    fn a_source_is_the_peer_unless_a_proxy_names_another(texts in prop::collection::vec(any_text(), 0..3)) {
        let headers = headers(&header::HeaderName::from_static("x-forwarded-for"), &texts);
        let proxies = Proxies::new(&["10.0.0.0/8".parse().expect("a network")]);
        let stranger = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));
        prop_assert_eq!(proxies.origin(stranger, &headers).source, Source::of(stranger));
        let source = proxies.origin(PROXY, &headers).source.to_string();
        prop_assert!(source == PROXY.to_string() || texts.iter().any(|text| !text.is_empty()), "{}", source);
    }

    #[test]
    fn every_language_header_leads_to_one_of_ours(text in any_text()) {
        let messages = Messages::built_in().expect("they are built in");
        let tag = messages.negotiate(Some(&text)).tag();
        prop_assert!(["en", "pt-BR", "es", "de"].contains(&tag), "{}", tag);
    }
}
