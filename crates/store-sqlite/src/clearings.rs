//! Clearings: endpoints that were cleared while more deliveries waited than one transaction ends.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use settle_domain::delivery::ENDPOINT_CLEARED;
use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;
use settle_store::{
    ClearingReads, ClearingStep, ClearingWrites, ClearingsLeft, MerchantLock, StoreError, StoreResult,
};

use crate::connections::in_snapshot;
use crate::convert::{column, id, number, signed, time};
use crate::error::store_error;
use crate::query::Query;
use crate::threads::change_patiently;
use crate::{SqliteStore, SqliteTx};

settle_store::statements! {
    cold "a task's, every second; a row for each clearing" LEFT = "
        SELECT ifnull(sum(waiting), 0) FROM clearings";
    cold "a task's, every second; a row for each clearing" LEFT_OF = "
        SELECT DISTINCT merchant_id FROM clearings ORDER BY merchant_id LIMIT ?1 + 0";
    // What waits in the present epoch: whatever is pending and not of an earlier clearing.
    hot WAITING = "
        SELECT deliveries_pending - ifnull((SELECT sum(waiting) FROM clearings WHERE merchant_id = ?1), 0)
        FROM merchant_counts WHERE merchant_id = ?1";
    // Does to many rows what the domain does on `DeliveryEvent::EndpointGone`; the suite's
    // `clear_is_the_domains_endpoint_gone` compares them. The index is named, because without statistics
    // SQLite may take the primary key instead, and walk the merchant's whole log. Differs because here a row
    // that has ended has left the index: nothing needs to remember where the last step was.
    hot END = "
        UPDATE deliveries
        SET status = 'dead', last_error = ?3, next_attempt_at = min(next_attempt_at, ?4)
        WHERE merchant_id = ?1 AND delivery_id IN (
            SELECT delivery_id FROM deliveries INDEXED BY deliveries_due
            WHERE merchant_id = ?1 AND endpoint_epoch = ?2 AND status = 'pending'
            ORDER BY next_attempt_at, delivery_id LIMIT ?5 + 0)";
    hot COUNT_CLEARED = "
        UPDATE merchant_counts
        SET deliveries_pending = deliveries_pending - ?2, deliveries_dead = deliveries_dead + ?2,
            next_due_at = NULL, endpoint_epoch = endpoint_epoch + 1
        WHERE merchant_id = ?1";
    hot LEAVE = "
        INSERT INTO clearings (merchant_id, endpoint_epoch, cleared_at, waiting) VALUES (?1, ?2, ?3, ?4)";
    hot NEXT = "
        SELECT endpoint_epoch, cleared_at, waiting FROM clearings
        WHERE merchant_id = ?1 ORDER BY endpoint_epoch LIMIT 1";
    hot GO_ON = "UPDATE clearings SET waiting = ?3 WHERE merchant_id = ?1 AND endpoint_epoch = ?2";
    hot FINISH = "DELETE FROM clearings WHERE merchant_id = ?1 AND endpoint_epoch = ?2";
}

/// The deliveries of one epoch of a merchant, which have to end.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    merchant: MerchantId,
    epoch: i32,
    cleared_at: Timestamp,
    /// How many are left.
    number: u64,
}

#[async_trait]
impl ClearingReads for SqliteStore {
    async fn clearing_left(&self, merchants_max: u32) -> StoreResult<ClearingsLeft> {
        let merchant = |row: &Row<'_>| id(row, 0, MerchantId);
        let left = |snapshot: &Connection| {
            let deliveries = snapshot.row(LEFT, [], |row| number(row, 0))?.unwrap_or_default();
            Ok(ClearingsLeft {
                merchants: snapshot.rows(LEFT_OF, [signed(merchants_max)], merchant)?,
                deliveries,
            })
        };
        self.connections.read(|connection| in_snapshot(connection, left))
    }
}

#[async_trait]
impl ClearingWrites for SqliteTx {
    async fn clearing_step(
        &mut self,
        lock: &MerchantLock,
        merchant: MerchantId,
        ended_max: u32,
    ) -> StoreResult<ClearingStep> {
        self.number.check(lock, [merchant])?;
        let waiting = |row: &Row<'_>| {
            let (epoch, cleared_at) = (column(row, 0)?, time(row, 1)?);
            Ok(Waiting { merchant, epoch, cleared_at, number: number(row, 2)? })
        };
        let Some(mut waiting) = self.writer.connection()?.row(NEXT, [merchant.0], waiting)? else {
            return Ok(ClearingStep::default());
        };
        let ended = self.end(&mut waiting, ended_max)?;
        self.counts.of(merchant).end(ended);
        let connection = self.writer.connection()?;
        let changed = if waiting.number == 0 {
            connection.change(FINISH, params![merchant.0, waiting.epoch])
        } else {
            connection.change(GO_ON, params![merchant.0, waiting.epoch, signed(waiting.number)])
        };
        changed.map_err(store_error)?;
        Ok(ClearingStep { ended, left: waiting.number })
    }
}

impl SqliteTx {
    /// Raises the merchant's epoch, ends deliveries of the one before, and leaves a clearing for the others.
    pub(crate) async fn clear_deliveries(
        &mut self,
        merchant: MerchantId,
        cleared_at: Timestamp,
        ended_max: u32,
    ) -> StoreResult<ClearingStep> {
        // Rows that this transaction has enqueued must be counted as pending before they count as dead.
        self.write_counts().await?;
        let waiting = self.writer.connection()?.row(WAITING, [merchant.0], |row| number(row, 0))?;
        let number = waiting.ok_or(StoreError::UnknownMerchant(merchant))?;
        let epoch = self.epochs.of(merchant)?;
        let mut waiting = Waiting { merchant, epoch, cleared_at, number };
        let ended = self.end(&mut waiting, ended_max)?;
        let connection = self.writer.connection()?;
        connection.change(COUNT_CLEARED, params![merchant.0, signed(ended)]).map_err(store_error)?;
        if waiting.number > 0 {
            let left = params![merchant.0, epoch, cleared_at.as_micros(), signed(waiting.number)];
            connection.change(LEAVE, left).map_err(store_error)?;
        }
        self.change_totals((-signed(ended), signed(ended)))?;
        self.epochs.remember(merchant, epoch + 1);
        Ok(ClearingStep { ended, left: waiting.number })
    }

    /// Ends waiting deliveries, at most so many, and says how many.
    fn end(&mut self, waiting: &mut Waiting, ended_max: u32) -> StoreResult<u64> {
        if waiting.number == 0 {
            return Ok(0);
        }
        let Waiting { merchant, epoch, cleared_at, .. } = *waiting;
        let connection = self.writer.connection()?;
        let rows = params![merchant.0, epoch, ENDPOINT_CLEARED, cleared_at.as_micros(), signed(ended_max)];
        let ended = change_patiently(connection, END, rows)? as u64;
        let left = waiting.number.checked_sub(ended);
        let left = left.ok_or_else(|| StoreError::unexpected("more deliveries waited than are counted"))?;
        // Whoever finds fewer than allowed has found the last.
        waiting.number = if ended < ended_max.into() { 0 } else { left };
        Ok(ended)
    }
}
