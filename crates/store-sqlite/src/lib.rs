//! The embedded store: one SQLite file, nothing to set up.
//!
//! Readers have connections of their own and never wait for the writer (WAL). There is one writer: its
//! transactions begin with `BEGIN IMMEDIATE`, so that none fails half-way because another process holds the
//! lock, and each commit is on the disk before it returns (`synchronous = FULL`).
//!
//! The SQL is SQLite's own: a dialect shared with PostgreSQL would give up what makes each of them fast. The
//! conformance suite keeps the backends alike, and every difference says "differs because".
//!
//! The store writes a batch row by row, with a statement that it prepares once. Differs because SQLite has no
//! round trips to save and no array parameters: binding a row costs less than unfolding it from JSON.
//! Only a statement that needs all rows at once takes them as one JSON argument.
//!
//! A limit is written `?1 + 0`: SQLite reads the value of a limit that is a bare parameter when it plans, and
//! so would plan the statement again for every execution.

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use percent_encoding::percent_decode_str;
use settle_domain::ids::{KeeperId, MerchantId};
use settle_domain::time::Timestamp;
use settle_store::slices::SliceMemory;
use settle_store::statements::Statement;
use settle_store::{
    CountChanges, Duty, Epochs, ImportMarks, PaymentMarks, Presence, Store, StoreError, StoreResult, Tx,
    TxNumber,
};

mod alerts;
mod balances;
mod clearings;
mod connections;
mod convert;
mod corridors;
mod counts;
mod deliveries;
mod endpoints;
mod error;
mod imports;
mod jobs;
mod journal;
mod keys;
mod master_keys;
mod merchants;
mod migrations;
mod opening;
mod operations;
mod operators;
mod payment_searches;
mod payments;
mod proposals;
mod providers;
mod query;
mod queue;
mod reports;
mod settlements;
mod threads;

#[cfg(feature = "testing")]
pub mod testing;

use connections::{Connections, Writer};
use error::store_error;
use opening::Purpose;
use query::Query;
use threads::aside;

/// How long a process waits while another one migrates the same file, and how often it tries the lock.
const MIGRATION_TIMEOUT: Duration = Duration::from_mins(1);
const MIGRATION_POLL: Duration = Duration::from_millis(20);
/// Deliveries that one step of a clearing ends: others wait to write meanwhile, about a millisecond.
const CLEARING_STEP_ROWS: u32 = 40;
/// Longer than another process waits between two looks whether the file is free: a shorter rest could pass
/// between them.
const STEP_REST_MIN: Duration = Duration::from_millis(8);

settle_store::statements! {
    hot PING = "SELECT 1";
    cold "every few seconds" PROBE = "UPDATE delivery_totals SET pending = pending + ?1 WHERE slot = 0";
}

/// Every statement of this backend, for the test that reads their plans.
#[must_use]
pub fn statements() -> Vec<Statement> {
    [
        STATEMENTS,
        connections::STATEMENTS,
        migrations::STATEMENTS,
        merchants::STATEMENTS,
        keys::STATEMENTS,
        operators::STATEMENTS,
        master_keys::STATEMENTS,
        settlements::STATEMENTS,
        imports::STATEMENTS,
        deliveries::STATEMENTS,
        counts::STATEMENTS,
        endpoints::STATEMENTS,
        clearings::STATEMENTS,
        queue::STATEMENTS,
        alerts::STATEMENTS,
        corridors::STATEMENTS,
        payments::STATEMENTS,
        payment_searches::STATEMENTS,
        operations::STATEMENTS,
        balances::STATEMENTS,
        providers::STATEMENTS,
        jobs::STATEMENTS,
        reports::STATEMENTS,
        proposals::STATEMENTS,
    ]
    .concat()
}

/// A URL that does not name a SQLite file.
#[derive(Debug, thiserror::Error)]
#[error("not a SQLite file, such as sqlite://data/settle.db, without parameters")]
pub struct UrlFault;

/// A SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    connections: Connections,
    slices: SliceMemory,
}

impl SqliteStore {
    /// The store in the file that the URL names. The first use opens the file.
    pub fn new(url: &str) -> Result<SqliteStore, UrlFault> {
        let connections = Connections::new(file_of(url).ok_or(UrlFault)?);
        Ok(SqliteStore { connections, slices: SliceMemory::default() })
    }

    /// The database file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.connections.path()
    }

    /// A lock among processes, held until dropped. Differs because SQLite, unlike PostgreSQL, has no lock
    /// that outlasts the transactions of a migration.
    async fn migration_lock(&self) -> StoreResult<std::fs::File> {
        let mut path = self.path().as_os_str().to_owned();
        path.push("-migrate");
        let file = lock_file(Path::new(&path))?;
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

/// A file for a lock among processes, which its owner alone can open: whoever could take the lock could keep
/// the service from migrating or sending.
fn lock_file(path: &Path) -> StoreResult<std::fs::File> {
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.map_err(|fault| StoreError::Unavailable(fault.into()))
}

/// The file that a URL names: `sqlite://` or `sqlite:`, and a path in which anything may be percent-encoded.
/// The only parameter allowed is `mode=rwc`, which the store does anyway: it creates a missing file.
fn file_of(url: &str) -> Option<PathBuf> {
    let file = url.strip_prefix("sqlite:")?;
    let file = file.strip_prefix("//").unwrap_or(file);
    let (path, mode) = file.split_once('?').unwrap_or((file, "mode=rwc"));
    let path = percent_decode_str(path).decode_utf8().ok()?;
    // With `:memory:` each connection would have its own database, and SQLite itself parses `file:` URIs.
    let is_file =
        !path.is_empty() && !path.contains(":memory:") && !path.contains('\0') && !path.starts_with("file:");
    (is_file && mode == "mode=rwc").then(|| PathBuf::from(path.as_ref()))
}

#[async_trait]
impl Store for SqliteStore {
    async fn begin(&self) -> StoreResult<Box<dyn Tx>> {
        Ok(Box::new(SqliteTx::new(self.connections.begin().await?)))
    }

    async fn begin_relaxed(&self) -> StoreResult<Box<dyn Tx>> {
        Ok(Box::new(SqliteTx::new(self.connections.begin_relaxed().await?)))
    }

    fn clearing_step_rows(&self) -> u32 {
        CLEARING_STEP_ROWS
    }

    fn step_rest_min(&self) -> Duration {
        STEP_REST_MIN
    }

    fn journal_bytes(&self) -> Option<u64> {
        Some(self.connections.journal.bytes())
    }

    async fn ping(&self) -> StoreResult<()> {
        self.connections.read(|connection| connection.row(PING, [], |_| Ok(())))?;
        Ok(())
    }

    async fn write_probe(&self) -> StoreResult<()> {
        let writer = self.connections.begin().await?;
        // SQLite writes no page for a row that stays as it is. Two changes that cancel each other make it
        // write one, the same one every time, and nobody ever sees the first of them alone.
        for change in [1, -1] {
            writer.connection()?.change(PROBE, [change]).map_err(store_error)?;
        }
        writer.commit().await
    }

    async fn migrate(&self) -> StoreResult<()> {
        let _lock = self.migration_lock().await?;
        // With nothing to do, a start needs no connection of its own: if that were the file's only one,
        // closing it would write the whole journal back.
        if self.migrations_pending().await? == 0 {
            return Ok(());
        }
        let mut file = aside(|| self.connections.open(Purpose::Migrate))?;
        // After each step the caller can be cancelled.
        while aside(|| migrations::take_next(&mut file))? {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn migrations_pending(&self) -> StoreResult<usize> {
        self.connections.read(migrations::pending)
    }

    async fn presence(&self, _keeper: KeeperId, duty: Duty) -> StoreResult<Option<Box<dyn Presence>>> {
        queue::take_presence(self.path(), duty)
    }

    async fn wake_others(&self, _merchants: &[MerchantId]) -> StoreResult<()> {
        Ok(())
    }

    async fn close(&self) {
        self.connections.close().await;
    }
}

/// The one transaction that writes. Dropping it before it has committed rolls it back.
struct SqliteTx {
    /// Distinguishes its locks from those of other transactions.
    number: TxNumber,
    writer: Writer,
    /// The epochs of the merchants that it has locked.
    epochs: Epochs,
    /// Those of them that have staged settlements.
    imports: ImportMarks,
    payments: PaymentMarks,
    /// The changes of the counts, written at the commit.
    counts: CountChanges,
    /// When the transaction recorded outcomes, if it did: merchants may then be due later, or not at all.
    recorded_at: Option<Timestamp>,
}

impl SqliteTx {
    fn new(writer: Writer) -> SqliteTx {
        SqliteTx {
            number: TxNumber::next(),
            writer,
            epochs: Epochs::default(),
            imports: ImportMarks::default(),
            payments: PaymentMarks::default(),
            counts: CountChanges::default(),
            recorded_at: None,
        }
    }
}

#[async_trait]
impl Tx for SqliteTx {
    async fn commit(mut self: Box<Self>) -> StoreResult<()> {
        self.write_counts().await?;
        self.writer.commit().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_file() {
        for (url, file) in [
            ("sqlite://data/settle.db", "data/settle.db"),
            ("sqlite:///var/lib/settle.db", "/var/lib/settle.db"),
            ("sqlite:settle.db", "settle.db"),
            ("sqlite://data/a%20b%3f.db?mode=rwc", "data/a b?.db"),
        ] {
            assert_eq!(file_of(url), Some(PathBuf::from(file)), "{url}");
        }
    }

    #[test]
    fn what_is_no_file_or_is_asked_for_otherwise_is_refused() {
        for url in [
            "sqlite:",
            "sqlite://",
            "sqlite::memory:",
            "sqlite://a.db?mode=memory",
            "sqlite://a.db?mode=ro",
            "sqlite://a.db?cache=shared",
            "sqlite://file:a.db",
            "sqlite://file:a.db%3Fmode=memory",
            "sqlite://a%00.db",
            "sqlite://a%ff.db",
            "postgres://a/b",
        ] {
            assert_eq!(file_of(url), None, "{url}");
        }
    }
}
