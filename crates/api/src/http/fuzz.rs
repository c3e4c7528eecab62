//! Every reader of a request's head on any bytes, and on texts near to what it accepts. None panics; what is
//! accepted is in its range.
//!
//! The corpus is `tests/data/fuzz_heads.txt`, the text of a query or a header a line; every reader gets every
//! line. Add the text of a bug before you mend it. Bodies are read beside their operations and by the domain,
//! URLs by the guard: each has targets of its own there.

use std::net::{IpAddr, Ipv4Addr};

use axum::http::{HeaderMap, HeaderValue, header};
use proptest::prelude::*;
use settle_domain::credential::CredentialKind;
use settle_domain::page::{LIMIT_MAX, OFFSET_MAX};
use settle_testing::corpus::{lines, near};

use super::bearer::bearer;
use super::query::{Paging, Parameters};
use super::source::{Proxies, Source};
use crate::language::Messages;

const CORPUS: &str = include_str!("../../tests/data/fuzz_heads.txt");
const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
/// Pieces that the readers know.
const PIECES: &[&str] = &[
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

fn any_text() -> impl Strategy<Value = String> {
    near(lines(CORPUS), PIECES)
}

fn headers(name: &header::HeaderName, texts: &[String]) -> HeaderMap {
    let values = texts.iter().filter_map(|text| HeaderValue::from_bytes(text.as_bytes()).ok());
    values.map(|value| (name.clone(), value)).collect()
}

/// Whether the query names a page.
fn read_page(query: &str) -> bool {
    let mut faults = Vec::new();
    let Some(page) = Paging::parse(&Parameters::new(Some(query)), &mut faults) else {
        assert!((1..=2).contains(&faults.len()), "{query:?}");
        assert!(faults.iter().all(|fault| ["limit", "offset"].contains(&fault.field)), "{query:?}");
        return false;
    };
    assert!((1..=LIMIT_MAX).contains(&page.limit()) && page.offset() <= OFFSET_MAX, "{query:?}");
    assert!(faults.is_empty(), "{query:?}");
    true
}

/// Whether the headers carry a credential.
fn read_credential(texts: &[String]) -> bool {
    let headers = headers(&header::AUTHORIZATION, texts);
    [CredentialKind::ApiKey, CredentialKind::OperatorToken].into_iter().any(|kind| {
        let Ok(credential) = bearer(kind, &headers) else { return false };
        assert_eq!(headers.len(), 1, "{texts:?}");
        assert!(texts.iter().any(|text| text.ends_with(credential.expose())), "{texts:?}");
        true
    })
}

/// Whether a proxy that sends these headers names another source than itself.
fn read_source(texts: &[String]) -> bool {
    let headers = headers(&header::HeaderName::from_static("x-forwarded-for"), texts);
    let proxies = Proxies::new(&["10.0.0.0/8".parse().expect("a network")]);
    let stranger = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));
    assert_eq!(proxies.origin(stranger, &headers).source, Source::of(stranger), "{texts:?}");
    let source = proxies.origin(PROXY, &headers).source;
    let is_another = source != Source::of(PROXY);
    assert!(!is_another || texts.iter().any(|text| !text.is_empty()), "{texts:?}");
    is_another
}

/// Whether the header leads to another language than our own.
fn read_language(text: &str) -> bool {
    let messages = Messages::built_in().expect("they are built in");
    let tag = messages.negotiate(Some(text)).tag();
    assert!(["en", "pt-BR", "es", "de"].contains(&tag), "{text:?}: {tag}");
    tag != "en"
}

/// How many lines of the corpus a reader accepts.
fn accepted(is_read: impl Fn(&str) -> bool) -> usize {
    lines(CORPUS).iter().filter(|text| is_read(text)).count()
}

#[test]
fn the_corpus() {
    let accepted = [
        accepted(read_page),
        accepted(|text| read_credential(&[text.to_owned()])),
        accepted(|text| read_source(&[text.to_owned()])),
        accepted(read_language),
    ];
    assert!(accepted.iter().all(|lines| *lines >= 3), "{accepted:?}");
    assert!(!read_credential(&["Bearer sk_00ff", "Bearer sk_00ff"].map(str::to_owned)), "one of them");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn a_page_is_in_its_range_or_every_fault_is_named(query in any_text()) {
        read_page(&query);
    }

    #[test]
    fn a_credential_is_what_stands_in_the_one_header(texts in prop::collection::vec(any_text(), 0..3)) {
        read_credential(&texts);
    }

    #[test]
    fn a_source_is_the_peer_unless_a_proxy_names_another(texts in prop::collection::vec(any_text(), 0..3)) {
        read_source(&texts);
    }

    #[test]
    fn every_language_header_leads_to_one_of_ours(text in any_text()) {
        read_language(&text);
    }
}
