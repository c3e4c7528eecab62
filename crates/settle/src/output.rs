//! Prints the results of commands on standard output: text for people, JSON for programs. Everything else
//! goes to standard error.
//!
//! Whatever is printed passes [`harmless`] or, as JSON, `harmless_json`: names, references, URLs and errors
//! come from files, merchants and networks, and a terminal obeys what it is shown.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::io::{self, Write};

use clap::Args;
use serde::Serialize;

mod columns;

pub use columns::{Column, Fitted, fitted, terminal_width};

use columns::{GAP, width};

/// How a command prints what it made or found.
#[derive(Debug, Clone, Copy, Args)]
pub struct OutputFormat {
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Prints a result: as JSON, or as the given text.
pub fn print(format: OutputFormat, value: &impl Serialize, text: impl FnOnce() -> String) -> io::Result<()> {
    let mut output = if format.json {
        harmless_json(&serde_json::to_string(value).map_err(io::Error::other)?).into_owned()
    } else {
        harmless(&text()).into_owned()
    };
    if !output.is_empty() && !output.ends_with('\n') {
        output.push('\n');
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(output.as_bytes())?;
    stdout.flush()
}

/// Whether a terminal would obey the character instead of showing it: control characters, and those that turn
/// the direction of the text around them.
fn commands_a_terminal(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text of several lines that a terminal only shows: what it would obey is written as an escape.
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    let escape = |character: char| commands_a_terminal(character) && !matches!(character, '\n' | '\t');
    escaped(text, escape, |shown, character| shown.extend(character.escape_debug()))
}

/// A text of one line: a line break or a tab in it is an escape too.
#[must_use]
pub fn harmless_line(text: &str) -> Cow<'_, str> {
    escaped(text, commands_a_terminal, |shown, character| shown.extend(character.escape_debug()))
}

/// The same for JSON, in which such characters stand only inside strings, and are escaped as JSON does it.
fn harmless_json(json: &str) -> Cow<'_, str> {
    escaped(json, commands_a_terminal, |shown, character| {
        // Every one of them is in the first plane.
        let _ = write!(shown, "\\u{:04x}", u32::from(character));
    })
}

fn escaped(
    text: &str,
    is_escaped: impl Fn(char) -> bool,
    escape: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_escaped(character) {
            escape(&mut shown, character);
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// A number and what it counts, in the singular for one.
pub fn counted(number: impl Display, one: &str, many: &str) -> String {
    let number = number.to_string();
    let what = if number == "1" { one } else { many };
    format!("{number} {what}")
}

/// Columns, each as wide as its widest cell.
///
/// Written by hand, after a try with comfy-table: on a narrow terminal it narrows all columns alike and
/// breaks ids, times and headings. Here each command decides which column it cuts.
#[must_use]
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<Cow<'_, str>>> =
        rows.iter().map(|row| row.iter().map(|cell| harmless_line(cell)).collect()).collect();
    let mut widths: Vec<usize> = head.iter().map(|cell| width(cell)).collect();
    for row in &rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = (*widest).max(width(cell));
        }
    }
    let line = |cells: Vec<&str>| {
        let padding = |cell: &str, widest: usize| " ".repeat(widest.saturating_sub(width(cell)) + GAP);
        let padded: String = cells
            .iter()
            .zip(&widths)
            .map(|(cell, widest)| cell.to_string() + &padding(cell, *widest))
            .collect();
        padded.trim_end().to_owned()
    };
    let mut lines = vec![line(head.to_vec())];
    lines.extend(rows.iter().map(|row| line(row.iter().map(AsRef::as_ref).collect())));
    lines.join("\n")
}

/// How a command prints what it made.
#[derive(Debug, Clone, Copy, Args)]
pub struct CreatedFormat {
    #[command(flatten)]
    output: OutputFormat,
    /// Print nothing but the id, key or token that was made
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
}

/// Prints what a command made: as JSON, as text, or only its id, key or token.
pub fn print_created(
    format: CreatedFormat,
    value: &impl Serialize,
    essence: &str,
    text: impl FnOnce() -> String,
) -> io::Result<()> {
    if format.quiet { print_text(essence) } else { print(format.output, value, text) }
}

/// Prints a text.
pub fn print_text(text: &str) -> io::Result<()> {
    print(OutputFormat { json: false }, &(), || text.to_owned())
}

/// Prints a note that is not part of the result, on standard error.
pub fn print_note(text: &str) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    stderr.write_all(format!("{}\n", harmless(text)).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NASTY: &str = "a\u{1b}]0;owned\u{7}\u{9b}2J\r\n\u{202e}txt\u{7f} Ñandú \"q\" \\ 漢e\u{301}";

    /// Whether no character of the text commands a terminal, but for line breaks.
    fn is_harmless(text: &str) -> bool {
        text.chars().all(|character| character == '\n' || !commands_a_terminal(character))
    }

    #[test]
    fn no_text_commands_a_terminal() {
        let shown = harmless(NASTY);
        assert!(is_harmless(&shown), "{shown:?}");
        assert!(shown.contains("\\u{1b}]0;owned\\u{7}") && shown.contains('\n'), "{shown}");
        assert!(shown.ends_with(" Ñandú \"q\" \\ 漢e\u{301}"), "what people write stays: {shown}");
        assert!(!harmless_line(NASTY).contains('\n'));
        assert!(matches!(harmless("plain\n\ttext"), Cow::Borrowed(_)));
        for number in 0..=0x2100 {
            let character = char::from_u32(number).expect("no surrogate is that low");
            assert!(is_harmless(&harmless_line(&character.to_string())), "{number:x}");
        }
    }

    #[test]
    fn no_cell_commands_a_terminal_or_breaks_its_line() {
        let shown = table(&["A", "B"], &[vec![NASTY.to_owned(), "b".to_owned()]]);
        assert!(is_harmless(&shown), "{shown:?}");
        assert_eq!(shown.lines().count(), 2);
    }

    #[test]
    fn json_stays_json_with_the_same_meaning() {
        let json = serde_json::to_string(&[NASTY]).expect("a string");
        assert!(!is_harmless(&json), "serde_json leaves some as they are");
        let shown = harmless_json(&json);
        assert!(is_harmless(&shown), "{shown:?}");
        assert_eq!(serde_json::from_str::<[String; 1]>(&shown).expect("JSON"), [NASTY]);
    }
}
