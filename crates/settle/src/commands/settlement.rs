//! `settle settlement import`: imports completed settlements from a file, all of them or none.
//!
//! Pass one reads every line and names every problem. Pass two records the lines in one transaction: it locks
//! all merchants of the file, then takes 1,000 lines at a time, inserts the new settlements with their counts
//! and slices, compares the known ones with what is stored, and with `--notify` enqueues the notifications.

use clap::{Args, Subcommand};
use serde::Serialize;
use settle_domain::ids::MerchantId;
use settle_outbox::work::Work;
use settle_store::{BATCH_MAX, MerchantLock, NewSettlement};

use super::CommandError;
use super::progress::Progress;
use crate::output::{self, OutputFormat};

mod array;
mod lines;

use lines::{Line, Lines, Place};
use settle_wiring::Context;

#[derive(Debug, Subcommand)]
pub(super) enum SettlementCommand {
    /// Import completed settlements, one JSON object a line or one array of objects
    ///
    /// An object has the fields of the settlement record and `merchant_id`, and may have `pricing` with
    /// `provider_rate`, `spread_revenue` and `partner_commission`. Importing the same settlement again is
    /// fine. If any object is bad nothing is imported. All of it is one transaction: on SQLite nothing else
    /// can be written meanwhile.
    Import(Import),
}

#[derive(Debug, Args)]
pub(super) struct Import {
    /// The file; - reads standard input
    file: std::path::PathBuf,
    /// The merchant of objects that name none
    #[arg(long, value_name = "MERCHANT_ID")]
    merchant: Option<MerchantId>,
    /// Also enqueue a notification of each new settlement whose merchant has a webhook
    #[arg(long)]
    notify: bool,
    /// Find out what would be imported, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: OutputFormat,
}

/// The result of an import.
#[derive(Debug, Default, Serialize)]
struct Imported {
    /// Settlements that were new.
    recorded: usize,
    /// Settlements that were there already.
    unchanged: usize,
    /// Notifications enqueued.
    notified: usize,
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
            let nothing = if import.dry_run { " Nothing was changed: this was a dry run." } else { "" };
            format!(
                "{} settlements recorded, {} were there already{notified}.{nothing}",
                done.recorded, done.unchanged
            )
        };
        Ok(output::print(import.format, &done, text)?)
    }
}

impl Import {
    /// Reads the file once to find every problem, and a second time to record it in one transaction. So the
    /// database never waits for the input.
    async fn import(&self, context: &Context) -> Result<Imported, CommandError> {
        let lines = Lines::open(&self.file, self.merchant)?;
        let progress = Progress::over_bytes(lines.bytes()?, "checking");
        let merchants = lines.check(&progress)?;
        progress.rewind("recording");
        let mut work = context.command_outbox().begin().await?;
        let lock = work.merchant_lock(&merchants.ids()).await?;
        merchants.refuse_unknown(lock.merchants())?;
        let mut done = Imported::default();
        let mut batch: Vec<Line> = Vec::with_capacity(BATCH_MAX);
        for line in lines.read(&progress)? {
            batch.push(line?);
            if batch.len() == BATCH_MAX {
                self.record(&mut work, &lock, std::mem::take(&mut batch), &mut done).await?;
            }
        }
        self.record(&mut work, &lock, batch, &mut done).await?;
        if !self.dry_run {
            work.commit().await?;
        }
        progress.finish();
        Ok(done)
    }

    async fn record(
        &self,
        work: &mut Work,
        lock: &MerchantLock,
        batch: Vec<Line>,
        done: &mut Imported,
    ) -> Result<(), CommandError> {
        if batch.is_empty() {
            return Ok(());
        }
        let (places, settlements): (Vec<Place>, Vec<NewSettlement>) =
            batch.into_iter().map(|line| (line.place, NewSettlement::from(line.settlement))).unzip();
        let completed = if self.notify {
            work.complete(lock, &settlements).await?
        } else {
            work.record(lock, &settlements).await?
        };
        if let Some((merchant, id)) = completed.conflicting.first() {
            let same = |settlement: &NewSettlement| {
                settlement.merchant_id == *merchant && settlement.settlement_id == *id
            };
            let place = settlements.iter().rposition(same).map(|position| places[position].to_string());
            let place = place.unwrap_or_default();
            let text = format!(
                "{place}: settlement_id: {id} is there already with other content; nothing was imported"
            );
            return Err(CommandError::Refused(text));
        }
        done.recorded += completed.recorded.len();
        done.unchanged += settlements.len() - completed.recorded.len();
        done.notified += completed.notifications;
        Ok(())
    }
}
