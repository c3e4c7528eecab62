//! Clearings: endpoints that were cleared while more deliveries waited than one transaction ends.

use async_trait::async_trait;
use settle_domain::delivery::ENDPOINT_CLEARED;
use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;
use settle_store::{
    ClearingReads, ClearingStep, ClearingWrites, ClearingsLeft, MerchantLock, StoreError, StoreResult,
};
use uuid::Uuid;

use crate::convert::{At, column, number, optional_time, signed, time};
use crate::error::store_error;
use crate::{PostgresStore, PostgresTx};

/// How many deliveries one statement ends: a millisecond's work. On a server of few processors whoever wakes
/// up to answer somebody may have to wait behind it; between two statements the processor is his. Differs
/// because SQLite's statement executes on a thread of ours, which yields the processor by itself.
const ENDED_AT_A_TIME: u32 = 40;

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
    hot NEXT = "
        SELECT endpoint_epoch, cleared_at, waiting, after_due_at, after_delivery_id FROM clearings
        WHERE merchant_id = $1 ORDER BY endpoint_epoch LIMIT 1";
    // Does to many rows what the domain does on `DeliveryEvent::EndpointGone`; the suite's
    // `clear_is_the_domains_endpoint_gone` compares them. It starts behind the last row that was ended:
    // earlier in the index are only entries that are not vacuumed yet.
    hot END_WAITING = "
        WITH ended AS (
            UPDATE deliveries
            SET status = 'dead', last_error = $6, next_attempt_at = least(deliveries.next_attempt_at, $7)
            FROM (
                SELECT ctid AS place, next_attempt_at AS due_at, delivery_id AS ended_id FROM deliveries
                WHERE merchant_id = $1 AND endpoint_epoch = $2 AND status = 'pending'
                  AND (next_attempt_at, delivery_id) > ($3, $4)
                ORDER BY next_attempt_at, delivery_id LIMIT $5
            ) AS waiting
            WHERE deliveries.ctid = waiting.place
            RETURNING waiting.due_at, waiting.ended_id
        )
        SELECT (SELECT count(*) FROM ended) AS number, due_at, ended_id FROM ended
        ORDER BY due_at DESC, ended_id DESC LIMIT 1";
    // What a step has ended is counted once. A clearing ends with its last row.
    hot COUNT_ENDED = "
        WITH goes_on AS (
            UPDATE clearings SET waiting = $4, after_due_at = $5, after_delivery_id = $6
            WHERE merchant_id = $1 AND endpoint_epoch = $2 AND $4 > 0
        ), finished AS (
            DELETE FROM clearings WHERE merchant_id = $1 AND endpoint_epoch = $2 AND $4 = 0
        ), counted AS (
            UPDATE merchant_counts
            SET deliveries_pending = deliveries_pending - $3, deliveries_dead = deliveries_dead + $3
            WHERE merchant_id = $1 AND $3 > 0
        )
        UPDATE delivery_totals SET pending = pending - $3, dead = dead + $3
        WHERE slot = pg_backend_pid() % 256 AND $3 > 0";
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
        let query = sqlx::query(NEXT).bind(merchant.0);
        let Some(row) = query.fetch_optional(&mut *self.inner).await.map_err(store_error)? else {
            return Ok(ClearingStep::default());
        };
        let clearing = Clearing {
            merchant,
            epoch: column(&row, "endpoint_epoch")?,
            cleared_at: time(&row, "cleared_at")?,
            ended: 0,
            waiting: number(&row, "waiting")?,
            after: (time(&row, "after_due_at")?, column(&row, "after_delivery_id")?),
        };
        self.go_on(clearing, ended_max).await
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
        let clearing =
            Clearing { merchant, epoch, cleared_at, ended: 0, waiting, after: (due_at, Uuid::nil()) };
        let query = sqlx::query(LEAVE).bind(merchant.0).bind(epoch).bind(At(cleared_at));
        let query = query.bind(signed(waiting)).bind(At(due_at)).bind(Uuid::nil());
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        self.go_on(clearing, ended_max).await
    }

    /// Ends the next deliveries of a clearing, at most so many, and counts them.
    async fn go_on(&mut self, mut clearing: Clearing, ended_max: u32) -> StoreResult<ClearingStep> {
        let mut allowed = ended_max;
        let mut goes_on = true;
        // Where all that are counted have ended it looks once more: others that waited would wait for ever.
        while goes_on && (allowed > 0 || clearing.waiting == 0) {
            let at_a_time = allowed.clamp(1, ENDED_AT_A_TIME);
            goes_on = self.end(&mut clearing, at_a_time).await?;
            allowed = allowed.saturating_sub(at_a_time);
        }
        let Clearing { merchant, epoch, ended, waiting: left, after: (due_at, delivery), .. } = clearing;
        let query = sqlx::query(COUNT_ENDED).bind(merchant.0).bind(epoch).bind(signed(ended));
        let query = query.bind(signed(left)).bind(At(due_at)).bind(delivery);
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(ClearingStep { ended, left })
    }

    /// Ends the next deliveries with one statement, at most so many; says whether there may be more.
    async fn end(&mut self, clearing: &mut Clearing, ended_max: u32) -> StoreResult<bool> {
        let Clearing { merchant, epoch, cleared_at, waiting, after: (due_at, delivery), .. } = *clearing;
        let query = sqlx::query(END_WAITING).bind(merchant.0).bind(epoch).bind(At(due_at)).bind(delivery);
        let query = query.bind(signed(ended_max)).bind(ENDPOINT_CLEARED).bind(At(cleared_at));
        let last = query.fetch_optional(&mut *self.inner).await.map_err(store_error)?;
        let mut ended = 0;
        if let Some(last) = last {
            ended = number(&last, "number")?;
            clearing.after = (time(&last, "due_at")?, column(&last, "ended_id")?);
        }
        let left = waiting.checked_sub(ended);
        let left = left.ok_or_else(|| StoreError::unexpected("more deliveries waited than are counted"))?;
        // Whoever finds fewer than he may end has found the last.
        let goes_on = ended == u64::from(ended_max);
        clearing.ended += ended;
        clearing.waiting = if goes_on { left } else { 0 };
        Ok(goes_on)
    }
}

/// A clearing within a transaction.
#[derive(Debug)]
struct Clearing {
    merchant: MerchantId,
    epoch: i32,
    cleared_at: Timestamp,
    /// Deliveries that the transaction has ended.
    ended: u64,
    /// Deliveries that are left.
    waiting: u64,
    /// When the last one that was ended had been due, and its id.
    after: (Timestamp, Uuid),
}
