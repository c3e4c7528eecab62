//! Shows on standard error what is being measured: one line that changes on a terminal, elsewhere one line
//! for each scenario.

use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::figures::number;
use crate::print;

/// How often the line is redrawn at least.
const TICK: Duration = Duration::from_millis(200);

/// The progress of the benchmark. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Progress {
    bar: ProgressBar,
    counting: ProgressStyle,
    waiting: ProgressStyle,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        let is_seen = std::io::stderr().is_terminal();
        let bar = if is_seen { ProgressBar::new(0) } else { ProgressBar::hidden() };
        if is_seen {
            bar.enable_steady_tick(TICK);
        }
        let style = |template: &str| {
            let style = ProgressStyle::with_template(template);
            style.unwrap_or_else(|_| ProgressStyle::default_bar()).with_key("rate", rate)
        };
        Progress {
            bar,
            counting: style("{prefix}  {msg}  {human_pos} of {human_len}, {rate}, {elapsed}"),
            waiting: style("{prefix}  {msg}  {elapsed}"),
        }
    }

    /// Starts the next scenario.
    pub(crate) fn scenario(&self, name: &str) -> std::io::Result<()> {
        self.bar.set_prefix(name.to_owned());
        self.step("preparing", 0);
        if self.bar.is_hidden() {
            print(&mut std::io::stderr().lock(), &format!("measuring {name} …"))
        } else {
            Ok(())
        }
    }

    /// Starts the next step of a scenario, which counts up to `total`; 0 if it does not count.
    pub(crate) fn step(&self, what: &str, total: usize) {
        self.bar.set_style(if total == 0 { self.waiting.clone() } else { self.counting.clone() });
        self.bar.set_length(u64::try_from(total).unwrap_or(u64::MAX));
        self.bar.set_message(what.to_owned());
        self.bar.reset();
    }

    /// Sets the count of the present step.
    pub(crate) fn at(&self, count: usize) {
        self.bar.set_position(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// Removes the line.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn rate(state: &ProgressState, text: &mut dyn Write) {
    let seconds = state.elapsed().as_secs_f64().max(0.001);
    // A line that cannot be written will be redrawn soon.
    let _ = write!(text, "{:.0}/s", number(state.pos()) / seconds);
}
