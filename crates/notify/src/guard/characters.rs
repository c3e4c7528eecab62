//! Characters that no URL may contain, because a reader and a parser disagree about them.
//!
//! The `url` crate deletes tabs and newlines, trims spaces and turns backslashes into slashes, and IDNA drops
//! invisible characters. The judged text would then differ from the text that a reader sees. So the guard
//! refuses these characters everywhere, in path and query too; a merchant who needs them can percent-encode
//! them.

/// Code points without a glyph of their own: Unicode's `Default_Ignorable_Code_Point` (which holds the soft
/// hyphen, zero-width characters, bidirectional controls, variation selectors and tags) and the remaining
/// invisible format controls. White space and control characters are not listed: `char` knows them.
///
/// In ascending order.
const INVISIBLE: &[(char, char)] = &[
    ('\u{00AD}', '\u{00AD}'),   // soft hyphen
    ('\u{034F}', '\u{034F}'),   // combining grapheme joiner
    ('\u{061C}', '\u{061C}'),   // Arabic letter mark
    ('\u{115F}', '\u{1160}'),   // Hangul fillers
    ('\u{17B4}', '\u{17B5}'),   // Khmer inherent vowels
    ('\u{180B}', '\u{180F}'),   // Mongolian variation selectors and vowel separator
    ('\u{200B}', '\u{200F}'),   // zero-width space and joiners, direction marks
    ('\u{202A}', '\u{202E}'),   // bidirectional embeddings and overrides
    ('\u{2060}', '\u{206F}'),   // word joiner, invisible operators, bidirectional isolates
    ('\u{3164}', '\u{3164}'),   // Hangul filler
    ('\u{FE00}', '\u{FE0F}'),   // variation selectors
    ('\u{FEFF}', '\u{FEFF}'),   // byte order mark
    ('\u{FFA0}', '\u{FFA0}'),   // half-width Hangul filler
    ('\u{FFF0}', '\u{FFFB}'),   // reserved for format controls, interlinear annotation
    ('\u{13430}', '\u{1343F}'), // Egyptian hieroglyph format controls
    ('\u{1BCA0}', '\u{1BCA3}'), // shorthand format controls
    ('\u{1D173}', '\u{1D17A}'), // musical format controls
    ('\u{E0000}', '\u{E0FFF}'), // tags and variation selectors supplement
];

/// Whether the text contains a control, white-space, backslash or invisible format character.
pub(super) fn has_refused(text: &str) -> bool {
    text.chars().any(is_refused)
}

fn is_refused(character: char) -> bool {
    if character.is_ascii() {
        // Every ASCII control and white-space character is outside the graphic range.
        return !character.is_ascii_graphic() || character == '\\';
    }
    character.is_control() || character.is_whitespace() || is_invisible(character)
}

fn is_invisible(character: char) -> bool {
    let following = INVISIBLE.partition_point(|(first, _)| *first <= character);
    following > 0 && character <= INVISIBLE[following - 1].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_disjoint() {
        assert!(INVISIBLE.iter().all(|(first, last)| first <= last));
        assert!(INVISIBLE.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }

    #[test]
    fn the_edges_of_every_range_are_refused_and_their_visible_neighbours_are_not() {
        for (first, last) in INVISIBLE {
            assert!(is_invisible(*first), "{first:?}");
            assert!(is_invisible(*last), "{last:?}");
        }
        for visible in ['\u{00AC}', '\u{00AE}', '\u{0350}', '\u{FE10}', '\u{FFFC}', 'ü', '☃', '、'] {
            assert!(!is_refused(visible), "{visible:?}");
        }
    }

    #[test]
    fn every_ascii_character_is_graphic_or_refused() {
        for character in (0..=0x7F_u8).map(char::from) {
            let expected = character <= ' ' || character == '\u{7F}' || character == '\\';
            assert_eq!(is_refused(character), expected, "{character:?}");
        }
    }

    #[test]
    fn white_space_and_controls_outside_ascii_are_refused() {
        for character in ['\u{0085}', '\u{009F}', '\u{00A0}', '\u{2003}', '\u{2028}', '\u{202F}', '\u{3000}']
        {
            assert!(is_refused(character), "{character:?}");
        }
    }
}
