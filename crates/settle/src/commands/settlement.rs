//! `settle settlement import`: completed settlements from a file, all of them or none.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use serde::Serialize;
use settle_domain::ids::MerchantId;
use settle_domain::seams::Clock;
use settle_notify::outbox;
use settle_store::{BATCH_MAX, NewSettlement, Tx};

use super::CommandError;
use super::progress::Progress;
use crate::output::{self, OutputFormat};

mod lines;

use lines::{Line, Lines};
use settle_wiring::Context;
use settle_wiring::system::{SystemClock, SystemEntropy};

#[derive(Debug, Subcommand)]
pub(super) enum SettlementCommand {
    /// Import completed settlements, one JSON object a line
    ///
    /// A line has the fields of the settlement record and `merchant_id`, and may have `pricing` with
    /// `provider_rate`, `spread_revenue` and `partner_commission`. Importing the same settlement again is
    /// fine. If any line is bad nothing is imported. All of it is one transaction: on SQLite nothing else can
    /// be written meanwhile.
    Import(Import),
}

#[derive(Debug, Args)]
pub(super) struct Import {
    /// The file; - reads standard input
    file: std::path::PathBuf,
    /// The merchant of lines that name none
    #[arg(long, value_name = "MERCHANT_ID")]
    merchant: Option<MerchantId>,
    /// Also enqueue a notification of each new settlement whose merchant has a webhook
    #[arg(long)]
    notify: bool,
    #[command(flatten)]
    format: OutputFormat,
}

/// What an import did.
#[derive(Debug, Default, Serialize)]
struct Imported {
    /// Settlements that were new.
    recorded: usize,
    /// Settlements that were there already.
    unchanged: usize,
    /// Notifications enqueued.
    notified: usize,
    /// Whose notifications they are.
    #[serde(skip)]
    merchants: BTreeSet<MerchantId>,
}

impl SettlementCommand {
    pub(super) async fn run(self, context: Context) -> Result<(), CommandError> {
        let Self::Import(import) = self;
        let done = import.import(&context).await?;
        let text = || {
            let notified = if import.notify {
                format!(", {} notifications enqueued", done.notified)
            } else {
                String::new()
            };
            format!(
                "{} settlements recorded, {} were there already{notified}.",
                done.recorded, done.unchanged
            )
        };
        Ok(output::print(import.format, &done, text)?)
    }
}

impl Import {
    /// Reads everything once to find every problem, and a second time to record it in one transaction: the
    /// database is never kept waiting for the input.
    async fn import(&self, context: &Context) -> Result<Imported, CommandError> {
        let lines = Lines::open(&self.file, self.merchant)?;
        let progress = Progress::over_bytes(lines.bytes()?, "checking");
        let merchants = lines.check(&progress)?;
        progress.rewind("recording");
        let mut tx = context.store.begin().await?;
        let known = tx.merchant_lock(&merchants.ids()).await?;
        merchants.refuse_unknown(&known)?;
        let mut done = Imported::default();
        let mut batch: Vec<Line> = Vec::with_capacity(BATCH_MAX);
        for line in lines.read(&progress)? {
            batch.push(line?);
            if batch.len() == BATCH_MAX {
                self.record(&mut *tx, std::mem::take(&mut batch), &mut done).await?;
            }
        }
        self.record(&mut *tx, batch, &mut done).await?;
        tx.commit().await?;
        context.wake(&done.merchants).await;
        progress.finish();
        Ok(done)
    }

    async fn record(
        &self,
        tx: &mut dyn Tx,
        batch: Vec<Line>,
        done: &mut Imported,
    ) -> Result<(), CommandError> {
        if batch.is_empty() {
            return Ok(());
        }
        let (numbers, settlements): (Vec<usize>, Vec<NewSettlement>) =
            batch.into_iter().map(|line| (line.number, NewSettlement::from(line.settlement))).unzip();
        let outcome = tx.settlement_record_many(&settlements).await?;
        if let Some((merchant, id)) = outcome.conflicting.first() {
            let same = |settlement: &NewSettlement| {
                settlement.merchant_id == *merchant && settlement.settlement_id == *id
            };
            let line = settlements.iter().rposition(same).map_or(0, |position| numbers[position]);
            let text = format!(
                "line {line}: settlement_id: {id} is there already with other content; nothing was imported"
            );
            return Err(CommandError::Refused(text));
        }
        done.recorded += outcome.recorded.len();
        done.unchanged += settlements.len() - outcome.recorded.len();
        if self.notify {
            let enqueued = outbox::enqueue(tx, &outcome.recorded, SystemClock.now(), &SystemEntropy).await?;
            done.notified += enqueued.deliveries.len();
            done.merchants.extend(enqueued.deliveries.iter().map(|delivery| delivery.merchant_id));
        }
        Ok(())
    }
}
