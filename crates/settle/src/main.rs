//! The `settle` command.

use std::process::ExitCode;

use clap::Parser;
use settle::commands::Cli;

/// Rows, requests and notifications are many small allocations, made on one thread and freed on another:
/// mimalloc is fast at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    settle::commands::keep_memory_small();
    settle::commands::keep_memory_private();
    settle::commands::run(Cli::parse())
}
