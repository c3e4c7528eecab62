//! `settle completions` and `settle man`: what shells and `man` know of the commands.

use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, CommandError};

#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell to make them for
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self) -> Result<(), CommandError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "settle", &mut script);
        Ok(crate::output::print_text(&String::from_utf8_lossy(&script))?)
    }
}

#[derive(Debug, Args)]
pub(super) struct Man {
    /// The folder to write the pages into
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl Man {
    pub(super) fn run(&self) -> Result<(), CommandError> {
        std::fs::create_dir_all(&self.folder).map_err(|fault| unwritten(&self.folder, &fault))?;
        clap_mangen::generate_to(Cli::command(), &self.folder)
            .map_err(|fault| unwritten(&self.folder, &fault))
    }
}

fn unwritten(folder: &Path, fault: &std::io::Error) -> CommandError {
    CommandError::Refused(format!("{}: {fault}", folder.display()))
}
