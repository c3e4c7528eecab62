//! The `settle` command.

use std::process::ExitCode;

use clap::Parser;
use settle::commands::Cli;

fn main() -> ExitCode {
    settle::commands::run(Cli::parse())
}
