//! `settle corridor`: what was agreed for a merchant and a pair of assets.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use settle_domain::actor::Actor;
use settle_domain::corridor::{Corridor, CorridorFault, CorridorTerms};
use settle_domain::ids::MerchantId;
use settle_domain::money::{Asset, Decimal};
use settle_domain::pricing::CorridorPricing;
use settle_domain::provider::ProviderName;
use settle_domain::seams::Clock;
use settle_domain::time::Timestamp;
use settle_engine::obstacles::Obstacle;
use settle_store::{NewCorridor, StoreError, StoredCorridor};
use settle_wiring::config::parse_duration;
use settle_wiring::system::SystemClock;
use settle_wiring::{Context, User};

use super::CommandError;
use crate::output::{self, OutputFormat};

#[derive(Debug, Subcommand)]
pub(super) enum CorridorCommand {
    /// Agree on a corridor, or change it: payments that have a quote keep theirs
    Set(Box<Set>),
    /// List the corridors of a merchant, with all their versions
    List {
        /// Whose
        merchant_id: MerchantId,
        #[command(flatten)]
        format: OutputFormat,
    },
}

#[derive(Debug, Args)]
pub(super) struct Set {
    /// Whose
    merchant_id: MerchantId,
    /// The currency that comes in, such as BRL
    incoming: Asset,
    /// The asset that goes out, such as USDC
    outgoing: Asset,
    /// The fee in percent of the gross outgoing amount
    #[arg(long, value_name = "PERCENT")]
    fee_percentage: Decimal,
    /// The fixed fee, in the outgoing asset
    #[arg(long, value_name = "AMOUNT")]
    fee_fixed: Decimal,
    /// The provider that quotes, converts, pays out and refunds: a name of the settings
    #[arg(long, value_name = "NAME")]
    provider: ProviderName,
    /// The smallest incoming amount
    #[arg(long, value_name = "AMOUNT")]
    minimum: Option<Decimal>,
    /// The largest incoming amount
    #[arg(long, value_name = "AMOUNT")]
    maximum: Option<Decimal>,
    /// What the operator earns on the rate, in percent
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    spread: Decimal,
    /// Who gets a part of the spread
    #[arg(long, value_name = "NAME", requires = "commission")]
    partner: Option<String>,
    /// The partner's part of the spread, in percent
    #[arg(long, value_name = "PERCENT", requires = "partner")]
    commission: Option<Decimal>,
    /// After how long of being blocked or in progress to alert
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = parse_duration)]
    alert_after: Duration,
    #[command(flatten)]
    format: OutputFormat,
}

/// A version of a corridor.
#[derive(Serialize)]
struct Printed {
    incoming_currency: String,
    outgoing_currency: String,
    version: u32,
    fee_percentage: Decimal,
    fee_fixed: Decimal,
    minimum: Option<Decimal>,
    maximum: Option<Decimal>,
    provider: ProviderName,
    alert_after_seconds: u64,
    spread: Decimal,
    partner: Option<String>,
    commission: Option<Decimal>,
    made_by: Actor,
    made_by_name: Option<String>,
    made_at: Timestamp,
}

impl From<StoredCorridor> for Printed {
    fn from(stored: StoredCorridor) -> Printed {
        let terms = stored.versioned.corridor.terms().clone();
        let partner = stored.pricing.partner().cloned();
        Printed {
            incoming_currency: terms.incoming.code().to_owned(),
            outgoing_currency: terms.outgoing.code().to_owned(),
            version: stored.versioned.version.0,
            fee_percentage: terms.fee_percentage,
            fee_fixed: terms.fee_fixed,
            minimum: terms.minimum,
            maximum: terms.maximum,
            provider: terms.provider,
            alert_after_seconds: terms.alert_after.as_secs(),
            spread: stored.pricing.spread(),
            commission: partner.as_ref().map(|partner| partner.commission),
            partner: partner.map(|partner| partner.name),
            made_by: stored.versioned.made_by,
            made_by_name: None,
            made_at: stored.versioned.made_at,
        }
    }
}

impl CorridorCommand {
    /// How it uses the store.
    pub(super) fn user(&self) -> User {
        if matches!(self, Self::List { .. }) { User::Reader } else { User::Command }
    }

    pub(super) async fn run(self, context: Context) -> Result<(), CommandError> {
        match self {
            Self::Set(set) => set.run(&context).await,
            Self::List { merchant_id, format } => list(&context, merchant_id, format).await,
        }
    }
}

impl Set {
    async fn run(self, context: &Context) -> Result<(), CommandError> {
        let (merchant_id, format) = (self.merchant_id, self.format);
        let (incoming, outgoing) = (self.incoming, self.outgoing);
        let provider = self.provider.clone();
        let new = self.agreed()?;
        let mut tx = context.store.begin().await?;
        let lock = tx.merchant_lock(&[merchant_id]).await?;
        if !lock.holds(merchant_id) {
            return Err(StoreError::UnknownMerchant(merchant_id).into());
        }
        let version = tx.corridor_put(&lock, &new).await?;
        tx.commit().await?;
        let key = settle_store::CorridorKey { merchant_id, incoming, outgoing };
        let stored = context.store.corridor_version(key, version).await?;
        let printed = stored.map(Printed::from);
        output::print(format, &printed, || {
            format!("Corridor {incoming} to {outgoing}, version {}, of merchant {merchant_id}", version.0)
        })?;
        // The settings of the service may have it. Who has no providers here at all has not misspelt one.
        let providers = &context.config.providers;
        if providers.is_empty() {
            let section = provider.as_str().to_uppercase();
            output::print_note(&format!(
                "Where the engine runs, SETTLE_PROVIDERS__{section}__URL and SETTLE_PROVIDERS__{section}__SECRET must be set"
            ))?;
        } else if !providers.contains_key(&provider) {
            output::print_note(&format!("Warning: {}", Obstacle::Unknown(provider)))?;
        }
        Ok(())
    }

    fn agreed(self) -> Result<NewCorridor, CommandError> {
        let refused = |faults: Vec<CorridorFault>| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            CommandError::Refused(faults.join("; "))
        };
        let terms = CorridorTerms {
            incoming: self.incoming,
            outgoing: self.outgoing,
            fee_percentage: self.fee_percentage,
            fee_fixed: self.fee_fixed,
            minimum: self.minimum,
            maximum: self.maximum,
            provider: self.provider,
            alert_after: self.alert_after,
        };
        Ok(NewCorridor {
            merchant_id: self.merchant_id,
            corridor: Corridor::new(terms).map_err(refused)?,
            pricing: CorridorPricing::new(self.spread, self.partner, self.commission).map_err(refused)?,
            made_by: Actor::Command,
            made_at: SystemClock.now(),
        })
    }
}

async fn list(context: &Context, merchant: MerchantId, format: OutputFormat) -> Result<(), CommandError> {
    let versions = context.store.corridor_list(merchant).await?;
    if versions.is_empty() && context.store.merchant_find(merchant).await?.is_none() {
        return Err(StoreError::UnknownMerchant(merchant).into());
    }
    let operators = context.store.operator_list().await?;
    let name_of = |by: Actor| {
        let known = operators.iter().find(|known| by == Actor::Operator(known.operator_id));
        known.map(|known| known.name.clone())
    };
    let versions: Vec<Printed> = versions
        .into_iter()
        .map(Printed::from)
        .map(|version| Printed { made_by_name: name_of(version.made_by), ..version })
        .collect();
    let row = |version: &Printed| {
        let amount =
            |amount: Option<Decimal>| amount.map_or_else(|| "-".to_owned(), |amount| amount.to_string());
        vec![
            format!("{} to {}", version.incoming_currency, version.outgoing_currency),
            version.version.to_string(),
            format!("{} %", version.fee_percentage),
            version.fee_fixed.to_string(),
            version.provider.to_string(),
            amount(version.minimum),
            amount(version.maximum),
            format!("{} %", version.spread),
            version.made_by_name.clone().unwrap_or_else(|| version.made_by.to_string()),
            version.made_at.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = versions.iter().map(row).collect();
    let head = [
        "CORRIDOR", "VERSION", "FEE", "FIXED", "PROVIDER", "MINIMUM", "MAXIMUM", "SPREAD", "MADE_BY",
        "MADE_AT",
    ];
    Ok(output::print(format, &versions, || output::table(&head, &rows))?)
}
