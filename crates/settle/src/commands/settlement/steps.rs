//! Imports more lines than one transaction records, beside everybody's work, all of them or none.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use settle_domain::ids::{MerchantId, SettlementId};
use settle_outbox::Outbox;
use settle_outbox::imports::finisher::Finisher;
use settle_outbox::imports::{Pace, Staging, Steps};
use settle_store::{BATCH_MAX, IMPORT_STEP_ROWS, IMPORTS_MAX, NewSettlement};
use settle_wiring::Context;

use super::lines::{Line, Merchants};
use super::{Batch, Imported, refused};
use crate::commands::CommandError;
use crate::commands::progress::Progress;

/// Lines that pass one has accepted.
type Checked<'a> = &'a mut dyn Iterator<Item = Result<Line, CommandError>>;

/// Stages all lines, accepts them as a whole, and records them.
pub(super) async fn import(
    context: &Context,
    notify: bool,
    merchants: &Merchants,
    lines: Checked<'_>,
    progress: &Progress,
) -> Result<Imported, CommandError> {
    let outbox = context.command_outbox();
    refuse_unknown(&outbox, merchants).await?;
    // Those whose commands have died would be in the way.
    Finisher::new(outbox.clone()).finish().await?;
    let crowded =
        || CommandError::Refused(format!("{IMPORTS_MAX} imports are under way: wait for one to end"));
    let mut staging = Staging::begin(outbox.clone(), notify).await?.ok_or_else(crowded)?;
    let total = match stage(&outbox, &mut staging, lines).await {
        Ok(total) => total,
        Err(refusal) => {
            progress.finish();
            // What cannot be deleted now, a service deletes later.
            if let Ok(mut steps) = staging.discard().await {
                let _ = steps.take_all(|_| ()).await;
            }
            return Err(refusal);
        }
    };
    progress.finish();
    let staged = staging.staged();
    let steps = staging.accept().await?.ok_or_else(discarded)?;
    record(steps, total, staged).await
}

/// Stages every line, in short transactions with a rest after each, and says how many lines there were.
async fn stage(outbox: &Outbox, staging: &mut Staging, lines: Checked<'_>) -> Result<usize, CommandError> {
    let mut total = 0;
    loop {
        let lines: Vec<Line> = lines.take(IMPORT_STEP_ROWS as usize).collect::<Result<_, _>>()?;
        if lines.is_empty() {
            return Ok(total);
        }
        total += lines.len();
        let batch = Batch::new(lines);
        let pace = Pace::begin(outbox);
        let staged = staging.stage(&batch.settlements).await?.ok_or_else(discarded)?;
        batch.refuse(&staged.conflicting, &staged.payments, &staged.reserved)?;
        pace.rest().await;
    }
}

/// Records what was accepted. Whatever fails now, a service goes on with it.
async fn record(mut steps: Steps, total: usize, staged: u64) -> Result<Imported, CommandError> {
    let progress = Progress::over_rows(staged, "recording");
    let ended = steps.take_all(|left| progress.at(staged.saturating_sub(left))).await;
    progress.finish();
    let import = ended.map_err(|fault| {
        CommandError::Refused(format!(
            "all lines are accepted, but not all are recorded yet: a running service records the others, \
             or the next import ({})",
            crate::commands::explained(&fault)
        ))
    })?;
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let (recorded, notified) =
        import.map_or((count(staged), 0), |import| (count(import.recorded), count(import.notified)));
    Ok(Imported { recorded, unchanged: total.saturating_sub(recorded), notified })
}

/// Finds out what would be imported, in transactions that are all rolled back. It remembers the settlements
/// it has seen, forty bytes each: nothing else knows them.
pub(super) async fn dry_run(
    context: &Context,
    notify: bool,
    merchants: &Merchants,
    lines: Checked<'_>,
    progress: &Progress,
) -> Result<Imported, CommandError> {
    let outbox = context.command_outbox();
    refuse_unknown(&outbox, merchants).await?;
    let mut seen: HashMap<(MerchantId, SettlementId), u64> = HashMap::new();
    let mut done = Imported::default();
    loop {
        let lines: Vec<Line> = lines.take(IMPORT_STEP_ROWS as usize).collect::<Result<_, _>>()?;
        if lines.is_empty() {
            progress.finish();
            return Ok(done);
        }
        let mut batch = Batch::new(Vec::new());
        let Batch { places, settlements } = Batch::new(lines);
        for (place, row) in places.into_iter().zip(settlements) {
            let (key, hash) = ((row.merchant_id, row.settlement_id), content_hash(&row));
            match seen.insert(key, hash) {
                None => {
                    batch.places.push(place);
                    batch.settlements.push(row);
                }
                Some(earlier) if earlier == hash => done.unchanged += 1,
                Some(_) => {
                    return Err(refused(&place.to_string(), key.1, "is there already with other content"));
                }
            }
        }
        let pace = Pace::begin(&outbox);
        let mut work = outbox.begin().await?;
        let merchants: Vec<MerchantId> = batch.settlements.iter().map(|row| row.merchant_id).collect();
        let lock = work.merchant_lock(&merchants).await?;
        batch.record(&mut work, &lock, notify, &mut done).await?;
        drop(work);
        pace.rest().await;
    }
}

fn content_hash(row: &NewSettlement) -> u64 {
    let mut hasher = DefaultHasher::new();
    row.record.as_str().hash(&mut hasher);
    format!("{:?}", row.pricing).hash(&mut hasher);
    hasher.finish()
}

/// Names the merchants that do not exist, in transactions that each lock some of them for a moment.
async fn refuse_unknown(outbox: &Outbox, merchants: &Merchants) -> Result<(), CommandError> {
    let mut known = Vec::new();
    for group in merchants.ids().chunks(BATCH_MAX) {
        let mut work = outbox.begin().await?;
        known.extend_from_slice(work.merchant_lock(group).await?.merchants());
    }
    merchants.refuse_unknown(&known)
}

/// Why an import that stood still for too long, or whose rows were lost with the database, is not accepted.
fn discarded() -> CommandError {
    CommandError::Refused(
        "the import stood still for so long that a service discarded it, or the database lost a part of it; \
         nothing was imported: import it again"
            .to_owned(),
    )
}
