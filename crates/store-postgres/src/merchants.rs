//! Merchants, and for each the row that locks it and holds its counts.

use async_trait::async_trait;
use settle_domain::ids::MerchantId;
use settle_store::{Merchant, MerchantLock, MerchantReads, MerchantWrites, StoreError, StoreResult};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::convert::{At, column, id, merchant_array, signed, time};
use crate::error::{is_locked, store_error};
use crate::{PostgresStore, PostgresTx};

settle_store::statements! {
    cold "an operator's listing" LIST = "
        SELECT merchant_id, name, created_at FROM merchants
        WHERE merchant_id > $1 ORDER BY merchant_id LIMIT $2";
    cold "an operator looks at a merchant" FIND = "
        SELECT merchant_id, name, created_at FROM merchants WHERE merchant_id = $1";
    cold "an operator adds a merchant" CREATE = "
        INSERT INTO merchants (merchant_id, name, created_at) VALUES ($1, $2, $3)";
    cold "an operator adds a merchant" CREATE_COUNTS = "
        INSERT INTO merchant_counts (merchant_id) VALUES ($1)";
    cold "an operator adds a merchant" CREATE_SLICE = "
        INSERT INTO settlement_slices (merchant_id, from_key, settlements) VALUES ($1, ''::bytea, 0)";
    // PostgreSQL sorts the rows before it locks them, so that all transactions lock in one order.
    hot LOCK = "
        SELECT merchant_id, endpoint_epoch, settlements_staged, has_payments FROM merchant_counts
        WHERE merchant_id = ANY ($1) ORDER BY merchant_id FOR NO KEY UPDATE";
    hot LOCK_FREE = "
        SELECT merchant_id, endpoint_epoch, settlements_staged, has_payments FROM merchant_counts
        WHERE merchant_id = ANY ($1) ORDER BY merchant_id FOR NO KEY UPDATE SKIP LOCKED";
}

#[async_trait]
impl MerchantReads for PostgresStore {
    async fn merchant_list(&self, after: Option<MerchantId>, limit: u32) -> StoreResult<Vec<Merchant>> {
        let query = sqlx::query(LIST).bind(after.map_or(Uuid::nil(), |after| after.0)).bind(signed(limit));
        let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(merchant).collect()
    }

    async fn merchant_find(&self, wanted: MerchantId) -> StoreResult<Option<Merchant>> {
        let query = sqlx::query(FIND).bind(wanted.0);
        let row = query.fetch_optional(&self.pool).await.map_err(store_error)?;
        row.as_ref().map(merchant).transpose()
    }
}

#[async_trait]
impl MerchantWrites for PostgresTx {
    async fn merchant_create(&mut self, merchant: &Merchant) -> StoreResult<()> {
        let id = merchant.merchant_id.0;
        let create = sqlx::query(CREATE).bind(id).bind(&merchant.name).bind(At(merchant.created_at));
        create.execute(&mut *self.inner).await.map_err(store_error)?;
        sqlx::query(CREATE_COUNTS).bind(id).execute(&mut *self.inner).await.map_err(store_error)?;
        sqlx::query(CREATE_SLICE).bind(id).execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }

    async fn merchant_lock(&mut self, merchants: &[MerchantId]) -> StoreResult<MerchantLock> {
        let _place = self.inner.pass_gates(merchants).await?;
        self.lock(LOCK, merchants).await
    }

    async fn merchant_lock_soon(&mut self, merchants: &[MerchantId]) -> StoreResult<Option<MerchantLock>> {
        self.inner.wait_a_moment().await.map_err(store_error)?;
        match self.lock(LOCK, merchants).await {
            Err(StoreError::Unavailable(fault)) if is_locked(&*fault) => Ok(None),
            lock => lock.map(Some),
        }
    }

    async fn merchant_lock_free(&mut self, merchants: &[MerchantId]) -> StoreResult<MerchantLock> {
        self.lock(LOCK_FREE, merchants).await
    }
}

impl PostgresTx {
    async fn lock(&mut self, sql: &'static str, merchants: &[MerchantId]) -> StoreResult<MerchantLock> {
        let query = sqlx::query_as(sql).bind(merchant_array(merchants));
        let found: Vec<(Uuid, i32, i64, bool)> =
            query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        let locked = found.into_iter().map(|(merchant, epoch, staged, has_payments)| {
            self.epochs.remember(MerchantId(merchant), epoch);
            self.imports.remember(MerchantId(merchant), staged);
            self.payments.remember(MerchantId(merchant), has_payments);
            MerchantId(merchant)
        });
        Ok(self.number.locked(locked.collect()))
    }
}

fn merchant(row: &PgRow) -> StoreResult<Merchant> {
    Ok(Merchant {
        merchant_id: id(row, "merchant_id", MerchantId)?,
        name: column(row, "name")?,
        created_at: time(row, "created_at")?,
    })
}
