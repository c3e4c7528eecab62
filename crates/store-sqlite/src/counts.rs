//! How many rows a merchant has, and when it is due. A transaction writes this once, when it commits: a row
//! that changes twice would be written twice. The totals of all merchants change with it.

use rusqlite::Row;
use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;
use settle_store::{CountChange, DUE_LAG, StoreError, StoreResult};

use crate::SqliteTx;
use crate::convert::column;
use crate::error::store_error;
use crate::query::Query;

settle_store::statements! {
    hot COUNT = "
        UPDATE merchant_counts
        SET settlements = settlements + ?2, deliveries_pending = deliveries_pending + ?3,
            deliveries_delivered = deliveries_delivered + ?4, deliveries_dead = deliveries_dead + ?5
        WHERE merchant_id = ?1";
    // SQLite writes an index anew for every row whose indexed column is set, to the same value too.
    hot COUNT_AND_MOVE = "
        UPDATE merchant_counts
        SET settlements = settlements + ?2, deliveries_pending = deliveries_pending + ?3,
            deliveries_delivered = deliveries_delivered + ?4, deliveries_dead = deliveries_dead + ?5,
            next_due_at = ?6
        WHERE merchant_id = ?1";
    hot TOTAL = "UPDATE delivery_totals SET pending = pending + ?1, dead = dead + ?2 WHERE slot = 0";
    // Differs because SQLite has no round trips to save: what PostgreSQL decides in the statement is read,
    // and decided here.
    hot DUE = "SELECT next_due_at FROM merchant_counts WHERE merchant_id = ?1";
    hot DUE_AND_FIRST = "
        SELECT next_due_at, (SELECT next_attempt_at FROM deliveries
                             WHERE merchant_id = ?1 AND endpoint_epoch = ?2 AND status = 'pending'
                             ORDER BY next_attempt_at LIMIT 1)
        FROM merchant_counts WHERE merchant_id = ?1";
}

/// The time at which a merchant is due, in microseconds: as it is stored, and as it shall be.
struct Due {
    stored: Option<i64>,
    next: Option<i64>,
}

impl SqliteTx {
    /// Writes the changes collected so far.
    pub(crate) async fn write_counts(&mut self) -> StoreResult<()> {
        let changes = self.counts.take();
        if changes.is_empty() {
            return Ok(());
        }
        let total = changes
            .iter()
            .fold((0, 0), |(pending, dead), (_, change)| (pending + change.pending, dead + change.dead));
        self.change_totals(total)?;
        let (mut counted, mut moved) = (Vec::with_capacity(changes.len()), Vec::new());
        for ((merchant, change), due) in changes.iter().zip(self.due(&changes).await?) {
            let unlocked = || StoreError::unexpected("rows of a merchant that was not locked");
            let Due { stored, next } = due.ok_or_else(unlocked)?;
            let CountChange { settlements, pending, delivered, dead, due_at: _ } = *change;
            if stored == next {
                counted.push((merchant.0, settlements, pending, delivered, dead));
            } else {
                moved.push((merchant.0, settlements, pending, delivered, dead, next));
            }
        }
        self.writer.change_each(COUNT, counted.into_iter()).await?;
        self.writer.change_each(COUNT_AND_MOVE, moved.into_iter()).await?;
        Ok(())
    }

    /// When each of the merchants is due; nothing for one that there is not.
    async fn due(&mut self, changes: &[(MerchantId, CountChange)]) -> StoreResult<Vec<Option<Due>>> {
        let recorded_at = self.recorded_at.map(Timestamp::as_micros);
        let found = if recorded_at.is_some() {
            let epochs = self.epochs.of_each(changes.iter().map(|(merchant, _)| *merchant))?;
            let merchants = changes.iter().zip(epochs).map(|((merchant, _), epoch)| (merchant.0, epoch));
            let found = |row: &Row<'_>| Ok((column(row, 0)?, column(row, 1)?));
            self.writer.row_each(DUE_AND_FIRST, merchants, found).await?
        } else {
            let merchants = changes.iter().map(|(merchant, _)| [merchant.0]);
            self.writer.row_each(DUE, merchants, |row| Ok((column(row, 0)?, None))).await?
        };
        let mut due = Vec::with_capacity(found.len());
        for ((_, change), found) in changes.iter().zip(found) {
            due.push(found.map(|(stored, first): (Option<i64>, Option<i64>)| {
                let known = stored.into_iter().chain(change.due_at.map(Timestamp::as_micros)).min();
                Due { stored, next: recorded_at.map_or(known, |at| next_due(at, known, first)) }
            }));
        }
        Ok(due)
    }

    /// So many more deliveries of all merchants are pending and dead.
    pub(crate) fn change_totals(&mut self, (pending, dead): (i64, i64)) -> StoreResult<()> {
        if (pending, dead) != (0, 0) {
            self.writer.connection()?.change(TOTAL, [pending, dead]).map_err(store_error)?;
        }
        Ok(())
    }
}

/// When a merchant is due after outcomes were recorded: deliveries have left the queue, or are due later. The
/// known time is indexed and so not written for every delivery: only when the merchant's first pending one is
/// due after `recorded_at`, or the known time is more than [`DUE_LAG`] too early.
fn next_due(recorded_at: i64, known: Option<i64>, first: Option<i64>) -> Option<i64> {
    let lag = i64::try_from(DUE_LAG.as_micros()).unwrap_or(i64::MAX);
    let near = recorded_at.saturating_sub(lag)..=recorded_at.saturating_add(lag);
    match first {
        None => known.filter(|known| near.contains(known)),
        Some(first) if first > recorded_at => Some(first),
        Some(first) => known.filter(|known| first <= known.saturating_add(lag)).or(Some(first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merchant_is_due_again_within_the_lag() {
        let lag = i64::try_from(DUE_LAG.as_micros()).expect("a second or so");
        let now = 1_767_225_600_000_000;
        let cases = [
            ("nothing waits, and it was due just now", Some(now - lag), None, Some(now - lag)),
            ("nothing waits, and it was due earlier", Some(now - lag - 1), None, None),
            ("nothing waits, by a clock that is ahead", Some(now + lag), None, Some(now + lag)),
            ("nothing waits, by a clock that is far ahead", Some(now + lag + 1), None, None),
            ("nothing waits, and it was not due", None, None, None),
            ("one waits for later", Some(now - 1), Some(now + 1), Some(now + 1)),
            ("one is due now, and it is known", Some(now - 1), Some(now), Some(now - 1)),
            ("one is due, and it is known nearly", Some(now - lag - 5), Some(now - 5), Some(now - lag - 5)),
            ("one is due, and it is known too early", Some(now - lag - 6), Some(now - 5), Some(now - 5)),
            ("one is due, and nobody knows it", None, Some(now - 5), Some(now - 5)),
            ("a damaged row", Some(i64::MAX), Some(now), Some(i64::MAX)),
        ];
        for (case, known, first, expected) in cases {
            assert_eq!(next_due(now, known, first), expected, "{case}");
        }
    }
}
