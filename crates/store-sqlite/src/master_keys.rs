//! The ids of the master keys that this database has been used with.

use async_trait::async_trait;
use rusqlite::{Row, params};
use settle_domain::time::Timestamp;
use settle_domain::vault::MasterKeyId;
use settle_store::{MasterKeyReads, MasterKeyWrites, StoreError, StoreResult};

use crate::convert::column;
use crate::error::store_error;
use crate::query::Query;
use crate::{SqliteStore, SqliteTx};

settle_store::statements! {
    cold "asked at start-up" LIST = "SELECT key_id FROM master_keys ORDER BY recorded_at, key_id";
    cold "done at start-up" RECORD = "
        INSERT INTO master_keys (key_id, recorded_at) VALUES (?1, ?2) ON CONFLICT (key_id) DO NOTHING";
}

#[async_trait]
impl MasterKeyReads for SqliteStore {
    async fn master_key_list(&self) -> StoreResult<Vec<MasterKeyId>> {
        self.connections.read(|connection| connection.rows(LIST, [], master_key_id))
    }
}

#[async_trait]
impl MasterKeyWrites for SqliteTx {
    async fn master_key_record(&mut self, key: MasterKeyId, at: Timestamp) -> StoreResult<()> {
        self.writer.connection()?.change(RECORD, params![key.0, at.as_micros()]).map_err(store_error)?;
        Ok(())
    }
}

fn master_key_id(row: &Row<'_>) -> StoreResult<MasterKeyId> {
    let bytes: Vec<u8> = column(row, 0)?;
    let id =
        bytes.try_into().map_err(|_| StoreError::unexpected("the id of a master key has another length"))?;
    Ok(MasterKeyId(id))
}
