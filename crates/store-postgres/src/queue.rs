//! The queue of deliveries to send, and the shards, which say who may send them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use settle_domain::ids::{DeliveryId, KeeperId, MerchantId};
use settle_domain::settlement::Record;
use settle_domain::time::Timestamp;
use settle_domain::webhook_secret::SealedSecret;
use settle_store::{
    Ask, Claimed, Claims, DueMerchant, DueTime, Duty, LeaseToken, Leases, MerchantLock, Presence, QueueDepth,
    QueueReads, QueueWrites, SHARDS, Shard, ShardLease, StoreError, StoreResult, answered, fair_share,
    lease_rows,
};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions, PgRow};
use tokio::time::timeout;
use uuid::Uuid;

use crate::convert::{At, array, column, id, merchant_array, number, optional_time, signed, time};
use crate::deliveries::delivery;
use crate::error::store_error;
use crate::{PostgresStore, PostgresTx, START_TIMEOUT};

/// The first half of the keys of our advisory locks, which marks them as ours.
const LOCK_CLASS: i32 = 0x005e_771e;
/// The second half of the key of the lock that lease transactions hold, so that they take turns. No sign
/// has it.
const LEASE_TURN: i32 = 0;
/// The channel on which dispatchers hear which merchants have something due.
const CHANNEL: &str = "settle_due";
/// How often the listening session is pinged, and how long the answer may take.
const PING_INTERVAL: Duration = Duration::from_secs(3);
/// Most merchants named in one `NOTIFY`, which carries less than 8,000 bytes. Of more, none are named.
const NAMED_MAX: usize = 200;

settle_store::statements! {
    // Goes from shard to shard, because the index gives each shard's first due merchant first.
    hot DUE = "
        SELECT due.merchant_id, due.next_due_at FROM unnest($1::smallint[]) AS asked (shard)
        CROSS JOIN LATERAL (
            (SELECT merchant_id, next_due_at FROM merchant_counts
             WHERE shard = asked.shard AND next_due_at <= $2
               AND merchant_id NOT IN (SELECT unnest($3::uuid[]))
             ORDER BY next_due_at LIMIT $4)
            UNION ALL
            (SELECT merchant_id, next_due_at FROM merchant_counts
             WHERE shard = asked.shard AND next_due_at > $5
               AND merchant_id NOT IN (SELECT unnest($3::uuid[]))
             ORDER BY next_due_at LIMIT $4)
        ) AS due
        LIMIT $4";
    // Starts at the merchant's `next_due_at`: no pending row is due earlier. Earlier in the index are only
    // entries of sent rows that are not vacuumed yet.
    hot CLAIM = "
        SELECT asked.merchant_id, due.*, told.record, endpoint.sealed_secret
        FROM unnest($1::uuid[], $2::bigint[]) AS asked (merchant_id, number)
        CROSS JOIN LATERAL (
            SELECT next_due_at, endpoint_epoch FROM merchant_counts
            WHERE merchant_id = asked.merchant_id LIMIT 1
        ) AS counts
        CROSS JOIN LATERAL (
            (SELECT delivery_id, settlement_id, event_type, status, attempts, created_at,
                    delivered_at, next_attempt_at, response_status, last_error, url
             FROM deliveries
             WHERE merchant_id = asked.merchant_id AND endpoint_epoch = counts.endpoint_epoch
               AND status = 'pending' AND next_attempt_at <= $3
               AND next_attempt_at >= counts.next_due_at
               AND delivery_id NOT IN (SELECT unnest($4::uuid[]))
             ORDER BY next_attempt_at, delivery_id LIMIT asked.number)
            UNION ALL
            (SELECT delivery_id, settlement_id, event_type, status, attempts, created_at,
                    delivered_at, next_attempt_at, response_status, last_error, url
             FROM deliveries
             WHERE merchant_id = asked.merchant_id AND endpoint_epoch = counts.endpoint_epoch
               AND status = 'pending' AND next_attempt_at > $5
               AND delivery_id NOT IN (SELECT unnest($4::uuid[]))
             ORDER BY next_attempt_at, delivery_id LIMIT asked.number)
            LIMIT asked.number
        ) AS due
        CROSS JOIN LATERAL (
            SELECT record::text FROM settlements
            WHERE merchant_id = asked.merchant_id AND settlement_id = due.settlement_id LIMIT 1
        ) AS told
        LEFT JOIN LATERAL (
            SELECT sealed_secret FROM webhook_endpoints WHERE merchant_id = asked.merchant_id LIMIT 1
        ) AS endpoint ON true";
    // Of each shard the first merchant that has something pending: one whose last delivery was just sent may
    // still stand before it.
    cold "a gauge's, every few seconds; reads the few rows of totals" DEPTH = "
        SELECT sum(pending)::bigint AS pending, sum(dead)::bigint AS dead,
               (SELECT min(first.next_due_at) FROM queue_shards
                CROSS JOIN LATERAL (
                    SELECT next_due_at FROM merchant_counts
                    WHERE shard = queue_shards.shard AND next_due_at IS NOT NULL AND deliveries_pending > 0
                    ORDER BY next_due_at LIMIT 1
                ) AS first) AS first_due_at
        FROM delivery_totals";
    // `OFFSET 0` keeps the planner from drawing the key twice.
    cold "the start of a keeper" TAKE_PRESENCE = "
        SELECT lock_key, pg_try_advisory_lock($1, lock_key) AS is_ours
        FROM (SELECT 1 + floor(random() * 2147483646)::integer AS lock_key OFFSET 0) AS drawn";
    cold "every few seconds" PING = "SELECT 1";
    hot NOTIFY = "SELECT pg_notify($1, $2)";
    // A keeper loses nothing if the database crashes and forgets a renewal.
    cold "once a second" RELAX = "SET LOCAL synchronous_commit = off";
    cold "once a second" TAKE_TURN = "SELECT pg_advisory_xact_lock($1, $2)";
    // A keeper without its advisory lock looks dead to the others, so it must not renew its lease.
    cold "once a second" IS_PRESENT = "
        SELECT EXISTS (
            SELECT FROM pg_locks
            WHERE locktype = 'advisory' AND granted AND objsubid = 2
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
              AND classid = $1::integer::oid AND objid = $2::integer::oid
        )";
    cold "once a second; as many rows as keepers" RENEW = "
        INSERT INTO keepers (keeper_id, lock_key, lease_until, duty)
        VALUES ($1, $2, clock_timestamp() + $3 * interval '1 second', $4)
        ON CONFLICT (keeper_id) DO UPDATE
        SET lease_until = excluded.lease_until, lock_key = excluded.lock_key";
    // A lease that ends later than any can is from a time when the database's clock was ahead. It would hold
    // the shards of a keeper that hangs until the clock is there again. It is shortened, not ended: a keeper
    // that works has not lost anything, and renews it at once. Keepers whose settings differ may have leases
    // of different lengths, up to twice as long.
    cold "once a second; as many rows as keepers" SHORTEN = "
        UPDATE keepers SET lease_until = clock_timestamp() + 2 * $2 * interval '1 second'
        WHERE duty = $1 AND lease_until > clock_timestamp() + 2 * $2 * interval '1 second'";
    // Of its own duty alone: when the database has restarted, the keepers of one process show themselves
    // again one after the other, and the first must not take the other for dead.
    cold "once a second; as many rows as keepers" FORGET_DEAD_KEEPERS = "
        DELETE FROM keepers
        WHERE keeper_id <> $1 AND duty = $3 AND (
            lease_until < clock_timestamp() OR NOT EXISTS (
                SELECT FROM pg_locks
                WHERE locktype = 'advisory' AND granted AND objsubid = 2
                  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                  AND classid = $2::integer::oid AND objid = lock_key::oid
            )
        )";
    cold "once a second; a row a shard" FREE = "
        UPDATE queue_shards SET keeper_id = NULL, token = NULL
        WHERE keeper_id IS NOT NULL AND keeper_id NOT IN (SELECT keeper_id FROM keepers)";
    // The last row has no shard.
    cold "once a second; a row a shard, and one a keeper" HELD = "
        SELECT shard, token, NULL::bigint AS alive, NULL::bigint AS before
        FROM queue_shards WHERE keeper_id = $1
        UNION ALL
        SELECT NULL, NULL, count(*), count(*) FILTER (WHERE keeper_id < $1) FROM keepers WHERE duty = $2";
    cold "when shards change hands" TAKE = "
        UPDATE queue_shards SET keeper_id = $1, token = gen_random_uuid()
        WHERE shard IN (
            SELECT shard FROM queue_shards WHERE keeper_id IS NULL AND shard BETWEEN $3 AND $3 + 63
            ORDER BY shard LIMIT $2)
        RETURNING shard, token";
    cold "when shards change hands" RELEASE = "
        UPDATE queue_shards SET keeper_id = NULL, token = NULL
        FROM unnest($1::smallint[], $2::uuid[]) AS given (shard, token)
        WHERE queue_shards.shard = given.shard AND queue_shards.token = given.token";
    // The lock is shared: transactions that record outcomes of the same process do not wait for each
    // other, but a keeper that wants the shard waits for them. A token is drawn for one shard alone, so the
    // two need not be compared in pairs: without joins by hash, each shard there is would be compared with
    // each pair.
    hot FENCE = "
        SELECT shard, token FROM queue_shards WHERE shard = ANY ($1) AND token = ANY ($2)
        ORDER BY shard FOR SHARE";
}

#[async_trait]
impl QueueReads for PostgresStore {
    async fn queue_due(
        &self,
        shards: &[Shard],
        due: DueTime,
        known: &[MerchantId],
        limit: u32,
    ) -> StoreResult<Vec<DueMerchant>> {
        let query = sqlx::query(DUE)
            .bind(array(shards, |shard| shard.0))
            .bind(At(due.by))
            .bind(merchant_array(known))
            .bind(signed(limit))
            .bind(At(due.beyond));
        let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(due_merchant).collect()
    }

    async fn queue_claim(&self, asks: &[Ask], taken: &[DeliveryId], due: DueTime) -> StoreResult<Claims> {
        let query = sqlx::query(CLAIM)
            .bind(array(asks, |ask| ask.merchant_id.0))
            .bind(array(asks, |ask| signed(ask.number)))
            .bind(At(due.by))
            .bind(array(taken, |delivery| delivery.0))
            .bind(At(due.beyond));
        let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
        let mut claims = Claims::default();
        for row in &rows {
            claims.add(id(row, 0, MerchantId)?, id(row, 1, DeliveryId)?, claimed(row));
        }
        Ok(claims)
    }

    async fn queue_depth(&self) -> StoreResult<QueueDepth> {
        let row = sqlx::query(DEPTH).fetch_one(&self.pool).await.map_err(store_error)?;
        Ok(QueueDepth {
            pending: number(&row, "pending")?,
            dead: number(&row, "dead")?,
            first_due_at: optional_time(&row, "first_due_at")?,
        })
    }
}

#[async_trait]
impl QueueWrites for PostgresTx {
    async fn queue_lease(&mut self, keeper: KeeperId, duty: Duty, lease: Duration) -> StoreResult<Leases> {
        sqlx::query(RELAX).execute(&mut *self.inner).await.map_err(store_error)?;
        let turn = sqlx::query(TAKE_TURN).bind(LOCK_CLASS).bind(LEASE_TURN);
        turn.execute(&mut *self.inner).await.map_err(store_error)?;
        let gone =
            || StoreError::Unavailable("the session that shows that this process lives is gone".into());
        let lock_key = self.signs.of(keeper).ok_or_else(gone)?;
        let present = sqlx::query_scalar(IS_PRESENT).bind(LOCK_CLASS).bind(lock_key);
        if !present.fetch_one(&mut *self.inner).await.map_err(store_error)? {
            return Err(gone());
        }
        let renew =
            sqlx::query(RENEW).bind(keeper.0).bind(lock_key).bind(lease.as_secs_f64()).bind(duty.as_str());
        renew.execute(&mut *self.inner).await.map_err(store_error)?;
        let shorten = sqlx::query(SHORTEN).bind(duty.as_str()).bind(lease.as_secs_f64());
        shorten.execute(&mut *self.inner).await.map_err(store_error)?;
        let forget = sqlx::query(FORGET_DEAD_KEEPERS).bind(keeper.0).bind(LOCK_CLASS).bind(duty.as_str());
        forget.execute(&mut *self.inner).await.map_err(store_error)?;
        sqlx::query(FREE).execute(&mut *self.inner).await.map_err(store_error)?;
        let rows = sqlx::query(HELD).bind(keeper.0).bind(duty.as_str()).fetch_all(&mut *self.inner).await;
        let rows = rows.map_err(store_error)?;
        let (last, rows) = rows.split_last().ok_or_else(|| StoreError::unexpected("no count"))?;
        let count = |name| Ok(usize::try_from(number(last, name)?).unwrap_or(usize::MAX));
        let share = fair_share(count("alive")?, count("before")?);
        let mut held = rows.iter().map(shard_lease).collect::<StoreResult<Vec<_>>>()?;
        if let Some(missing) = share.checked_sub(held.len()).filter(|missing| *missing > 0) {
            let take = sqlx::query(TAKE).bind(keeper.0).bind(signed(missing as u64)).bind(duty.row(Shard(0)));
            let taken = take.fetch_all(&mut *self.inner).await.map_err(store_error)?;
            for row in &taken {
                held.push(shard_lease(row)?);
            }
        }
        Ok(Leases { held, share })
    }

    async fn queue_release(&mut self, leases: &[ShardLease]) -> StoreResult<()> {
        let (rows, tokens): (Vec<i16>, Vec<Uuid>) = lease_rows(leases).unzip();
        let query = sqlx::query(RELEASE).bind(rows).bind(tokens);
        query.execute(&mut *self.inner).await.map_err(store_error)?;
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
        let (rows, tokens): (Vec<i16>, Vec<Uuid>) = lease_rows(leases).unzip();
        let query = sqlx::query(FENCE).bind(rows).bind(tokens);
        let held = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        held.iter().map(shard_lease).collect()
    }
}

/// The second halves of the keys of the locks that show that keepers of this process live.
///
/// Every sign has a new key. A connection may vanish so that the server notices it much later than we do: the
/// server then still holds the old sign, which nobody can take, while the keeper shows a new one. The
/// keeper's id stays, and with it its shards and their tokens, so nothing is sent twice.
#[derive(Clone, Default)]
pub(crate) struct Signs(Arc<Mutex<HashMap<KeeperId, i32>>>);

impl Signs {
    fn of(&self, keeper: KeeperId) -> Option<i32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&keeper).copied()
    }

    fn shown(&self, keeper: KeeperId, lock_key: i32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(keeper, lock_key);
    }

    /// The sign is gone, unless it has been replaced already.
    fn gone(&self, keeper: KeeperId, lock_key: i32) {
        let mut signs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if signs.get(&keeper) == Some(&lock_key) {
            signs.remove(&keeper);
        }
    }
}

/// A separate session that holds a keeper's advisory lock, and listens.
struct PostgresPresence {
    listener: PgListener,
    keeper: KeeperId,
    lock_key: i32,
    signs: Signs,
}

impl PostgresPresence {
    async fn take(
        options: PgConnectOptions,
        keeper: KeeperId,
        signs: Signs,
    ) -> StoreResult<PostgresPresence> {
        let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(START_TIMEOUT);
        // The session must last as long as the keeper.
        let pool: PgPool = pool.max_lifetime(None).idle_timeout(None).connect_lazy_with(options);
        let mut listener = PgListener::connect_with(&pool).await.map_err(store_error)?;
        // A new session would not hold the lock, so the loss of this one must become an error.
        listener.eager_reconnect(false);
        let row = sqlx::query(TAKE_PRESENCE).bind(LOCK_CLASS).fetch_one(&mut listener).await;
        let row = row.map_err(store_error)?;
        if !column::<bool>(&row, "is_ours")? {
            // Another keeper has drawn the same key: the next one will be another.
            return Err(StoreError::Unavailable("the lock of the sign is taken".into()));
        }
        listener.listen(CHANNEL).await.map_err(store_error)?;
        let lock_key = column(&row, "lock_key")?;
        signs.shown(keeper, lock_key);
        Ok(PostgresPresence { listener, keeper, lock_key, signs })
    }
}

impl Drop for PostgresPresence {
    fn drop(&mut self) {
        self.signs.gone(self.keeper, self.lock_key);
    }
}

#[async_trait]
impl Presence for PostgresPresence {
    async fn woken(&mut self) -> StoreResult<Vec<MerchantId>> {
        let ended = || StoreError::Unavailable("the listening session has ended".into());
        loop {
            if let Ok(heard) = timeout(PING_INTERVAL, self.listener.try_recv()).await {
                let heard = heard.map_err(store_error)?.ok_or_else(ended)?;
                return Ok(heard.payload().split(',').filter_map(|text| text.parse().ok()).collect());
            }
            // When the network fails, nothing reports that the session is gone: only a ping finds out.
            let ping = sqlx::query(PING).execute(&mut self.listener);
            answered(PING_INTERVAL, ping).await.ok_or_else(ended)?.map_err(store_error)?;
        }
    }
}

impl PostgresStore {
    pub(crate) async fn take_presence(&self, keeper: KeeperId) -> StoreResult<Option<Box<dyn Presence>>> {
        let options = self.unlimited.writable().await.map_err(store_error)?;
        let taken = PostgresPresence::take(options, keeper, self.signs.clone()).await?;
        Ok(Some(Box::new(taken)))
    }

    pub(crate) async fn notify(&self, merchants: &[MerchantId]) -> StoreResult<()> {
        let named = if merchants.len() > NAMED_MAX { &[] } else { merchants };
        let payload: Vec<String> = named.iter().map(ToString::to_string).collect();
        let query = sqlx::query(NOTIFY).bind(CHANNEL).bind(payload.join(","));
        query.execute(&self.pool).await.map_err(store_error)?;
        Ok(())
    }
}

fn due_merchant(row: &PgRow) -> StoreResult<DueMerchant> {
    Ok(DueMerchant { merchant_id: id(row, "merchant_id", MerchantId)?, due_at: time(row, "next_due_at")? })
}

fn claimed(row: &PgRow) -> StoreResult<Claimed> {
    let secret: Option<Vec<u8>> = column(row, 13)?;
    Ok(Claimed {
        merchant_id: id(row, 0, MerchantId)?,
        delivery: delivery(row)?,
        record: Record::from_stored(column(row, 12)?),
        secret: secret.map(SealedSecret),
    })
}

fn shard_lease(row: &PgRow) -> StoreResult<ShardLease> {
    let (row, token): (i16, Uuid) = (column(row, "shard")?, column(row, "token")?);
    Ok(ShardLease { shard: Shard(row % SHARDS), token: LeaseToken(token) })
}
