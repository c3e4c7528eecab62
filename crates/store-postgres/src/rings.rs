//! Which master keys this database has been used with.

use async_trait::async_trait;
use settle_domain::time::Timestamp;
use settle_domain::vault::RingKeyId;
use settle_store::{RingReads, RingWrites, StoreError, StoreResult};
use sqlx::postgres::PgRow;

use crate::convert::{At, column};
use crate::error::store_error;
use crate::{PostgresStore, PostgresTx};

settle_store::statements! {
    cold "asked at start-up" LIST = "SELECT key_id FROM master_keys ORDER BY recorded_at, key_id";
    cold "done at start-up" RECORD = "
        INSERT INTO master_keys (key_id, recorded_at) VALUES ($1, $2) ON CONFLICT (key_id) DO NOTHING";
}

#[async_trait]
impl RingReads for PostgresStore {
    async fn ring_list(&self) -> StoreResult<Vec<RingKeyId>> {
        let rows = sqlx::query(LIST).fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(ring_key_id).collect()
    }
}

#[async_trait]
impl RingWrites for PostgresTx {
    async fn ring_record(&mut self, key: RingKeyId, at: Timestamp) -> StoreResult<()> {
        let query = sqlx::query(RECORD).bind(key.0.as_slice()).bind(At(at));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }
}

fn ring_key_id(row: &PgRow) -> StoreResult<RingKeyId> {
    let bytes: Vec<u8> = column(row, "key_id")?;
    let id =
        bytes.try_into().map_err(|_| StoreError::unexpected("the id of a master key has another length"))?;
    Ok(RingKeyId(id))
}
