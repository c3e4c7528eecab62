//! Clearings: endpoints that were cleared while more deliveries waited than one transaction ends.

use async_trait::async_trait;
use settle_domain::delivery::ENDPOINT_CLEARED;
use settle_domain::ids::{DeliveryId, MerchantId};
use settle_domain::time::Timestamp;
use settle_store::{
    ClearingReads, ClearingStep, ClearingWrites, ClearingsLeft, MerchantLock, StoreError, StoreResult,
};
use uuid::Uuid;

use crate::convert::{At, column, id, number, optional_time, signed, time};
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
    // Does to many rows what the domain does on `DeliveryEvent::EndpointGone`; the suite's
    // `clear_is_the_domains_endpoint_gone` compares them. Starts behind the last row that was ended: earlier
    // in the index are only entries that are not vacuumed yet. Gives the last row that it ended.
    hot END = "
        WITH ended AS (
            UPDATE deliveries
            SET status = 'dead', last_error = $3, next_attempt_at = least(deliveries.next_attempt_at, $4)
            FROM (
                SELECT ctid AS place, next_attempt_at AS due_at, delivery_id AS ended_id FROM deliveries
                WHERE merchant_id = $1 AND endpoint_epoch = $2 AND status = 'pending'
                  AND (next_attempt_at, delivery_id) > ($5, $6)
                ORDER BY next_attempt_at, delivery_id LIMIT $7
            ) AS found
            WHERE deliveries.ctid = found.place
            RETURNING found.due_at, found.ended_id
        )
        SELECT due_at, ended_id, count(*) OVER () AS ended FROM ended
        ORDER BY due_at DESC, ended_id DESC LIMIT 1";
    hot COUNT_CLEARED = "
        WITH total AS (
            UPDATE delivery_totals SET pending = pending - $2, dead = dead + $2
            WHERE slot = pg_backend_pid() % 256 AND $2 <> 0
        )
        UPDATE merchant_counts
        SET deliveries_pending = deliveries_pending - $2, deliveries_dead = deliveries_dead + $2,
            next_due_at = NULL, endpoint_epoch = endpoint_epoch + 1
        WHERE merchant_id = $1";
    hot LEAVE = "
        INSERT INTO clearings (merchant_id, endpoint_epoch, cleared_at, waiting, after_due_at,
                               after_delivery_id)
        VALUES ($1, $2, $3, $4, $5, $6)";
    hot NEXT = "
        SELECT endpoint_epoch, cleared_at, waiting, after_due_at, after_delivery_id FROM clearings
        WHERE merchant_id = $1 ORDER BY endpoint_epoch LIMIT 1";
    hot GO_ON = "
        UPDATE clearings SET waiting = $3, after_due_at = $4, after_delivery_id = $5
        WHERE merchant_id = $1 AND endpoint_epoch = $2";
    hot FINISH = "DELETE FROM clearings WHERE merchant_id = $1 AND endpoint_epoch = $2";
}

/// A place in the order in which deliveries are due.
#[derive(Debug, Clone, Copy)]
struct Place {
    due_at: Timestamp,
    delivery_id: DeliveryId,
}

/// The deliveries of one epoch of a merchant, which have to end.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    merchant: MerchantId,
    epoch: i32,
    cleared_at: Timestamp,
    /// How many are left.
    number: u64,
    /// The last that has ended.
    after: Place,
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
        let next = sqlx::query(NEXT).bind(merchant.0).fetch_optional(&mut *self.inner).await;
        let Some(row) = next.map_err(store_error)? else {
            return Ok(ClearingStep::default());
        };
        let mut waiting = Waiting {
            merchant,
            epoch: column(&row, "endpoint_epoch")?,
            cleared_at: time(&row, "cleared_at")?,
            number: number(&row, "waiting")?,
            after: Place {
                due_at: time(&row, "after_due_at")?,
                delivery_id: id(&row, "after_delivery_id", DeliveryId)?,
            },
        };
        let ended = self.end(&mut waiting, ended_max).await?;
        self.counts.of(merchant).end(ended);
        let query = if waiting.number == 0 {
            sqlx::query(FINISH).bind(merchant.0).bind(waiting.epoch)
        } else {
            let query = sqlx::query(GO_ON).bind(merchant.0).bind(waiting.epoch).bind(signed(waiting.number));
            query.bind(At(waiting.after.due_at)).bind(waiting.after.delivery_id.0)
        };
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(ClearingStep { ended, left: waiting.number })
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
        let due_at = optional_time(&row, "next_due_at")?.unwrap_or(Timestamp::MIN);
        let epoch = self.epochs.of(merchant)?;
        let mut waiting = Waiting {
            merchant,
            epoch,
            cleared_at,
            number: number(&row, "waiting")?,
            // No pending row is due before the merchant is.
            after: Place { due_at, delivery_id: DeliveryId::NIL },
        };
        let ended = self.end(&mut waiting, ended_max).await?;
        let query = sqlx::query(COUNT_CLEARED).bind(merchant.0).bind(signed(ended));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        self.epochs.remember(merchant, epoch + 1);
        if waiting.number > 0 {
            let query = sqlx::query(LEAVE).bind(merchant.0).bind(epoch).bind(At(cleared_at));
            let query = query.bind(signed(waiting.number));
            let query = query.bind(At(waiting.after.due_at)).bind(waiting.after.delivery_id.0);
            query.execute(&mut *self.inner).await.map_err(store_error)?;
        }
        Ok(ClearingStep { ended, left: waiting.number })
    }

    /// Ends waiting deliveries, at most so many, and says how many.
    async fn end(&mut self, waiting: &mut Waiting, ended_max: u32) -> StoreResult<u64> {
        if waiting.number == 0 {
            return Ok(0);
        }
        let query = sqlx::query(END)
            .bind(waiting.merchant.0)
            .bind(waiting.epoch)
            .bind(ENDPOINT_CLEARED)
            .bind(At(waiting.cleared_at))
            .bind(At(waiting.after.due_at))
            .bind(waiting.after.delivery_id.0)
            .bind(signed(ended_max));
        let last = query.fetch_optional(&mut *self.inner).await.map_err(store_error)?;
        let ended = match last {
            None => 0,
            Some(row) => {
                let delivery_id = id(&row, "ended_id", DeliveryId)?;
                waiting.after = Place { due_at: time(&row, "due_at")?, delivery_id };
                number(&row, "ended")?
            }
        };
        let left = waiting.number.checked_sub(ended);
        let left = left.ok_or_else(|| StoreError::unexpected("more deliveries waited than are counted"))?;
        // Whoever finds fewer than allowed has found the last.
        waiting.number = if ended < ended_max.into() { 0 } else { left };
        Ok(ended)
    }
}
