//! A progress bar for long commands, drawn only on a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar with a known end.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// A bar over the bytes of a file.
    pub fn over_bytes(bytes: u64, message: &'static str) -> Progress {
        Progress::new(bytes, message, "{msg:10} {wide_bar} {bytes}/{total_bytes} {eta}")
    }

    /// A bar over rows.
    pub fn over_rows(rows: u64, message: &'static str) -> Progress {
        Progress::new(rows, message, "{msg:10} {wide_bar} {human_pos}/{human_len} {eta}")
    }

    /// A bar that is hidden unless standard error is a terminal.
    fn new(length: u64, message: &'static str, template: &str) -> Progress {
        let bar =
            if std::io::stderr().is_terminal() { ProgressBar::new(length) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(message);
        Progress(bar)
    }

    pub fn advance(&self, number: usize) {
        self.0.inc(u64::try_from(number).unwrap_or(0));
    }

    /// So much is done.
    pub fn at(&self, position: u64) {
        self.0.set_position(position);
    }

    /// Starts over for the next pass.
    pub fn rewind(&self, message: &'static str) {
        self.0.set_message(message);
        self.0.set_position(0);
    }

    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}
