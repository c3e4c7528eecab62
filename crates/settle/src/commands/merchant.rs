//! `settle merchant`: add and list merchants.

use clap::Subcommand;
use serde::Serialize;
use settle_domain::ids::MerchantId;
use settle_domain::seams::Clock;
use settle_domain::time::Timestamp;
use settle_store::Merchant;
use settle_wiring::Context;
use settle_wiring::system::{SystemClock, SystemEntropy};

use super::CommandError;
use crate::output::{self, CreatedFormat, OutputFormat};

/// The longest name of a merchant, in bytes.
const NAME_BYTES_MAX: usize = 200;
/// Merchants asked for at once.
const LIST_PAGE: i64 = 1_000;

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
    pub(super) async fn run(self, context: Context) -> Result<(), CommandError> {
        match self {
            Self::Create { name, format } => create(&context, &name, format).await,
            Self::List(format) => list(&context, format).await,
        }
    }
}

async fn create(context: &Context, name: &str, format: CreatedFormat) -> Result<(), CommandError> {
    let name = output::checked_name("the name", name, NAME_BYTES_MAX).map_err(CommandError::Refused)?;
    let now = SystemClock.now();
    let merchant = Merchant { merchant_id: MerchantId::new(now, &SystemEntropy), name, created_at: now };
    let mut tx = context.store.begin().await?;
    tx.merchant_create(&merchant).await?;
    tx.commit().await?;
    let id = merchant.merchant_id.to_string();
    let text = format!("Merchant {id} ({}). Next: settle key create {id}", merchant.name);
    Ok(output::print_created(format, &Printed::from(merchant), &id, || text)?)
}

async fn list(context: &Context, format: OutputFormat) -> Result<(), CommandError> {
    let mut merchants: Vec<Printed> = Vec::new();
    loop {
        let after = merchants.last().map(|last| last.merchant_id);
        let page = context.store.merchant_list(after, LIST_PAGE).await?;
        if page.is_empty() {
            break;
        }
        merchants.extend(page.into_iter().map(Printed::from));
    }
    let row = |merchant: &Printed| {
        vec![merchant.merchant_id.to_string(), merchant.created_at.to_string(), merchant.name.clone()]
    };
    let rows: Vec<Vec<String>> = merchants.iter().map(row).collect();
    Ok(output::print(format, &merchants, || output::table(&["MERCHANT_ID", "CREATED_AT", "NAME"], &rows))?)
}
