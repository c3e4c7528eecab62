//! The embedded store: one SQLite file, nothing to set up.
//!
//! Readers have connections of their own and never wait for the writer (WAL). There is one writer: its
//! transactions begin with `BEGIN IMMEDIATE`, so that they never fail half-way for want of the lock, and each
//! commit is on the disk before it returns (`synchronous = FULL`).
//!
//! Batches travel as one JSON argument that `jsonb_each` unfolds, and pages as one JSON text. Differs because
//! SQLite has no array parameters, and a value costs more than its bytes on the way from SQLite's thread.
//!
//! A limit is written `?1 + 0`: SQLite looks at a limit that is a mere parameter when it plans, and so plans
//! the statement anew whenever it is run.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use settle_domain::ids::{DispatcherId, MerchantId};
use settle_domain::time::Timestamp;
use settle_store::slices::SliceMemory;
use settle_store::statements::Statement;
use settle_store::{CountChanges, Presence, Store, StoreError, StoreResult, Tx};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{Sqlite, Transaction};

mod alerts;
pub mod bare;
mod convert;
mod counts;
mod deliveries;
mod endpoints;
mod error;
mod keys;
mod merchants;
mod migrations;
mod operators;
mod queue;
mod rings;
mod settlements;

#[cfg(feature = "testing")]
pub mod testing;

use error::store_error;

/// Reading connections. More than there are cores does not help.
const READERS_MAX: u32 = 4;
/// How long a caller waits for a connection; the writer's queue is bounded by it.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pages of the journal after which it is written back to the file: seldom enough that a page that changes
/// with every commit is written back once for many of them.
const JOURNAL_PAGES_MAX: &str = "16384";
/// Memory for pages, of the writer and of each reader, in KiB; negative, because a positive number counts
/// pages.
const WRITER_CACHE: &str = "-32768";
const READER_CACHE: &str = "-4096";
/// How much of the journal a large transaction leaves behind on the disk.
const JOURNAL_BYTES_KEPT: &str = "67108864";
/// How long a process waits for another one that migrates the same file, and how often it looks.
const MIGRATION_TIMEOUT: Duration = Duration::from_mins(1);
const MIGRATION_POLL: Duration = Duration::from_millis(20);
/// How long a statement waits for another process that holds the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

settle_store::statements! {
    hot PING = "SELECT 1";
    cold "asked at start-up" MIGRATIONS_TABLE = "
        SELECT count(*) FROM sqlite_master WHERE name = '_sqlx_migrations'";
    cold "asked at start-up" MIGRATIONS_APPLIED = "SELECT count(*) FROM _sqlx_migrations WHERE success";
}

/// Every statement this backend runs, for the test that reads their plans.
#[must_use]
pub fn statements() -> Vec<Statement> {
    [
        STATEMENTS,
        merchants::STATEMENTS,
        keys::STATEMENTS,
        operators::STATEMENTS,
        rings::STATEMENTS,
        settlements::STATEMENTS,
        deliveries::STATEMENTS,
        counts::STATEMENTS,
        endpoints::STATEMENTS,
        queue::STATEMENTS,
        alerts::STATEMENTS,
    ]
    .concat()
}

/// A URL that does not name a SQLite file.
#[derive(Debug, thiserror::Error)]
#[error("not a SQLite file, such as sqlite://data/settle.db")]
pub struct UrlFault;

/// A SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    readers: SqlitePool,
    writer: SqlitePool,
    /// How to connect for a migration, which may take back more than fits into memory.
    migrating: SqliteConnectOptions,
    slices: SliceMemory,
}

impl SqliteStore {
    /// The store in the file that the URL names. Nothing is opened yet: the first use does.
    pub fn new(url: &str) -> Result<SqliteStore, UrlFault> {
        let options = SqliteConnectOptions::from_str(url).map_err(|_| UrlFault)?;
        let path = options.get_filename().to_owned();
        // Each connection would have an in-memory database of its own.
        if path.as_os_str().is_empty()
            || path.to_string_lossy().contains(":memory:")
            || url.contains("mode=memory")
        {
            return Err(UrlFault);
        }
        let options = options
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(true)
            .pragma("journal_size_limit", JOURNAL_BYTES_KEPT)
            .pragma("wal_autocheckpoint", JOURNAL_PAGES_MAX);
        let pool = |connections_max: u32| {
            SqlitePoolOptions::new().max_connections(connections_max).acquire_timeout(ACQUIRE_TIMEOUT)
        };
        let readers = pool(READERS_MAX)
            .connect_lazy_with(options.clone().pragma("query_only", "on").pragma("cache_size", READER_CACHE));
        Ok(SqliteStore {
            path,
            readers,
            // What a statement that fails would have to take back is kept in memory, not in a file.
            writer: pool(1).connect_lazy_with(
                options.clone().pragma("temp_store", "memory").pragma("cache_size", WRITER_CACHE),
            ),
            migrating: options,
            slices: SliceMemory::default(),
        })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A lock that other processes respect, held until dropped. Differs because SQLite, unlike PostgreSQL,
    /// has no lock that outlives the transactions of a migration.
    async fn migration_lock(&self) -> StoreResult<std::fs::File> {
        let mut path = self.path.clone().into_os_string();
        path.push("-migrate");
        let file = std::fs::File::create(path).map_err(|fault| StoreError::Unavailable(fault.into()))?;
        let taken = async {
            while file.try_lock().is_err() {
                tokio::time::sleep(MIGRATION_POLL).await;
            }
        };
        let taken = tokio::time::timeout(MIGRATION_TIMEOUT, taken).await;
        taken.map_err(|_| StoreError::Unavailable("another process does not finish its migration".into()))?;
        Ok(file)
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn begin(&self) -> StoreResult<Box<dyn Tx>> {
        let inner = self.writer.begin_with("BEGIN IMMEDIATE").await.map_err(store_error)?;
        Ok(Box::new(SqliteTx { inner, counts: CountChanges::default(), recorded_at: None }))
    }

    async fn ping(&self) -> StoreResult<()> {
        sqlx::query(PING).execute(&self.readers).await.map_err(store_error)?;
        Ok(())
    }

    async fn migrate(&self) -> StoreResult<()> {
        let _lock = self.migration_lock().await?;
        let pool = SqlitePoolOptions::new().max_connections(1).connect_lazy_with(self.migrating.clone());
        let migrated = migrations::migrator().run(&pool).await;
        pool.close().await;
        migrated.map_err(|fault| StoreError::Unexpected(fault.into()))
    }

    async fn migrations_pending(&self) -> StoreResult<usize> {
        let all = migrations::migrator().iter().count();
        let table: i64 =
            sqlx::query_scalar(MIGRATIONS_TABLE).fetch_one(&self.readers).await.map_err(store_error)?;
        if table == 0 {
            return Ok(all);
        }
        let applied: i64 =
            sqlx::query_scalar(MIGRATIONS_APPLIED).fetch_one(&self.readers).await.map_err(store_error)?;
        Ok(all.saturating_sub(usize::try_from(applied).unwrap_or(0)))
    }

    async fn presence(&self, _dispatcher: DispatcherId) -> StoreResult<Option<Box<dyn Presence>>> {
        queue::appear(&self.path)
    }

    async fn wake_others(&self, _merchants: &[MerchantId]) -> StoreResult<()> {
        Ok(())
    }

    async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

/// The one transaction that writes.
struct SqliteTx {
    inner: Transaction<'static, Sqlite>,
    /// What is to be counted when it commits.
    counts: CountChanges,
    /// When outcomes were recorded, if any were: then merchants may be due later, or not at all.
    recorded_at: Option<Timestamp>,
}

#[async_trait]
impl Tx for SqliteTx {
    async fn commit(mut self: Box<Self>) -> StoreResult<()> {
        self.write_counts().await?;
        self.inner.commit().await.map_err(store_error)
    }
}
