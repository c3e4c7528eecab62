//! The webhook endpoint of a merchant.

use async_trait::async_trait;
use settle_domain::endpoint::Endpoint;
use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;
use settle_domain::webhook_secret::SealedSecret;
use settle_store::{ClearingStep, EndpointReads, EndpointWrites, MerchantLock, StoreResult};
use sqlx::postgres::PgRow;

use crate::convert::{column, id, merchant_array};
use crate::error::store_error;
use crate::{PostgresStore, PostgresTx};

settle_store::statements! {
    hot FIND = "SELECT url, sealed_secret FROM webhook_endpoints WHERE merchant_id = $1";
    hot FIND_LOCKED = "
        SELECT merchant_id, url, sealed_secret FROM webhook_endpoints WHERE merchant_id = ANY ($1)";
    hot PUT = "
        INSERT INTO webhook_endpoints (merchant_id, url, sealed_secret) VALUES ($1, $2, $3)
        ON CONFLICT (merchant_id) DO UPDATE SET url = excluded.url, sealed_secret = excluded.sealed_secret";
    hot CLEAR = "DELETE FROM webhook_endpoints WHERE merchant_id = $1";
}

#[async_trait]
impl EndpointReads for PostgresStore {
    async fn endpoint_find(&self, merchant: MerchantId) -> StoreResult<Option<Endpoint>> {
        let query = sqlx::query(FIND).bind(merchant.0);
        let row = query.fetch_optional(&self.pool).await.map_err(store_error)?;
        row.as_ref().map(endpoint).transpose()
    }
}

#[async_trait]
impl EndpointWrites for PostgresTx {
    async fn endpoint_find_locked(
        &mut self,
        lock: &MerchantLock,
        merchants: &[MerchantId],
    ) -> StoreResult<Vec<(MerchantId, Endpoint)>> {
        self.number.check(lock, merchants.iter().copied())?;
        let query = sqlx::query(FIND_LOCKED).bind(merchant_array(merchants));
        let rows = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        rows.iter().map(|row| Ok((id(row, "merchant_id", MerchantId)?, endpoint(row)?))).collect()
    }

    async fn endpoint_put(
        &mut self,
        lock: &MerchantLock,
        merchant: MerchantId,
        endpoint: &Endpoint,
    ) -> StoreResult<()> {
        self.number.check(lock, [merchant])?;
        let query = sqlx::query(PUT).bind(merchant.0).bind(&endpoint.url).bind(endpoint.secret.0.as_slice());
        query.execute(&mut *self.inner).await.map_err(store_error)?;
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
        sqlx::query(CLEAR).bind(merchant.0).execute(&mut *self.inner).await.map_err(store_error)?;
        self.clear_deliveries(merchant, at, ended_max).await
    }
}

fn endpoint(row: &PgRow) -> StoreResult<Endpoint> {
    Ok(Endpoint { url: column(row, "url")?, secret: SealedSecret(column(row, "sealed_secret")?) })
}
