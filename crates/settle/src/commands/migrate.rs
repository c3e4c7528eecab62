//! `settle migrate`: brings the database to this version's schema.

use settle_wiring::User;
use settle_wiring::config::Config;

use super::CommandError;
use crate::output;

pub(super) async fn run(config: &Config) -> Result<(), CommandError> {
    let store = settle_wiring::store(config, User::Command)?;
    let pending = store.migrations_pending().await?;
    store.migrate().await?;
    let text =
        if pending == 0 { "Nothing to do.".to_owned() } else { format!("Applied {pending} migrations.") };
    Ok(output::print_text(&text)?)
}
