//! How many rows a merchant has, and when it is due: written once, when a transaction commits.

use rusqlite::params;
use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;
use settle_store::{CountChange, DUE_LAG, StoreError, StoreResult};

use crate::SqliteTx;
use crate::convert::{Hex, json_rows};
use crate::error::store_error;
use crate::run::Run;

settle_store::statements! {
    hot COUNT = "
        UPDATE merchant_counts
        SET settlements = merchant_counts.settlements + changed.settlements,
            deliveries_pending = deliveries_pending + changed.pending,
            deliveries_delivered = deliveries_delivered + changed.delivered,
            deliveries_dead = deliveries_dead + changed.dead,
            next_due_at = ifnull(min(next_due_at, changed.due_at), ifnull(next_due_at, changed.due_at))
        FROM (SELECT unhex(row.value ->> 0) AS merchant_id, row.value ->> 1 AS settlements,
                     row.value ->> 2 AS pending, row.value ->> 3 AS delivered, row.value ->> 4 AS dead,
                     row.value ->> 5 AS due_at
              FROM jsonb_each(?1) AS row) AS changed
        WHERE merchant_counts.merchant_id = changed.merchant_id";
    // Deliveries have gone, or wait for longer. The time at which the merchant is due is written when the
    // first is due after ?2, or when it lags behind by more than ?3 microseconds: not for every row that is
    // sent.
    hot COUNT_RECORDED = "
        UPDATE merchant_counts
        SET settlements = merchant_counts.settlements + changed.settlements,
            deliveries_pending = deliveries_pending + changed.pending,
            deliveries_delivered = deliveries_delivered + changed.delivered,
            deliveries_dead = deliveries_dead + changed.dead,
            next_due_at = CASE
                WHEN changed.first_at IS NULL THEN iif(next_due_at + ?3 >= ?2, next_due_at, NULL)
                WHEN changed.first_at <= ?2 AND changed.first_at <= next_due_at + ?3 THEN next_due_at
                ELSE changed.first_at END
        FROM (SELECT unhex(row.value ->> 0) AS merchant_id, row.value ->> 1 AS settlements,
                     row.value ->> 2 AS pending, row.value ->> 3 AS delivered, row.value ->> 4 AS dead,
                     (SELECT next_attempt_at FROM deliveries
                      WHERE merchant_id = unhex(row.value ->> 0) AND status = 'pending'
                      ORDER BY next_attempt_at LIMIT 1) AS first_at
              FROM jsonb_each(?1) AS row) AS changed
        WHERE merchant_counts.merchant_id = changed.merchant_id";
}

impl SqliteTx {
    /// Writes what was noted.
    pub(crate) fn write_counts(&mut self) -> StoreResult<()> {
        let changes = self.counts.take();
        if changes.is_empty() {
            return Ok(());
        }
        let rows = json_rows(changes.iter().map(row));
        let counted = match self.recorded_at {
            None => self.writer.change(COUNT, [rows]),
            Some(at) => {
                let lag = i64::try_from(DUE_LAG.as_micros()).unwrap_or(i64::MAX);
                self.writer.change(COUNT_RECORDED, params![rows, at.as_micros(), lag])
            }
        };
        if counted.map_err(store_error)? != changes.len() {
            return Err(StoreError::unexpected("rows of a merchant that was not locked"));
        }
        Ok(())
    }
}

fn row((merchant, change): &(MerchantId, CountChange)) -> impl serde::Serialize {
    let CountChange { settlements, pending, delivered, dead, due_at } = *change;
    let due_at = due_at.map(Timestamp::as_micros);
    (Hex(*merchant.0.as_bytes()), settlements, pending, delivered, dead, due_at)
}
