//! How far an import has come, shown on a terminal alone.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over the bytes of the file.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// A bar that is shown only where somebody can see it.
    pub fn new(bytes: u64) -> Progress {
        let bar =
            if std::io::stderr().is_terminal() { ProgressBar::new(bytes) } else { ProgressBar::hidden() };
        let template = "{msg:10} {wide_bar} {bytes}/{total_bytes} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message("checking");
        Progress(bar)
    }

    pub fn advance(&self, bytes: usize) {
        self.0.inc(u64::try_from(bytes).unwrap_or(0));
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
