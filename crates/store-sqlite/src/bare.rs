//! What a file allows at most: commits of one plain table, with the settings of the store and nothing else of
//! it. The benchmark measures the store against this.

use rusqlite::params;
use settle_store::{StoreError, StoreResult};

use crate::SqliteStore;
use crate::connections::aside;
use crate::error::store_error;
use crate::query::Query;

const CREATE: &str = "CREATE TABLE bare (id INTEGER PRIMARY KEY, record TEXT NOT NULL)";
const INSERT: &str = "
    WITH RECURSIVE numbers (number) AS (
        SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < ?1
    )
    INSERT INTO bare (record) SELECT ?2 FROM numbers";

/// A file with one table, which has no index but its key.
#[derive(Debug)]
pub struct BareFile(SqliteStore);

impl BareFile {
    /// Makes the table in the file that the URL names.
    pub async fn create(url: &str) -> StoreResult<BareFile> {
        let store = SqliteStore::new(url).map_err(|fault| StoreError::Unexpected(fault.into()))?;
        store.connections.writer().await?.connection()?.change(CREATE, []).map_err(store_error)?;
        Ok(BareFile(store))
    }

    /// Adds so many rows, in a transaction of their own that is on the disk when this returns.
    pub async fn commit(&self, rows: i64, record: &str) -> StoreResult<()> {
        let writer = self.0.connections.writer().await?;
        let connection = writer.connection()?;
        // It is committed at once.
        aside(|| connection.change(INSERT, params![rows, record])).map_err(store_error)?;
        Ok(())
    }
}
