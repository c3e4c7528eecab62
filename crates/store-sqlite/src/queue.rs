//! The queue of deliveries to send, and the shards, which say who may send them.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Row, params};
use settle_domain::ids::{DeliveryId, KeeperId, MerchantId};
use settle_domain::settlement::Record;
use settle_domain::time::Timestamp;
use settle_domain::webhook_secret::SealedSecret;
use settle_store::{
    Ask, Claimed, Claims, DueMerchant, DueTime, Duty, LeaseToken, Leases, MerchantLock, Presence, QueueDepth,
    QueueReads, QueueWrites, SHARDS, Shard, ShardLease, StoreError, StoreResult, lease_rows,
};
use uuid::Uuid;

use crate::convert::{column, hex, id, json_merchants, json_rows, number, optional_time, signed, time};
use crate::deliveries::delivery;
use crate::error::store_error;
use crate::query::Query;
use crate::{SqliteStore, SqliteTx, lock_file};

/// Deliveries after which a claim yields to other tasks.
const CLAIMED_AT_ONCE: u32 = 64;

settle_store::statements! {
    hot DUE = "
        SELECT merchant_id, next_due_at FROM json_each(?1) AS asked
        CROSS JOIN merchant_counts ON shard = asked.value AND next_due_at <= ?2
        WHERE merchant_id NOT IN (SELECT unhex(value) FROM json_each(?3))
        UNION ALL
        SELECT merchant_id, next_due_at FROM json_each(?1) AS asked
        CROSS JOIN merchant_counts ON shard = asked.value AND next_due_at > ?5
        WHERE merchant_id NOT IN (SELECT unhex(value) FROM json_each(?3))
        LIMIT ?4 + 0";
    // Differs because SQLite has no lateral joins, and its limits cannot come from a row: one statement asks
    // for those merchants of which the same number of deliveries is wanted.
    hot CLAIM = "
        SELECT due.merchant_id, told.record, endpoint.sealed_secret,
               due.delivery_id, due.settlement_id, due.event_type, due.status, due.attempts, due.created_at,
               due.delivered_at, due.next_attempt_at, due.response_status, due.last_error, due.url
        FROM json_each(?1) AS asked
        CROSS JOIN deliveries AS due
            ON due.merchant_id = unhex(asked.value) AND due.delivery_id IN (
                SELECT delivery_id FROM (
                    SELECT delivery_id FROM deliveries
                    WHERE merchant_id = unhex(asked.value) AND status = 'pending' AND next_attempt_at <= ?3
                      AND endpoint_epoch = (
                          SELECT endpoint_epoch FROM merchant_counts WHERE merchant_id = unhex(asked.value))
                      AND delivery_id NOT IN (SELECT unhex(value) FROM json_each(?4))
                    ORDER BY next_attempt_at, delivery_id LIMIT ?2 + 0
                )
                UNION ALL
                SELECT delivery_id FROM (
                    SELECT delivery_id FROM deliveries
                    WHERE merchant_id = unhex(asked.value) AND status = 'pending' AND next_attempt_at > ?5
                      AND endpoint_epoch = (
                          SELECT endpoint_epoch FROM merchant_counts WHERE merchant_id = unhex(asked.value))
                      AND delivery_id NOT IN (SELECT unhex(value) FROM json_each(?4))
                    ORDER BY next_attempt_at, delivery_id LIMIT ?2 + 0
                )
                LIMIT ?2 + 0
            )
        CROSS JOIN settlements AS told
            ON told.merchant_id = due.merchant_id AND told.settlement_id = due.settlement_id
        LEFT JOIN webhook_endpoints AS endpoint ON endpoint.merchant_id = due.merchant_id";
    // Of each shard the first merchant that has something pending: one whose last delivery was just sent may
    // still stand before it.
    cold "a gauge's, every few seconds; a row a shard" DEPTH = "
        SELECT pending, dead,
               (SELECT min((SELECT next_due_at FROM merchant_counts
                            WHERE shard = queue_shards.shard AND next_due_at IS NOT NULL
                              AND deliveries_pending > 0
                            ORDER BY next_due_at LIMIT 1))
                FROM queue_shards) AS first_due_at
        FROM delivery_totals";
    cold "once a second; a row a shard" HELD = "
        SELECT shard % 64 AS shard, token FROM queue_shards WHERE keeper_id = ?1";
    cold "when shards change hands" TAKE = "
        UPDATE queue_shards SET keeper_id = ?1, token = randomblob(16)
        WHERE keeper_id IS NOT ?1 AND shard BETWEEN ?2 AND ?2 + 63
        RETURNING shard % 64 AS shard, token";
    cold "when shards change hands" RELEASE = "
        UPDATE queue_shards SET keeper_id = NULL, token = NULL
        FROM (SELECT row.value ->> 0 AS shard, unhex(row.value ->> 1) AS token FROM jsonb_each(?1) AS row)
            AS given
        WHERE queue_shards.shard = given.shard AND queue_shards.token = given.token";
    hot FENCE = "
        SELECT queue_shards.shard % 64 AS shard, queue_shards.token FROM jsonb_each(?1) AS row
        CROSS JOIN queue_shards
            ON queue_shards.shard = row.value ->> 0 AND queue_shards.token = unhex(row.value ->> 1)";
}

#[async_trait]
impl QueueReads for SqliteStore {
    async fn queue_due(
        &self,
        shards: &[Shard],
        due: DueTime,
        known: &[MerchantId],
        limit: u32,
    ) -> StoreResult<Vec<DueMerchant>> {
        let (shards, known) = (json_rows(shards.iter().map(|shard| shard.0)), json_merchants(known));
        let due = params![shards, due.by.as_micros(), known, signed(limit), due.beyond.as_micros()];
        self.connections.read(|connection| connection.rows(DUE, due, due_merchant))
    }

    async fn queue_claim(&self, asks: &[Ask], taken: &[DeliveryId], due: DueTime) -> StoreResult<Claims> {
        let mut by_number: BTreeMap<u32, Vec<MerchantId>> = BTreeMap::new();
        for ask in asks {
            by_number.entry(ask.number).or_default().push(ask.merchant_id);
        }
        let taken = json_rows(taken.iter().map(|delivery| hex(delivery.0)));
        let mut claims = Claims::default();
        for (number, merchants) in by_number {
            let at_once = usize::try_from(CLAIMED_AT_ONCE / number.max(1)).unwrap_or(1).max(1);
            for merchants in merchants.chunks(at_once) {
                let (by, beyond) = (due.by.as_micros(), due.beyond.as_micros());
                let asked = (json_merchants(merchants), signed(number), by, &taken, beyond);
                let read =
                    |row: &Row<'_>| Ok((id(row, 0, MerchantId)?, id(row, 3, DeliveryId)?, claimed(row)));
                for (merchant, delivery, row) in
                    self.connections.read(|connection| connection.rows(CLAIM, asked, read))?
                {
                    claims.add(merchant, delivery, row);
                }
                tokio::task::yield_now().await;
            }
        }
        // SQLite returns the rows of a merchant in the order of their ids, not of their due times.
        claims.found.sort_by_key(|claimed| (claimed.delivery.next_attempt_at, claimed.delivery.delivery_id));
        Ok(claims)
    }

    async fn queue_depth(&self) -> StoreResult<QueueDepth> {
        let depth = self.connections.read_long(|connection| connection.row(DEPTH, [], depth)).await?;
        depth.ok_or_else(|| StoreError::unexpected("a sum without a row"))
    }
}

#[async_trait]
impl QueueWrites for SqliteTx {
    /// The lease needs no time limit: no other process sends while this one holds the lock on the file.
    async fn queue_lease(&mut self, keeper: KeeperId, duty: Duty, _lease: Duration) -> StoreResult<Leases> {
        let share = usize::try_from(SHARDS).unwrap_or(usize::MAX);
        let mut held = self.writer.connection()?.rows(HELD, [keeper.0], shard_lease)?;
        if held.len() < share {
            held.extend(self.writer.connection()?.rows(
                TAKE,
                params![keeper.0, duty.row(Shard(0))],
                shard_lease,
            )?);
        }
        Ok(Leases { held, share })
    }

    async fn queue_release(&mut self, leases: &[ShardLease]) -> StoreResult<()> {
        self.writer.connection()?.change(RELEASE, [json_leases(leases)]).map_err(store_error)?;
        Ok(())
    }

    async fn queue_refresh(
        &mut self,
        lock: &MerchantLock,
        merchants: &[MerchantId],
        at: Timestamp,
    ) -> StoreResult<()> {
        self.number.check(lock, merchants.iter().copied())?;
        for merchant in merchants {
            self.counts.of(*merchant);
        }
        self.recorded_at = Some(at);
        Ok(())
    }

    async fn queue_fence(&mut self, leases: &[ShardLease]) -> StoreResult<Vec<ShardLease>> {
        self.writer.connection()?.rows(FENCE, [json_leases(leases)], shard_lease)
    }
}

/// A lock on a file beside the database, which the operating system releases when the process ends.
struct FilePresence {
    _lock: File,
}

#[async_trait]
impl Presence for FilePresence {
    /// SQLite has no signals between processes: the dispatcher's next look finds what a command enqueued.
    async fn woken(&mut self) -> StoreResult<Vec<MerchantId>> {
        std::future::pending().await
    }
}

/// Takes the lock that shows that this process has the duty, unless another process holds it.
pub(crate) fn take_presence(database: &Path, duty: Duty) -> StoreResult<Option<Box<dyn Presence>>> {
    let mut path = database.to_owned().into_os_string();
    path.push("-");
    path.push(duty.as_str());
    let unavailable = |fault: std::io::Error| StoreError::Unavailable(fault.into());
    let file = lock_file(Path::new(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Box::new(FilePresence { _lock: file }))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(fault)) => Err(unavailable(fault)),
    }
}

fn json_leases(leases: &[ShardLease]) -> String {
    json_rows(lease_rows(leases).map(|(row, token)| (row, hex(token))))
}

fn due_merchant(row: &Row<'_>) -> StoreResult<DueMerchant> {
    Ok(DueMerchant { merchant_id: id(row, "merchant_id", MerchantId)?, due_at: time(row, "next_due_at")? })
}

fn depth(row: &Row<'_>) -> StoreResult<QueueDepth> {
    Ok(QueueDepth {
        pending: number(row, "pending")?,
        dead: number(row, "dead")?,
        first_due_at: optional_time(row, "first_due_at")?,
    })
}

fn claimed(row: &Row<'_>) -> StoreResult<Claimed> {
    let secret: Option<Vec<u8>> = column(row, 2)?;
    Ok(Claimed {
        merchant_id: id(row, 0, MerchantId)?,
        record: Record::from_stored(column(row, 1)?),
        secret: secret.map(SealedSecret),
        delivery: delivery(row, 3)?,
    })
}

fn shard_lease(row: &Row<'_>) -> StoreResult<ShardLease> {
    let (shard, token): (i16, Uuid) = (column(row, "shard")?, column(row, "token")?);
    Ok(ShardLease { shard: Shard(shard), token: LeaseToken(token) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_lock_of_who_sends_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("settle.db");
        let first = take_presence(&database, Duty::Dispatch).unwrap();
        assert!(first.is_some() && take_presence(&database, Duty::Dispatch).unwrap().is_none(), "one sends");
        let lock = folder.path().join("settle.db-dispatch").metadata().unwrap();
        assert_eq!(lock.permissions().mode() & 0o777, 0o600);
    }
}
