//! The most that a SQLite file allows: commits to one plain table, with the settings of the store's writer.
//! The benchmark compares the store with this.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};
use tokio::sync::Mutex;

use crate::error::BenchError;

const CREATE: &str = "CREATE TABLE bare (id INTEGER PRIMARY KEY, record TEXT NOT NULL)";
const INSERT: &str = "
    WITH RECURSIVE numbers (number) AS (
        SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < ?1
    )
    INSERT INTO bare (record) SELECT ?2 FROM numbers";

/// The settings of the writer in `store-sqlite`: pages of the journal, bytes of it that are kept, KiB of
/// cache (negative, because a positive number counts pages). They must be equal for a fair comparison.
const JOURNAL_PAGES_MAX: i64 = 16_384;
const JOURNAL_BYTES_KEPT: i64 = 64 * 1024 * 1024;
const CACHE: i64 = -32_768;

/// A file with one table, which has no index but its key. Callers take turns on its one connection, as they
/// do on the store's writer.
pub(crate) struct BareFile(Mutex<Connection>);

impl BareFile {
    /// Makes the table in a new file.
    pub(crate) fn create(path: &Path) -> Result<BareFile, BenchError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "journal_size_limit", JOURNAL_BYTES_KEPT)?;
        connection.pragma_update(None, "wal_autocheckpoint", JOURNAL_PAGES_MAX)?;
        connection.pragma_update(None, "cache_size", CACHE)?;
        connection.pragma_update(None, "temp_store", "memory")?;
        connection.execute(CREATE, [])?;
        Ok(BareFile(Mutex::new(connection)))
    }

    /// Adds this many rows in one transaction, which is on the disk when this returns.
    pub(crate) async fn commit(&self, rows: i64, record: &str) -> Result<(), BenchError> {
        let connection = self.0.lock().await;
        // The insert commits at once and blocks this thread; the runtime goes on with another one.
        let insert = || connection.prepare_cached(INSERT)?.execute(params![rows, record]);
        tokio::task::block_in_place(insert)?;
        Ok(())
    }
}
