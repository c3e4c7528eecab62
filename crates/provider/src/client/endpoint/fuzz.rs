//! The URL of a provider on whatever an operator may set: nothing panics, and what is accepted is the same
//! place after it is written, with every path of the protocol behind its own.
//!
//! The corpus is `tests/data/fuzz_endpoints.txt`, a URL a line. Add the text of a bug before you mend it.

use proptest::prelude::*;

use super::*;

const CORPUS: &str = include_str!("../../../tests/data/fuzz_endpoints.txt");
const PIECES: &[&str] = &[
    "http://",
    "https://",
    "HTTPS:",
    "//",
    "/",
    "\\",
    ":",
    "@",
    "?",
    "#",
    "%",
    "%2e",
    "%00",
    "..",
    ".",
    "[",
    "]",
    "[::1]",
    ":443",
    ":80",
    ":0",
    "127.0.0.1",
    "0x7f.1",
    "bank",
    "\t",
    "\n",
    " ",
    "\u{0}",
    "\u{ad}",
    "é",
    "１",
];

fn corpus() -> Vec<&'static str> {
    CORPUS.lines().collect()
}

/// A URL of the corpus with pieces put in the place of some of its characters, pieces in any order, or any
/// text at all.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(PIECES);
    let changes = prop::collection::vec((any::<prop::sample::Index>(), 0..3_usize, piece.clone()), 0..4);
    let near = (prop::sample::select(corpus()), changes).prop_map(|(text, changes)| {
        let mut characters: Vec<char> = text.chars().collect();
        for (place, replaced, piece) in changes {
            let start = place.index(characters.len() + 1);
            let end = characters.len().min(start + replaced);
            characters.splice(start..end, piece.chars());
        }
        characters.into_iter().collect::<String>()
    });
    let soup = prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat());
    prop_oneof![4 => near, 2 => soup, 1 => any::<String>()]
}

/// Whether the text is where a provider can be.
fn read(text: &str) -> bool {
    let Ok(endpoint) = Endpoint::parse(text) else { return false };
    let header = endpoint.host_header().to_str().expect("a host is ASCII");
    assert!(!endpoint.host().is_empty() && !header.contains('@'), "{text:?}: {header}");
    let scheme = if endpoint.is_tls() { "https" } else { "http" };
    let written = format!("{scheme}://{header}{}", endpoint.prefix);
    assert_eq!(Endpoint::parse(&written).as_ref(), Ok(&endpoint), "{text:?}: {written}");
    // What could not be put together would be the root of the server.
    let uri = endpoint.uri("/operations/0190d3c4?updated_since=1%3A2");
    assert_eq!(uri.path(), format!("{}/operations/0190d3c4", endpoint.prefix), "{text:?}");
    assert_eq!(uri.query(), Some("updated_since=1%3A2"), "{text:?}");
    true
}

#[test]
fn the_corpus() {
    let read = corpus().into_iter().filter(|text| read(text)).count();
    assert!(read >= 12, "{read} URLs were read");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn any_text_is_a_place_or_refused(text in any_text()) {
        read(&text);
    }
}
