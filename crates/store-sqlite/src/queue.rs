//! The queue of what is to be sent, and who may send.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use settle_domain::ids::{DeliveryId, DispatcherId, MerchantId};
use settle_domain::settlement::Record;
use settle_domain::time::Timestamp;
use settle_domain::vault::SealedSecret;
use settle_store::{
    Ask, Claimed, DueMerchant, LeaseToken, Leases, Presence, QueueDepth, QueueReads, QueueWrites, SHARDS,
    Shard, ShardLease, StoreError, StoreResult,
};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use crate::convert::{
    HexBytes, HexId, column, from_json, hex, id, json_merchants, json_rows, optional_time, time,
};
use crate::deliveries::DeliveryRow;
use crate::error::store_error;
use crate::{SqliteStore, SqliteTx};

settle_store::statements! {
    hot DUE = "
        SELECT merchant_id, next_due_at FROM json_each(?1) AS asked
        CROSS JOIN merchant_counts ON shard = asked.value AND next_due_at <= ?2
        WHERE merchant_id NOT IN (SELECT unhex(value) FROM json_each(?3))
        LIMIT ?4 + 0";
    // Differs because SQLite has no lateral joins, and its limits cannot come from a row: merchants that are
    // asked for equally many are one statement.
    hot CLAIM = "
        SELECT json_array(
            hex(due.merchant_id), CASE WHEN endpoint.sealed_secret IS NOT NULL THEN hex(endpoint.sealed_secret) END,
            json_array(
                hex(due.delivery_id), hex(due.settlement_id), due.event_type, due.status, due.attempts,
                due.created_at, due.delivered_at, due.next_attempt_at, due.response_status, due.last_error,
                due.url
            )
        ), told.record
        FROM json_each(?1) AS asked
        CROSS JOIN deliveries AS due
            ON due.merchant_id = unhex(asked.value) AND due.delivery_id IN (
                SELECT delivery_id FROM deliveries
                WHERE merchant_id = unhex(asked.value) AND status = 'pending' AND next_attempt_at <= ?3
                  AND delivery_id NOT IN (SELECT unhex(value) FROM json_each(?4))
                ORDER BY next_attempt_at, delivery_id LIMIT ?2 + 0
            )
        CROSS JOIN settlements AS told
            ON told.merchant_id = due.merchant_id AND told.settlement_id = due.settlement_id
        LEFT JOIN webhook_endpoints AS endpoint ON endpoint.merchant_id = due.merchant_id";
    cold "a gauge's, every few seconds; grows with the merchants" DEPTH = "
        SELECT ifnull(sum(deliveries_pending), 0) AS pending, ifnull(sum(deliveries_dead), 0) AS dead,
               min(next_due_at) FILTER (WHERE deliveries_pending > 0) AS first_due_at
        FROM merchant_counts";
    cold "once a second; a row a shard" HELD = "
        SELECT shard, token FROM queue_shards WHERE dispatcher_id = ?1";
    cold "when shards change hands" TAKE = "
        UPDATE queue_shards SET dispatcher_id = ?1, token = randomblob(16) WHERE dispatcher_id IS NOT ?1
        RETURNING shard, token";
    cold "when shards change hands" RELEASE = "
        UPDATE queue_shards SET dispatcher_id = NULL, token = NULL
        FROM (SELECT row.value ->> 0 AS shard, unhex(row.value ->> 1) AS token FROM jsonb_each(?1) AS row)
            AS given
        WHERE queue_shards.shard = given.shard AND queue_shards.token = given.token";
    hot FENCE = "
        SELECT queue_shards.shard, queue_shards.token FROM jsonb_each(?1) AS row
        CROSS JOIN queue_shards
            ON queue_shards.shard = row.value ->> 0 AND queue_shards.token = unhex(row.value ->> 1)";
}

#[async_trait]
impl QueueReads for SqliteStore {
    async fn queue_due(
        &self,
        shards: &[Shard],
        until: Timestamp,
        known: &[MerchantId],
        limit: i64,
    ) -> StoreResult<Vec<DueMerchant>> {
        let query = sqlx::query(DUE)
            .bind(json_rows(shards.iter().map(|shard| shard.0)))
            .bind(until.as_micros())
            .bind(json_merchants(known))
            .bind(limit);
        let rows = query.fetch_all(&self.readers).await.map_err(store_error)?;
        rows.iter().map(due_merchant).collect()
    }

    async fn queue_claim(
        &self,
        asks: &[Ask],
        taken: &[DeliveryId],
        now: Timestamp,
    ) -> StoreResult<Vec<Claimed>> {
        let mut by_number: BTreeMap<i64, Vec<MerchantId>> = BTreeMap::new();
        for ask in asks {
            by_number.entry(ask.number).or_default().push(ask.merchant_id);
        }
        let taken = json_rows(taken.iter().map(|delivery| hex(delivery.0)));
        let mut found = Vec::new();
        for (number, merchants) in by_number {
            let query = sqlx::query(CLAIM)
                .bind(json_merchants(&merchants))
                .bind(number)
                .bind(now.as_micros())
                .bind(&taken);
            let rows = query.fetch_all(&self.readers).await.map_err(store_error)?;
            for row in &rows {
                found.push(claimed(row)?);
            }
        }
        // The rows of a merchant come in the order of their ids, not in which they are due.
        found.sort_by_key(|claimed| (claimed.delivery.next_attempt_at, claimed.delivery.delivery_id));
        Ok(found)
    }

    async fn queue_depth(&self) -> StoreResult<QueueDepth> {
        let row = sqlx::query(DEPTH).fetch_one(&self.readers).await.map_err(store_error)?;
        Ok(QueueDepth {
            pending: column(&row, "pending")?,
            dead: column(&row, "dead")?,
            first_due_at: optional_time(&row, "first_due_at")?,
        })
    }
}

#[async_trait]
impl QueueWrites for SqliteTx {
    /// Nobody else sends as long as the lock on the file is held, whatever the time: the lease never ends
    /// before it.
    async fn queue_lease(&mut self, dispatcher: DispatcherId, _lease: Duration) -> StoreResult<Leases> {
        let share = usize::try_from(SHARDS).unwrap_or(usize::MAX);
        let query = sqlx::query(HELD).bind(dispatcher.0);
        let rows = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        let mut held = rows.iter().map(shard_lease).collect::<StoreResult<Vec<_>>>()?;
        if held.len() < share {
            let query = sqlx::query(TAKE).bind(dispatcher.0);
            let taken = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
            for row in &taken {
                held.push(shard_lease(row)?);
            }
        }
        Ok(Leases { held, share })
    }

    async fn queue_release(&mut self, leases: &[ShardLease]) -> StoreResult<()> {
        let query = sqlx::query(RELEASE).bind(json_leases(leases));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }

    async fn queue_refresh(&mut self, merchants: &[MerchantId], at: Timestamp) -> StoreResult<()> {
        for merchant in merchants {
            self.counts.of(*merchant);
        }
        self.recorded_at = Some(at);
        Ok(())
    }

    async fn queue_fence(&mut self, leases: &[ShardLease]) -> StoreResult<Vec<ShardLease>> {
        let query = sqlx::query(FENCE).bind(json_leases(leases));
        let held = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        held.iter().map(shard_lease).collect()
    }
}

/// A lock on a file beside the database, which the system lets go when the process ends.
struct FilePresence {
    _lock: File,
}

#[async_trait]
impl Presence for FilePresence {
    /// There are no other processes that could say so: a command that enqueues is found by looking.
    async fn woken(&mut self) -> StoreResult<Vec<MerchantId>> {
        std::future::pending().await
    }
}

/// Gives the sign, unless another process gives it.
pub(crate) fn appear(database: &Path) -> StoreResult<Option<Box<dyn Presence>>> {
    let mut path = database.to_owned().into_os_string();
    path.push("-dispatch");
    let unavailable = |fault: std::io::Error| StoreError::Unavailable(fault.into());
    let file = File::create(path).map_err(unavailable)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Box::new(FilePresence { _lock: file }))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(fault)) => Err(unavailable(fault)),
    }
}

fn json_leases(leases: &[ShardLease]) -> String {
    json_rows(leases.iter().map(|lease| (lease.shard.0, hex(lease.token.0))))
}

fn due_merchant(row: &SqliteRow) -> StoreResult<DueMerchant> {
    Ok(DueMerchant { merchant_id: id(row, "merchant_id", MerchantId)?, due_at: time(row, "next_due_at")? })
}

fn claimed(row: &SqliteRow) -> StoreResult<Claimed> {
    let cell = |fault: sqlx::Error| StoreError::Unexpected(fault.into());
    let (merchant, secret, delivery): (HexId, Option<HexBytes>, DeliveryRow) =
        from_json(row.try_get(0).map_err(cell)?)?;
    Ok(Claimed {
        merchant_id: MerchantId(merchant.0),
        delivery: delivery.try_into()?,
        record: Record::from_stored(row.try_get(1).map_err(cell)?),
        secret: secret.map(|secret| SealedSecret(secret.0)),
    })
}

fn shard_lease(row: &SqliteRow) -> StoreResult<ShardLease> {
    let (shard, token): (i16, Uuid) = (column(row, "shard")?, column(row, "token")?);
    Ok(ShardLease { shard: Shard(shard), token: LeaseToken(token) })
}
