//! The embedded store: one SQLite file, nothing to set up.
//!
//! Readers have connections of their own and never wait for the writer (WAL). There is one writer: its
//! transactions begin with `BEGIN IMMEDIATE`, so that they never fail half-way for want of the lock, and each
//! commit is on the disk before it returns (`synchronous = FULL`).
//!
//! A batch is written row by row, with a statement that is prepared once. Differs because there are no round
//! trips to save, and no array parameters: a row that is bound costs less than one unfolded from JSON. What
//! is read or added up for many at once takes them as one JSON argument.
//!
//! A limit is written `?1 + 0`: SQLite looks at a limit that is a mere parameter when it plans, and so plans
//! the statement anew whenever it is run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use percent_encoding::percent_decode_str;
use settle_domain::ids::{DispatcherId, MerchantId};
use settle_domain::time::Timestamp;
use settle_store::slices::SliceMemory;
use settle_store::statements::Statement;
use settle_store::{CountChanges, Presence, Store, StoreError, StoreResult, Tx, TxNumber};

mod alerts;
mod connections;
mod convert;
mod counts;
mod deliveries;
mod endpoints;
mod error;
mod keys;
mod master_keys;
mod merchants;
mod migrations;
mod operators;
mod query;
mod queue;
mod settlements;

#[cfg(feature = "testing")]
pub mod testing;

use connections::{Connections, Purpose, Writer, aside};
use query::Query;

/// How long a process waits for another one that migrates the same file, and how often it looks.
const MIGRATION_TIMEOUT: Duration = Duration::from_mins(1);
const MIGRATION_POLL: Duration = Duration::from_millis(20);

settle_store::statements! {
    hot PING = "SELECT 1";
}

/// Every statement this backend runs, for the test that reads their plans.
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
#[error("not a SQLite file, such as sqlite://data/settle.db, without parameters")]
pub struct UrlFault;

/// A SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    connections: Connections,
    slices: SliceMemory,
}

impl SqliteStore {
    /// The store in the file that the URL names. Nothing is opened yet: the first use does.
    pub fn new(url: &str) -> Result<SqliteStore, UrlFault> {
        let connections = Connections::new(file_of(url).ok_or(UrlFault)?);
        Ok(SqliteStore { connections, slices: SliceMemory::default() })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.connections.path()
    }

    /// A lock that other processes respect, held until dropped. Differs because SQLite, unlike PostgreSQL,
    /// has no lock that outlives the transactions of a migration.
    async fn migration_lock(&self) -> StoreResult<std::fs::File> {
        let mut path = self.path().as_os_str().to_owned();
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

/// The file that a URL names: `sqlite://` or `sqlite:`, and a path in which anything may be percent-encoded.
/// A mode may stand behind it if it is what is done anyway: the file is made when it is missing.
fn file_of(url: &str) -> Option<PathBuf> {
    let file = url.strip_prefix("sqlite:")?;
    let file = file.strip_prefix("//").unwrap_or(file);
    let (path, mode) = file.split_once('?').unwrap_or((file, "mode=rwc"));
    let path = percent_decode_str(path).decode_utf8().ok()?;
    // Each connection would have an in-memory database of its own, and SQLite has a way of its own with URIs.
    let is_file =
        !path.is_empty() && !path.contains(":memory:") && !path.contains('\0') && !path.starts_with("file:");
    (is_file && mode == "mode=rwc").then(|| PathBuf::from(path.as_ref()))
}

#[async_trait]
impl Store for SqliteStore {
    async fn begin(&self) -> StoreResult<Box<dyn Tx>> {
        let writer = self.connections.begin().await?;
        Ok(Box::new(SqliteTx {
            number: TxNumber::next(),
            writer,
            counts: CountChanges::default(),
            recorded_at: None,
        }))
    }

    async fn ping(&self) -> StoreResult<()> {
        self.connections.read(|connection| connection.row(PING, [], |_| Ok(())))?;
        Ok(())
    }

    async fn migrate(&self) -> StoreResult<()> {
        let _lock = self.migration_lock().await?;
        let mut file = aside(|| self.connections.open(Purpose::Migrate))?;
        // Whoever waits may be told to stop after each step.
        while aside(|| migrations::take_next(&mut file))? {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn migrations_pending(&self) -> StoreResult<usize> {
        self.connections.read(migrations::pending)
    }

    async fn presence(&self, _dispatcher: DispatcherId) -> StoreResult<Option<Box<dyn Presence>>> {
        queue::take_presence(self.path())
    }

    async fn wake_others(&self, _merchants: &[MerchantId]) -> StoreResult<()> {
        Ok(())
    }

    async fn close(&self) {
        self.connections.close().await;
    }
}

/// The one transaction that writes. It is taken back when it is dropped before it has committed.
struct SqliteTx {
    /// What tells its locks from those of another.
    number: TxNumber,
    writer: Writer,
    /// What is to be counted when it commits.
    counts: CountChanges,
    /// When outcomes were recorded, if any were: then merchants may be due later, or not at all.
    recorded_at: Option<Timestamp>,
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
