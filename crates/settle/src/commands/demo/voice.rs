//! How the demo speaks: where its lines go, and in which colours.

use std::fmt;
use std::io::{self, Write};

use anstream::AutoStream;
use anstream::stream::{AsLockedWrite, RawStream};
use anstyle::{AnsiColor, Style};
use clap::ColorChoice;
use tokio::sync::mpsc;

use crate::output::{harmless, harmless_line};

/// The width of the words that say what happened.
const WORD_WIDTH: usize = 10;

/// One thing that happened: a line, and perhaps one more to paste.
pub(super) struct Told {
    /// The time of day.
    pub(super) time: String,
    /// What happened, in one word.
    pub(super) word: &'static str,
    /// How the word looks.
    pub(super) mood: Mood,
    /// What the demo tells about it.
    pub(super) text: String,
    /// A command that can be pasted now.
    pub(super) command: Option<String>,
}

/// How good a thing is that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    Plain,
    Good,
    Worrying,
    Bad,
}

impl Mood {
    fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Worrying => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
        }
    }
}

impl fmt::Display for Told {
    /// In colours: whoever writes it takes them out where they are not wanted.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (style, text) = (self.mood.style(), harmless_line(&self.text));
        write!(formatter, "{}  {style}{:<WORD_WIDTH$}{style:#} {text}", self.time, self.word)?;
        if let Some(command) = &self.command {
            write!(formatter, "\n  {}", harmless_line(command))?;
        }
        Ok(())
    }
}

/// Where the demo tells its story.
pub(super) struct Voice {
    /// Standard error, because standard output is for a program.
    is_aside: bool,
    colour: anstream::ColorChoice,
    failed: mpsc::Sender<io::Error>,
}

impl Voice {
    /// A voice, and the first fault that it meets: whoever listened has gone.
    pub(super) fn new(is_aside: bool, colour: ColorChoice) -> (Voice, mpsc::Receiver<io::Error>) {
        // With `Auto` the stream decides: only a terminal gets colours, and none if NO_COLOR is set.
        let colour = match colour {
            ColorChoice::Auto => anstream::ColorChoice::Auto,
            ColorChoice::Always => anstream::ColorChoice::Always,
            ColorChoice::Never => anstream::ColorChoice::Never,
        };
        let (failed, failure) = mpsc::channel(1);
        (Voice { is_aside, colour, failed }, failure)
    }

    /// Tells what happened.
    pub(super) fn tell(&self, told: &Told) {
        self.write(&format!("{told}\n"));
    }

    /// Says something that is no event.
    pub(super) fn say(&self, text: &str) {
        self.write(&format!("{}\n", harmless(text)));
    }

    fn write(&self, text: &str) {
        let written = if self.is_aside {
            write(io::stderr().lock(), self.colour, text)
        } else {
            write(io::stdout().lock(), self.colour, text)
        };
        if let Err(fault) = written {
            // The first fault ends the demo. The channel has no room for another, and needs none.
            let _ = self.failed.try_send(fault);
        }
    }
}

fn write(
    stream: impl RawStream + AsLockedWrite,
    colour: anstream::ColorChoice,
    text: &str,
) -> io::Result<()> {
    let mut stream = AutoStream::new(stream, colour);
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_coloured_and_shows_nothing_that_a_terminal_would_obey() {
        let told = Told {
            time: "12:00:00".to_owned(),
            word: "died",
            mood: Mood::Bad,
            text: "a\u{1b}[2J\nb".to_owned(),
            command: Some("curl -s x".to_owned()),
        };
        let shown = told.to_string();
        assert_eq!(
            anstream::adapter::strip_str(&shown).to_string(),
            "12:00:00  died       a\\u{1b}[2J\\nb\n  curl -s x"
        );
        assert!(shown.contains("\u{1b}[31m") && shown.contains("\u{1b}[0m"), "{shown:?}");
        assert!(!Told { mood: Mood::Plain, ..told }.to_string().contains('\u{1b}'));
    }
}
