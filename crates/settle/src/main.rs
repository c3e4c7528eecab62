//! The `settle` command.

use std::process::ExitCode;

use clap::Parser;
use settle::commands::Cli;

/// Rows, requests and notifications are many small pieces of memory, made on one thread and freed on another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    settle::commands::run(Cli::parse())
}
