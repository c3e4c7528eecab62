//! Merchants, and for each the row that locks it and holds its counts.

use async_trait::async_trait;
use rusqlite::{Row, params};
use settle_domain::ids::MerchantId;
use settle_store::{Merchant, MerchantLock, MerchantReads, MerchantWrites, StoreResult};
use uuid::Uuid;

use crate::convert::{column, id, signed, time};
use crate::error::store_error;
use crate::query::Query;
use crate::{SqliteStore, SqliteTx};

settle_store::statements! {
    cold "an operator's listing" LIST = "
        SELECT merchant_id, name, created_at FROM merchants
        WHERE merchant_id > ?1 ORDER BY merchant_id LIMIT ?2 + 0";
    cold "an operator looks at a merchant" FIND = "
        SELECT merchant_id, name, created_at FROM merchants WHERE merchant_id = ?1";
    cold "an operator adds a merchant" CREATE = "
        INSERT INTO merchants (merchant_id, name, created_at) VALUES (?1, ?2, ?3)";
    cold "an operator adds a merchant" CREATE_COUNTS = "
        INSERT INTO merchant_counts (merchant_id) VALUES (?1)";
    cold "an operator adds a merchant" CREATE_SLICE = "
        INSERT INTO settlement_slices (merchant_id, from_key, settlements) VALUES (?1, x'', 0)";
    // There is one writer: a merchant that exists now exists until the commit. Differs because PostgreSQL
    // must lock the row.
    hot LOCK = "
        SELECT endpoint_epoch, settlements_staged, has_payments FROM merchant_counts WHERE merchant_id = ?1";
}

#[async_trait]
impl MerchantReads for SqliteStore {
    async fn merchant_list(&self, after: Option<MerchantId>, limit: u32) -> StoreResult<Vec<Merchant>> {
        let after = after.map_or(Uuid::nil(), |after| after.0);
        self.connections.read(|connection| connection.rows(LIST, params![after, signed(limit)], merchant))
    }

    async fn merchant_find(&self, wanted: MerchantId) -> StoreResult<Option<Merchant>> {
        self.connections.read(|connection| connection.row(FIND, [wanted.0], merchant))
    }
}

#[async_trait]
impl MerchantWrites for SqliteTx {
    async fn merchant_create(&mut self, merchant: &Merchant) -> StoreResult<()> {
        let id = merchant.merchant_id.0;
        let created = params![id, merchant.name, merchant.created_at.as_micros()];
        self.writer.connection()?.change(CREATE, created).map_err(store_error)?;
        self.writer.connection()?.change(CREATE_COUNTS, [id]).map_err(store_error)?;
        self.writer.connection()?.change(CREATE_SLICE, [id]).map_err(store_error)?;
        Ok(())
    }

    async fn merchant_lock(&mut self, merchants: &[MerchantId]) -> StoreResult<MerchantLock> {
        let asked = merchants.iter().map(|merchant| [merchant.0]);
        let marks = |row: &Row<'_>| Ok((column(row, 0)?, column(row, 1)?, column(row, 2)?));
        let found = self.writer.row_each(LOCK, asked, marks).await?;
        let mut locked = Vec::with_capacity(merchants.len());
        for (merchant, found) in merchants.iter().zip(found) {
            if let Some((epoch, staged, has_payments)) = found {
                self.epochs.remember(*merchant, epoch);
                self.imports.remember(*merchant, staged);
                self.payments.remember(*merchant, has_payments);
                locked.push(*merchant);
            }
        }
        Ok(self.number.locked(locked))
    }

    /// There is one writer: no other transaction has a lock.
    async fn merchant_lock_soon(&mut self, merchants: &[MerchantId]) -> StoreResult<Option<MerchantLock>> {
        self.merchant_lock(merchants).await.map(Some)
    }

    async fn merchant_lock_free(&mut self, merchants: &[MerchantId]) -> StoreResult<MerchantLock> {
        self.merchant_lock(merchants).await
    }
}

fn merchant(row: &Row<'_>) -> StoreResult<Merchant> {
    Ok(Merchant {
        merchant_id: id(row, "merchant_id", MerchantId)?,
        name: column(row, "name")?,
        created_at: time(row, "created_at")?,
    })
}
