//! How many rows a merchant has, and when it is due. A transaction writes this once, when it commits: a row
//! that changes twice would be written twice. The totals of all merchants change with it.

use settle_domain::time::Timestamp;
use settle_store::{CountChange, DUE_LAG, StoreError, StoreResult};

use crate::SqliteTx;
use crate::error::store_error;
use crate::query::Query;

settle_store::statements! {
    hot COUNT = "
        UPDATE merchant_counts
        SET settlements = settlements + ?2, deliveries_pending = deliveries_pending + ?3,
            deliveries_delivered = deliveries_delivered + ?4, deliveries_dead = deliveries_dead + ?5,
            next_due_at = ifnull(min(next_due_at, ?6), ifnull(next_due_at, ?6))
        WHERE merchant_id = ?1";
    hot TOTAL = "UPDATE delivery_totals SET pending = pending + ?1, dead = dead + ?2 WHERE slot = 0";
    // For a transaction that has recorded outcomes: deliveries have left the queue, or are due later.
    // `next_due_at` is indexed and so not written for every delivery: only when the merchant's first pending
    // one is due after ?6, or `next_due_at` is more than ?7 microseconds too early.
    hot COUNT_RECORDED = "
        UPDATE merchant_counts
        SET settlements = merchant_counts.settlements + ?2, deliveries_pending = deliveries_pending + ?3,
            deliveries_delivered = deliveries_delivered + ?4, deliveries_dead = deliveries_dead + ?5,
            next_due_at = CASE
                WHEN first.at IS NULL THEN iif(next_due_at BETWEEN ?6 - ?7 AND ?6 + ?7, next_due_at, NULL)
                WHEN first.at <= ?6 AND first.at <= next_due_at + ?7 THEN next_due_at
                ELSE first.at END
        FROM (SELECT (SELECT next_attempt_at FROM deliveries
                      WHERE merchant_id = ?1 AND endpoint_epoch = ?8 AND status = 'pending'
                      ORDER BY next_attempt_at LIMIT 1) AS at) AS first
        WHERE merchant_id = ?1";
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
        let lag = i64::try_from(DUE_LAG.as_micros()).unwrap_or(i64::MAX);
        let counted = match self.recorded_at.map(Timestamp::as_micros) {
            None => {
                let rows = changes.iter().map(|(merchant, change)| {
                    let CountChange { settlements, pending, delivered, dead, due_at } = *change;
                    (merchant.0, settlements, pending, delivered, dead, due_at.map(Timestamp::as_micros))
                });
                self.writer.change_each(COUNT, rows).await
            }
            Some(at) => {
                let epochs = self.epochs.of_each(changes.iter().map(|(merchant, _)| *merchant))?;
                let rows = changes.iter().zip(epochs).map(|((merchant, change), epoch)| {
                    let CountChange { settlements, pending, delivered, dead, due_at: _ } = *change;
                    (merchant.0, settlements, pending, delivered, dead, at, lag, epoch)
                });
                self.writer.change_each(COUNT_RECORDED, rows).await
            }
        };
        if counted?.contains(&false) {
            return Err(StoreError::unexpected("rows of a merchant that was not locked"));
        }
        Ok(())
    }

    /// So many more deliveries of all merchants are pending and dead.
    pub(crate) fn change_totals(&mut self, (pending, dead): (i64, i64)) -> StoreResult<()> {
        if (pending, dead) != (0, 0) {
            self.writer.connection()?.change(TOTAL, [pending, dead]).map_err(store_error)?;
        }
        Ok(())
    }
}
