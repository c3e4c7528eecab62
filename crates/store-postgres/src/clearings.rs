//! Clearings: endpoints that were cleared while more deliveries waited than one transaction ends.

use async_trait::async_trait;
use settle_domain::delivery::ENDPOINT_CLEARED;
use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;
use settle_store::{
    ClearingReads, ClearingStep, ClearingWrites, ClearingsLeft, MerchantLock, StoreError, StoreResult,
};
use uuid::Uuid;

use crate::convert::{At, column, number, optional_time, signed};
use crate::error::store_error;
use crate::{PostgresStore, PostgresTx};

settle_store::statements! {
    cold "a task's, every second; a row for each clearing" LEFT = "
        SELECT coalesce(sum(waiting), 0)::bigint AS deliveries,
               ARRAY(SELECT DISTINCT merchant_id FROM clearings ORDER BY merchant_id LIMIT $1) AS merchants
        FROM clearings";
    // What waits in the present epoch: whatever is pending and not of an earlier clearing.
    hot WAITING = "
        SELECT next_due_at, deliveries_pending - coalesce((
            SELECT sum(waiting) FROM clearings WHERE merchant_id = $1), 0)::bigint AS waiting
        FROM merchant_counts WHERE merchant_id = $1";
    hot CLEAR = "
        UPDATE merchant_counts SET next_due_at = NULL, endpoint_epoch = endpoint_epoch + 1
        WHERE merchant_id = $1";
    hot LEAVE = "
        INSERT INTO clearings (merchant_id, endpoint_epoch, cleared_at, waiting, after_due_at,
                               after_delivery_id)
        VALUES ($1, $2, $3, $4, $5, $6)";
    // A whole step of the merchant's oldest clearing from an epoch on, in one round trip. `ended` does to
    // many rows what the domain does on `DeliveryEvent::EndpointGone`; the suite's
    // `clear_is_the_domains_endpoint_gone` compares them. It starts behind the last row that was ended:
    // earlier in the index are only entries that are not vacuumed yet. Whoever finds fewer rows than allowed
    // has found the last.
    hot STEP = "
        WITH clearing AS (
            SELECT * FROM clearings WHERE merchant_id = $1 AND endpoint_epoch >= $2
            ORDER BY endpoint_epoch LIMIT 1
        ), ended AS (
            UPDATE deliveries
            SET status = 'dead', last_error = $4,
                next_attempt_at = least(deliveries.next_attempt_at, found.cleared_at)
            FROM (
                SELECT waiting.*, clearing.cleared_at FROM clearing CROSS JOIN LATERAL (
                    SELECT ctid AS place, next_attempt_at AS due_at, delivery_id AS ended_id FROM deliveries
                    WHERE merchant_id = $1 AND endpoint_epoch = clearing.endpoint_epoch
                      AND status = 'pending'
                      AND (next_attempt_at, delivery_id) > (clearing.after_due_at, clearing.after_delivery_id)
                    ORDER BY next_attempt_at, delivery_id LIMIT $3
                ) AS waiting
            ) AS found
            WHERE deliveries.ctid = found.place
            RETURNING found.due_at, found.ended_id
        ), step AS (
            SELECT endpoint_epoch, waiting, number, due_at, ended_id,
                   CASE WHEN number = $3 THEN waiting - number ELSE 0 END AS remaining
            FROM clearing CROSS JOIN (SELECT count(*) AS number FROM ended) AS counted
            LEFT JOIN (
                SELECT due_at, ended_id FROM ended ORDER BY due_at DESC, ended_id DESC LIMIT 1
            ) AS last ON true
        ), goes_on AS (
            UPDATE clearings SET waiting = remaining, after_due_at = due_at, after_delivery_id = ended_id
            FROM step WHERE merchant_id = $1 AND clearings.endpoint_epoch = step.endpoint_epoch
              AND number > 0 AND remaining > 0
        ), finished AS (
            DELETE FROM clearings USING step
            WHERE merchant_id = $1 AND clearings.endpoint_epoch = step.endpoint_epoch AND remaining = 0
        ), counted AS (
            UPDATE merchant_counts
            SET deliveries_pending = deliveries_pending - number, deliveries_dead = deliveries_dead + number
            FROM step WHERE merchant_id = $1 AND number > 0
        ), total AS (
            UPDATE delivery_totals SET pending = pending - number, dead = dead + number
            FROM step WHERE slot = pg_backend_pid() % 256 AND number > 0
        )
        SELECT number AS ended, remaining, waiting FROM step";
}

#[async_trait]
impl ClearingReads for PostgresStore {
    async fn clearing_left(&self, merchants_max: u32) -> StoreResult<ClearingsLeft> {
        let query = sqlx::query(LEFT).bind(signed(merchants_max));
        let row = query.fetch_one(&self.pool).await.map_err(store_error)?;
        let merchants: Vec<Uuid> = column(&row, "merchants")?;
        let merchants = merchants.into_iter().map(MerchantId).collect();
        Ok(ClearingsLeft { merchants, deliveries: number(&row, "deliveries")? })
    }
}

#[async_trait]
impl ClearingWrites for PostgresTx {
    async fn clearing_step(
        &mut self,
        lock: &MerchantLock,
        merchant: MerchantId,
        ended_max: u32,
    ) -> StoreResult<ClearingStep> {
        self.number.check(lock, [merchant])?;
        self.step(merchant, 0, ended_max).await
    }
}

impl PostgresTx {
    /// Raises the merchant's epoch, ends deliveries of the one before, and leaves a clearing for the others.
    pub(crate) async fn clear_deliveries(
        &mut self,
        merchant: MerchantId,
        cleared_at: Timestamp,
        ended_max: u32,
    ) -> StoreResult<ClearingStep> {
        // Rows that this transaction has enqueued must be counted as pending before they count as dead.
        self.write_counts().await?;
        let row = sqlx::query(WAITING).bind(merchant.0).fetch_one(&mut *self.inner).await;
        let row = row.map_err(store_error)?;
        let epoch = self.epochs.of(merchant)?;
        sqlx::query(CLEAR).bind(merchant.0).execute(&mut *self.inner).await.map_err(store_error)?;
        self.epochs.remember(merchant, epoch + 1);
        let waiting = number(&row, "waiting")?;
        if waiting == 0 {
            return Ok(ClearingStep::default());
        }
        // No pending row is due before the merchant is.
        let due_at = optional_time(&row, "next_due_at")?.unwrap_or(Timestamp::MIN);
        let query = sqlx::query(LEAVE).bind(merchant.0).bind(epoch).bind(At(cleared_at));
        let query = query.bind(signed(waiting)).bind(At(due_at)).bind(Uuid::nil());
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        self.step(merchant, epoch, ended_max).await
    }

    /// Ends deliveries of the merchant's oldest clearing from an epoch on, at most so many.
    async fn step(
        &mut self,
        merchant: MerchantId,
        epoch_min: i32,
        ended_max: u32,
    ) -> StoreResult<ClearingStep> {
        let query = sqlx::query(STEP).bind(merchant.0).bind(epoch_min);
        let query = query.bind(signed(ended_max)).bind(ENDPOINT_CLEARED);
        let Some(row) = query.fetch_optional(&mut *self.inner).await.map_err(store_error)? else {
            return Ok(ClearingStep::default());
        };
        let ended = number(&row, "ended")?;
        if ended > number(&row, "waiting")? {
            return Err(StoreError::unexpected("more deliveries waited than are counted"));
        }
        Ok(ClearingStep { ended, left: number(&row, "remaining")? })
    }
}
