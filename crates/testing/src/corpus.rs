//! Texts near to those of a corpus, for whoever fuzzes a reader of what comes from outside.
//!
//! A random text reaches no further than a reader's first check. A corpus has what the reader accepts, and
//! what once was, or nearly was, a problem: a text that differs from one of its lines in a few places goes as
//! deep as the line does.

use proptest::prelude::*;

/// Pieces of JSON, for readers of bodies.
pub const JSON_PIECES: &[&str] = &[
    "\"", "\"\"", "null", "true", "{", "{}", "}", "[", "[]", "]", ",", ":", "0", "1", "-1", "1e400",
    "\\u0000", "\\ud800", " ", "é",
];

/// The lines of a corpus.
pub fn lines(corpus: &str) -> Vec<String> {
    corpus.lines().map(str::to_owned).collect()
}

/// A line of the corpus with up to three changes, some of the pieces in any order, or any text at all. A
/// change puts a piece, or any character, in the place of up to three characters.
pub fn near(corpus: Vec<String>, pieces: &'static [&'static str]) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => prop::sample::select(pieces).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    let changes = prop::collection::vec((any::<prop::sample::Index>(), 0..4_usize, piece), 0..4);
    let near = (prop::sample::select(corpus), changes).prop_map(|(text, changes)| {
        let mut characters: Vec<char> = text.chars().collect();
        for (place, replaced, piece) in changes {
            let start = place.index(characters.len() + 1);
            let end = characters.len().min(start + replaced);
            characters.splice(start..end, piece.chars());
        }
        characters.into_iter().collect::<String>()
    });
    let soup = prop::collection::vec(prop::sample::select(pieces), 0..12).prop_map(|pieces| pieces.concat());
    prop_oneof![6 => near, 2 => soup, 1 => any::<String>()]
}
