//! `settle config show`: every setting in force, and where it comes from.

use clap::Subcommand;
use figment::Figment;
use settle_wiring::config::{self, Config, DEFAULTS};

use super::CommandError;
use crate::output::{self, OutputFormat};

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Print every setting in force and where it comes from; secrets are not shown
    Show(OutputFormat),
    /// Print the documented defaults, a settings file to start from
    Defaults,
}

impl ConfigCommand {
    pub(super) fn run(self, config: &Config, figment: &Figment) -> Result<(), CommandError> {
        match self {
            Self::Defaults => Ok(output::print_text(DEFAULTS)?),
            Self::Show(format) => {
                let shown = config::shown(figment, config);
                let rows: Vec<Vec<String>> = shown
                    .iter()
                    .map(|row| vec![row.key.clone(), row.value.clone(), row.source.clone()])
                    .collect();
                Ok(output::print(format, &shown, || output::table(&["SETTING", "VALUE", "SOURCE"], &rows))?)
            }
        }
    }
}
