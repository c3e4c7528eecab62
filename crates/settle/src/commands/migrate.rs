//! `settle migrate`: brings the database to this version's schema.

use settle_wiring::config::Config;
use settle_wiring::{User, WiringError};

use super::CommandError;
use crate::output;

pub(super) async fn run(config: &Config) -> Result<(), CommandError> {
    let store = settle_wiring::store(config, User::Command)?;
    let opening = |fault| WiringError::opening(config, fault);
    let pending = store.migrations_pending().await.map_err(opening)?;
    store.migrate().await.map_err(opening)?;
    let text = if pending == 0 {
        "Nothing to do.".to_owned()
    } else {
        format!("Applied {}.", output::counted(pending, "migration", "migrations"))
    };
    Ok(output::print_text(&text)?)
}
