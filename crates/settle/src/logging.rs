//! Structured logs on standard error: JSON for machines, lines for people.

use std::io::IsTerminal;

use anstream::{AutoStream, ColorChoice};
use settle_wiring::config::{Config, LogFormat};
use tracing_subscriber::EnvFilter;

/// Starts logging as the settings say.
pub fn start(config: &Config) -> Result<(), LogError> {
    let filter =
        EnvFilter::builder().parse(&config.log.level).map_err(|fault| LogError(fault.to_string()))?;
    let json = match config.log.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !std::io::stderr().is_terminal(),
    };
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        // Where a line cannot be written, saying so there fails too, and would end the service.
        .log_internal_errors(false);
    let started = if json {
        logs.json().flatten_event(true).with_span_list(false).try_init()
    } else {
        // A terminal, unless NO_COLOR or its kind says otherwise.
        logs.with_ansi(AutoStream::choice(&std::io::stderr()) != ColorChoice::Never).try_init()
    };
    started.map_err(|fault| LogError(fault.to_string()))
}

/// A log setting that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("log.level: {0}")]
pub struct LogError(String);
