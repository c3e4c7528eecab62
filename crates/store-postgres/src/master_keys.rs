//! The ids of the master keys that this database has been used with.

use async_trait::async_trait;
use settle_domain::time::Timestamp;
use settle_domain::vault::MasterKeyId;
use settle_store::{MasterKeyReads, MasterKeyWrites, StoreError, StoreResult};
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
impl MasterKeyReads for PostgresStore {
    async fn master_key_list(&self) -> StoreResult<Vec<MasterKeyId>> {
        let rows = sqlx::query(LIST).fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(master_key_id).collect()
    }
}

#[async_trait]
impl MasterKeyWrites for PostgresTx {
    async fn master_key_record(&mut self, key: MasterKeyId, at: Timestamp) -> StoreResult<()> {
        let query = sqlx::query(RECORD).bind(key.0.as_slice()).bind(At(at));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }
}

fn master_key_id(row: &PgRow) -> StoreResult<MasterKeyId> {
    let bytes: Vec<u8> = column(row, "key_id")?;
    let id =
        bytes.try_into().map_err(|_| StoreError::unexpected("the id of a master key has another length"))?;
    Ok(MasterKeyId(id))
}
