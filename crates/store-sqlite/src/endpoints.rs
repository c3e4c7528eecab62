//! The webhook endpoint of a merchant.

use async_trait::async_trait;
use rusqlite::{Row, params};
use settle_domain::endpoint::Endpoint;
use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;
use settle_domain::webhook_secret::SealedSecret;
use settle_store::{ClearingStep, EndpointReads, EndpointWrites, MerchantLock, StoreResult};

use crate::convert::column;
use crate::error::store_error;
use crate::query::Query;
use crate::{SqliteStore, SqliteTx};

settle_store::statements! {
    hot FIND = "SELECT url, sealed_secret FROM webhook_endpoints WHERE merchant_id = ?1";
    hot PUT = "
        INSERT INTO webhook_endpoints (merchant_id, url, sealed_secret) VALUES (?1, ?2, ?3)
        ON CONFLICT (merchant_id) DO UPDATE SET url = excluded.url, sealed_secret = excluded.sealed_secret";
    hot CLEAR = "DELETE FROM webhook_endpoints WHERE merchant_id = ?1";
}

#[async_trait]
impl EndpointReads for SqliteStore {
    async fn endpoint_find(&self, merchant: MerchantId) -> StoreResult<Option<Endpoint>> {
        self.connections.read(|connection| connection.row(FIND, [merchant.0], endpoint))
    }
}

#[async_trait]
impl EndpointWrites for SqliteTx {
    async fn endpoint_find_locked(
        &mut self,
        lock: &MerchantLock,
        merchants: &[MerchantId],
    ) -> StoreResult<Vec<(MerchantId, Endpoint)>> {
        self.number.check(lock, merchants.iter().copied())?;
        let asked = merchants.iter().map(|merchant| [merchant.0]);
        let found = self.writer.row_each(FIND, asked, endpoint).await?;
        Ok(merchants
            .iter()
            .copied()
            .zip(found)
            .filter_map(|(merchant, found)| Some((merchant, found?)))
            .collect())
    }

    async fn endpoint_put(
        &mut self,
        lock: &MerchantLock,
        merchant: MerchantId,
        endpoint: &Endpoint,
    ) -> StoreResult<()> {
        self.number.check(lock, [merchant])?;
        self.writer
            .connection()?
            .change(PUT, params![merchant.0, endpoint.url, endpoint.secret.0])
            .map_err(store_error)?;
        Ok(())
    }

    async fn endpoint_clear(
        &mut self,
        lock: &MerchantLock,
        merchant: MerchantId,
        at: Timestamp,
        ended_max: u32,
    ) -> StoreResult<ClearingStep> {
        self.number.check(lock, [merchant])?;
        self.writer.connection()?.change(CLEAR, [merchant.0]).map_err(store_error)?;
        self.clear_deliveries(merchant, at, ended_max).await
    }
}

fn endpoint(row: &Row<'_>) -> StoreResult<Endpoint> {
    Ok(Endpoint { url: column(row, 0)?, secret: SealedSecret(column(row, 1)?) })
}
