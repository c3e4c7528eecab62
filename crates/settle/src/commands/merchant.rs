//! `settle merchant`: add and list merchants.

use clap::Subcommand;
use serde::Serialize;
use settle_accounts::merchants;
use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;
use settle_store::Merchant;
use settle_wiring::system::{SystemClock, SystemEntropy};
use settle_wiring::{Context, User};

use super::CommandError;
use crate::output::{self, CreatedFormat, OutputFormat};

#[derive(Debug, Subcommand)]
pub(super) enum MerchantCommand {
    /// Add a merchant
    Create {
        /// What to call it
        name: String,
        #[command(flatten)]
        format: CreatedFormat,
    },
    /// List all merchants
    List(OutputFormat),
}

#[derive(Serialize)]
struct Printed {
    merchant_id: MerchantId,
    name: String,
    created_at: Timestamp,
}

impl From<Merchant> for Printed {
    fn from(merchant: Merchant) -> Printed {
        Printed { merchant_id: merchant.merchant_id, name: merchant.name, created_at: merchant.created_at }
    }
}

impl MerchantCommand {
    /// How it uses the store.
    pub(super) fn user(&self) -> User {
        if matches!(self, Self::List(_)) { User::Reader } else { User::Command }
    }

    pub(super) async fn run(self, context: Context) -> Result<(), CommandError> {
        match self {
            Self::Create { name, format } => create(&context, &name, format).await,
            Self::List(format) => list(&context, format).await,
        }
    }
}

async fn create(context: &Context, name: &str, format: CreatedFormat) -> Result<(), CommandError> {
    let merchant = merchants::create(&*context.store, &SystemClock, &SystemEntropy, name).await?;
    let id = merchant.merchant_id.to_string();
    let text = format!("Merchant {id} ({}). Next: settle key create {id}", merchant.name);
    Ok(output::print_created(format, &Printed::from(merchant), &id, || text)?)
}

async fn list(context: &Context, format: OutputFormat) -> Result<(), CommandError> {
    let merchants = merchants::list(&*context.store).await?;
    let merchants: Vec<Printed> = merchants.into_iter().map(Printed::from).collect();
    let row = |merchant: &Printed| {
        vec![merchant.merchant_id.to_string(), merchant.created_at.to_string(), merchant.name.clone()]
    };
    let rows: Vec<Vec<String>> = merchants.iter().map(row).collect();
    Ok(output::print(format, &merchants, || output::table(&["MERCHANT_ID", "CREATED_AT", "NAME"], &rows))?)
}
