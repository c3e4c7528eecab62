//! A caller's text in a log line: its beginning is enough to recognise it, and nobody fills a log with it.

use std::fmt::{self, Display, Write};

/// The most characters of a caller's text that reach a log line.
const CHARACTERS_MAX: usize = 200;

/// Text that a caller chose, as the log shows it. Whatever a caller sends reaches the log through this.
pub struct Excerpt<'a>(pub &'a str);

impl Display for Excerpt<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut characters = self.0.chars();
        for character in characters.by_ref().take(CHARACTERS_MAX) {
            formatter.write_char(character)?;
        }
        if characters.next().is_some() { formatter.write_char('…') } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_and_a_short_one_is_whole() {
        assert_eq!(Excerpt("GET").to_string(), "GET");
        let longest = "é".repeat(CHARACTERS_MAX);
        assert_eq!(Excerpt(&longest).to_string(), longest);
        assert_eq!(Excerpt(&format!("{longest}x")).to_string(), format!("{longest}…"));
    }
}
