//! How many rows a merchant has, and when it is due. A transaction writes this once, when it commits: a row
//! that changes twice would be written twice. The totals of all merchants change with it.

use settle_store::{DUE_LAG, StoreError, StoreResult};

use crate::PostgresTx;
use crate::convert::{At, array};
use crate::error::store_error;

settle_store::statements! {
    hot COUNT = "
        WITH total AS (
            UPDATE delivery_totals SET pending = pending + $7, dead = dead + $8
            WHERE slot = pg_backend_pid() % 256 AND ($7 <> 0 OR $8 <> 0)
        )
        UPDATE merchant_counts
        SET settlements = merchant_counts.settlements + changed.settlements,
            deliveries_pending = deliveries_pending + changed.pending,
            deliveries_delivered = deliveries_delivered + changed.delivered,
            deliveries_dead = deliveries_dead + changed.dead,
            next_due_at = least(next_due_at, changed.due_at)
        FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::timestamptz[])
            AS changed (merchant_id, settlements, pending, delivered, dead, due_at)
        WHERE merchant_counts.merchant_id = changed.merchant_id";
    // For a transaction that has recorded outcomes: deliveries have left the queue, or are due later.
    // `next_due_at` is indexed and so not changed for every delivery: only when the merchant's first pending
    // one is due after $9, or `next_due_at` is more than $10 seconds too early.
    hot COUNT_RECORDED = "
        WITH total AS (
            UPDATE delivery_totals SET pending = pending + $7, dead = dead + $8
            WHERE slot = pg_backend_pid() % 256 AND ($7 <> 0 OR $8 <> 0)
        )
        UPDATE merchant_counts
        SET settlements = merchant_counts.settlements + changed.settlements,
            deliveries_pending = deliveries_pending + changed.pending,
            deliveries_delivered = deliveries_delivered + changed.delivered,
            deliveries_dead = deliveries_dead + changed.dead,
            next_due_at = CASE
                WHEN first.due_at IS NULL
                THEN CASE WHEN own.due_at BETWEEN $9::timestamptz - $10 * interval '1 second'
                                              AND $9::timestamptz + $10 * interval '1 second' THEN own.due_at END
                WHEN first.due_at <= $9 AND first.due_at <= own.due_at + $10 * interval '1 second'
                THEN own.due_at ELSE first.due_at END
        FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::timestamptz[])
            AS changed (merchant_id, settlements, pending, delivered, dead, due_at)
        CROSS JOIN LATERAL (
            SELECT least(next_due_at, changed.due_at) AS due_at, endpoint_epoch FROM merchant_counts
            WHERE merchant_id = changed.merchant_id LIMIT 1
        ) AS own
        LEFT JOIN LATERAL (
            -- No pending row is due earlier; only sent rows that are not vacuumed yet are there.
            SELECT next_attempt_at AS due_at FROM deliveries
            WHERE merchant_id = changed.merchant_id AND status = 'pending'
              AND endpoint_epoch = own.endpoint_epoch AND next_attempt_at >= own.due_at
            ORDER BY next_attempt_at LIMIT 1
        ) AS first ON true
        WHERE merchant_counts.merchant_id = changed.merchant_id";
}

impl PostgresTx {
    /// Writes the changes collected so far.
    pub(crate) async fn write_counts(&mut self) -> StoreResult<()> {
        let changes = self.counts.take();
        if changes.is_empty() {
            return Ok(());
        }
        let query = sqlx::query(if self.recorded_at.is_some() { COUNT_RECORDED } else { COUNT })
            .bind(array(&changes, |(merchant, _)| merchant.0))
            .bind(array(&changes, |(_, change)| change.settlements))
            .bind(array(&changes, |(_, change)| change.pending))
            .bind(array(&changes, |(_, change)| change.delivered))
            .bind(array(&changes, |(_, change)| change.dead))
            .bind(array(&changes, |(_, change)| change.due_at.map(At)))
            .bind(changes.iter().map(|(_, change)| change.pending).sum::<i64>())
            .bind(changes.iter().map(|(_, change)| change.dead).sum::<i64>());
        let query = match self.recorded_at {
            None => query,
            Some(at) => query.bind(At(at)).bind(DUE_LAG.as_secs_f64()),
        };
        let counted = query.execute(&mut *self.inner).await.map_err(store_error)?;
        if counted.rows_affected() != changes.len() as u64 {
            return Err(StoreError::unexpected("rows of a merchant that was not locked"));
        }
        Ok(())
    }
}
