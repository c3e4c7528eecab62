//! `settle settlement import`: imports completed settlements from a file, all of them or none.
//!
//! Pass one reads every line and names every problem. Pass two records the lines: up to 1,000 of them in one
//! transaction, which locks all merchants of the file, inserts the new settlements with their counts and
//! slices, compares the known ones with what is stored, and with `--notify` enqueues the notifications. More
//! lines are staged and recorded in [`steps`], because nobody else could write meanwhile.

use clap::{Args, Subcommand};
use serde::Serialize;
use settle_domain::ids::{MerchantId, SettlementId};
use settle_outbox::work::{Completed, Work};
use settle_store::{BATCH_MAX, MerchantLock, NewSettlement};

use super::CommandError;
use super::progress::Progress;
use crate::output::{self, OutputFormat};

mod array;
#[cfg(test)]
mod fuzz;
mod lines;
mod steps;

use lines::{Line, Lines, Merchants, Place};
use settle_wiring::Context;

#[derive(Debug, Subcommand)]
pub(super) enum SettlementCommand {
    /// Import completed settlements, one JSON object a line or one array of objects
    ///
    /// An object has the fields of the settlement record and `merchant_id`, and may have `pricing` with
    /// `provider_rate`, `spread_revenue` and `partner_commission`. Importing the same settlement again is
    /// fine. If any object is bad nothing is imported: also if it pays out more than `incoming_amount`,
    /// `conversion_rate` and the fees allow, rounded down. More than 1,000 objects are first checked and
    /// written down as a whole, then accepted, then recorded in steps beside everybody's work: lists show
    /// them little by little. If the command dies before they are accepted, nothing is imported. If it dies
    /// afterwards, the service, or the next import, goes on with the rest after half a minute.
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
    /// Also record outgoing amounts that are more than a settlement's own figures allow
    ///
    /// For records from elsewhere that round otherwise. Such a settlement remembers that it was recorded
    /// unchecked; merchants do not see it. An object can say so itself, with `"unchecked": true`.
    #[arg(long)]
    unchecked: bool,
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
            let (would, nothing) = if import.dry_run {
                (" would be", " Nothing was changed: this was a dry run.")
            } else {
                ("", "")
            };
            let recorded = output::counted(done.recorded, "settlement", "settlements");
            let were = if done.unchanged == 1 { "was" } else { "were" };
            let notified = if import.notify {
                let notifications = output::counted(done.notified, "notification", "notifications");
                format!(", {notifications}{would} enqueued")
            } else {
                String::new()
            };
            format!("{recorded}{would} recorded, {} {were} there already{notified}.{nothing}", done.unchanged)
        };
        Ok(output::print(import.format, &done, text)?)
    }
}

impl Import {
    /// Reads the file once to find every problem, and a second time to record it. So the database never waits
    /// for the input.
    async fn import(&self, context: &Context) -> Result<Imported, CommandError> {
        let lines = Lines::open(&self.file, self.merchant, self.unchecked)?;
        let progress = Progress::over_bytes(lines.bytes()?, "checking");
        let merchants = lines.check(&progress)?;
        progress.rewind("recording");
        let mut read = lines.read(&progress)?;
        let first: Vec<Line> = read.by_ref().take(BATCH_MAX + 1).collect::<Result<_, _>>()?;
        if first.len() <= BATCH_MAX {
            return self.import_at_once(context, &merchants, first, &progress).await;
        }
        let mut lines = first.into_iter().map(Ok).chain(read);
        if self.dry_run {
            return steps::dry_run(context, self.notify, &merchants, &mut lines, &progress).await;
        }
        steps::import(context, self.notify, &merchants, &mut lines, &progress).await
    }

    /// Few lines are one transaction.
    async fn import_at_once(
        &self,
        context: &Context,
        merchants: &Merchants,
        lines: Vec<Line>,
        progress: &Progress,
    ) -> Result<Imported, CommandError> {
        let mut work = context.command_outbox().begin().await?;
        let lock = work.merchant_lock(&merchants.ids()).await?;
        merchants.refuse_unknown(lock.merchants())?;
        let mut done = Imported::default();
        let batch = Batch::new(lines);
        if !batch.settlements.is_empty() {
            batch.record(&mut work, &lock, self.notify, &mut done).await?;
        }
        if !self.dry_run {
            work.commit().await?;
        }
        progress.finish();
        Ok(done)
    }
}

/// Settlements that one transaction records, and their places.
struct Batch {
    places: Vec<Place>,
    settlements: Vec<NewSettlement>,
}

impl Batch {
    fn new(lines: impl IntoIterator<Item = Line>) -> Batch {
        let (places, settlements) =
            lines.into_iter().map(|line| (line.place, NewSettlement::from(line.settlement))).unzip();
        Batch { places, settlements }
    }

    /// Records the settlements, without a commit.
    async fn record(
        &self,
        work: &mut Work,
        lock: &MerchantLock,
        notify: bool,
        done: &mut Imported,
    ) -> Result<(), CommandError> {
        let completed = if notify {
            work.complete(lock, &self.settlements).await?
        } else {
            work.record(lock, &self.settlements).await?
        };
        let Completed { recorded, conflicting, payments, reserved, notifications, .. } = completed;
        self.refuse(&conflicting, &payments, &reserved)?;
        done.recorded += recorded.len();
        done.unchanged += self.settlements.len() - recorded.len();
        done.notified += notifications;
        Ok(())
    }

    /// Names the place of a settlement that is in the way.
    fn refuse(
        &self,
        conflicting: &[(MerchantId, SettlementId)],
        payments: &[(MerchantId, SettlementId)],
        reserved: &[(MerchantId, SettlementId)],
    ) -> Result<(), CommandError> {
        let (key, what) = match (payments.first(), conflicting.first(), reserved.first()) {
            (Some(key), _, _) => {
                (key, "has the id or the payin_reference of a payment, which the engine settles")
            }
            (None, Some(key), _) => (key, "is there already with other content"),
            (None, None, Some(key)) => (key, "is in another import under way, with other content"),
            (None, None, None) => return Ok(()),
        };
        let same = |row: &NewSettlement| (row.merchant_id, row.settlement_id) == *key;
        let place = self.settlements.iter().rposition(same).map(|position| self.places[position].to_string());
        Err(refused(&place.unwrap_or_default(), key.1, what))
    }
}

fn refused(place: &str, id: SettlementId, what: &str) -> CommandError {
    CommandError::Refused(format!("{place}: settlement_id: {id} {what}; nothing was imported"))
}
