//! Prints the results of commands on standard output: text for people, JSON for programs. Everything else
//! goes to standard error.

use std::io::{self, Write};

use clap::Args;
use serde::Serialize;

/// How a command prints what it made or found.
#[derive(Debug, Clone, Copy, Args)]
pub struct OutputFormat {
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Prints a result: as JSON, or as the given text.
pub fn print(format: OutputFormat, value: &impl Serialize, text: impl FnOnce() -> String) -> io::Result<()> {
    let mut output =
        if format.json { serde_json::to_string(value).map_err(io::Error::other)? } else { text() };
    if !output.is_empty() && !output.ends_with('\n') {
        output.push('\n');
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(output.as_bytes())?;
    stdout.flush()
}

/// Columns, each as wide as its widest cell.
///
/// Written by hand, after a try with comfy-table: on a narrow terminal it narrows all columns alike and
/// breaks ids, times and headings. Here each command decides which column it cuts.
#[must_use]
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: Vec<&str>| {
        let padded: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        padded.join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(head.to_vec())];
    lines.extend(rows.iter().map(|row| line(row.iter().map(String::as_str).collect())));
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
    stderr.write_all(format!("{text}\n").as_bytes())
}
