//! The webhook endpoint of a merchant.

use async_trait::async_trait;
use settle_domain::delivery::ENDPOINT_CLEARED;
use settle_domain::endpoint::Endpoint;
use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;
use settle_domain::webhook_secret::SealedSecret;
use settle_store::{EndpointReads, EndpointWrites, MerchantLock, StoreResult};
use sqlx::postgres::PgRow;

use crate::convert::{At, column, id, merchant_array, signed};
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
    // Does to many rows what the domain does on `DeliveryEvent::EndpointGone`; the suite's
    // `clear_is_the_domains_endpoint_gone` compares them.
    hot END_PENDING = "
        UPDATE deliveries SET status = 'dead', last_error = $2, next_attempt_at = least(next_attempt_at, $3)
        WHERE merchant_id = $1 AND status = 'pending'";
    hot COUNT_ENDED = "
        UPDATE merchant_counts
        SET deliveries_pending = deliveries_pending - $2, deliveries_dead = deliveries_dead + $2,
            next_due_at = NULL, endpoint_epoch = endpoint_epoch + 1
        WHERE merchant_id = $1";
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
    ) -> StoreResult<u64> {
        self.number.check(lock, [merchant])?;
        sqlx::query(CLEAR).bind(merchant.0).execute(&mut *self.inner).await.map_err(store_error)?;
        let query = sqlx::query(END_PENDING).bind(merchant.0).bind(ENDPOINT_CLEARED).bind(At(at));
        let ended = query.execute(&mut *self.inner).await.map_err(store_error)?.rows_affected();
        // Rows that this transaction has enqueued must be counted as pending before they count as dead.
        self.write_counts().await?;
        let query = sqlx::query(COUNT_ENDED).bind(merchant.0).bind(signed(ended));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        let epoch = self.epochs.of(merchant)?;
        self.epochs.remember(merchant, epoch + 1);
        Ok(ended)
    }
}

fn endpoint(row: &PgRow) -> StoreResult<Endpoint> {
    Ok(Endpoint { url: column(row, "url")?, secret: SealedSecret(column(row, "sealed_secret")?) })
}
