//! Connections, and the threads they are used on.
//!
//! SQLite has no server: it runs on the thread that calls it. What a request waits for takes microseconds,
//! less than handing it to another thread and back, so it is done where it is asked for; a batch lets other
//! tasks have their turn after every few rows. A commit waits for the disk, on a thread for that. What may
//! walk far is done aside ([`aside`]): the task waits, and the runtime goes on with another thread. Seldom,
//! because whatever runs on one more thread keeps memory there.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::ffi::SQLITE_CANTOPEN;
use rusqlite::{Connection, OpenFlags, Params};
use settle_store::{StoreError, StoreResult};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedMutexGuard, Semaphore};
use tokio::time::Instant;

use crate::error::{is_busy, store_error};
use crate::query::Query;

/// Reading connections that are kept at most; otherwise as many as threads may read at the same time.
const READERS_KEPT_MAX: usize = 32;
/// Reads at the same time that may walk far.
const LONG_READS_MAX: u32 = 2;
/// Rows of a batch after which other tasks have their turn: less than a millisecond's work.
const ROWS_A_TURN: usize = 32;
/// Rows before a page that are walked in microseconds.
const OFFSET_NEAR: u64 = 256;
/// How long a caller waits for its turn; the writer's queue is bounded by it.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a statement waits for another process that holds the file: so often, and so long each time. Who
/// begins to write waits for its turn, and looks as often.
const BUSY_POLLS_MAX: i32 = 2_000;
const BUSY_POLL: Duration = Duration::from_millis(5);
/// Statements that a connection keeps prepared: more than there are.
const STATEMENTS_KEPT: usize = 128;

/// Pages of the journal after which it is written back to the file: seldom enough that a page that changes
/// with every commit is written back once for many of them.
const JOURNAL_PAGES_MAX: i64 = 16_384;
/// How much of the journal a large transaction leaves behind on the disk.
const JOURNAL_BYTES_KEPT: i64 = 64 * 1024 * 1024;
/// Memory for pages, of the writer and of each reader, in KiB; negative, because a positive number counts
/// pages.
const WRITER_CACHE: i64 = -32_768;
const READER_CACHE: i64 = -4_096;

settle_store::statements! {
    hot BEGIN = "BEGIN IMMEDIATE";
    hot COMMIT = "COMMIT";
    hot ROLLBACK = "ROLLBACK";
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    Write,
    /// May take back more than fits into memory.
    Migrate,
}

/// The one connection that writes, for whoever has its turn.
pub(crate) struct Writer {
    connection: OwnedMutexGuard<Option<Connection>>,
    /// Whether statements belong to a transaction.
    has_begun: bool,
}

impl Writer {
    /// What was done is on the disk when this returns; whoever does not wait for that does not take it back.
    pub(crate) async fn commit(self) -> StoreResult<()> {
        let commit = move || self.connection()?.change(COMMIT, []).map(|_| ()).map_err(store_error);
        if !has_other_threads() {
            return commit();
        }
        let committed = tokio::task::spawn_blocking(commit).await;
        committed.unwrap_or_else(|fault| Err(StoreError::Unexpected(fault.into())))
    }

    /// Changes a row for each of the given: says which were changed.
    pub(crate) async fn change_each<P: Params>(
        &mut self,
        sql: &str,
        mut rows: impl Iterator<Item = P>,
    ) -> StoreResult<Vec<bool>> {
        let mut changed = Vec::new();
        loop {
            let before = changed.len();
            self.change_some(sql, rows.by_ref().take(ROWS_A_TURN), &mut changed)?;
            if changed.len() < before + ROWS_A_TURN {
                return Ok(changed);
            }
            tokio::task::yield_now().await;
        }
    }

    fn change_some<P: Params>(
        &self,
        sql: &str,
        rows: impl Iterator<Item = P>,
        changed: &mut Vec<bool>,
    ) -> StoreResult<()> {
        let mut statement = self.connection()?.prepare_cached(sql).map_err(store_error)?;
        for row in rows {
            changed.push(statement.execute(row).map_err(store_error)? > 0);
        }
        Ok(())
    }

    /// The connection that the transaction's statements go to.
    pub(crate) fn connection(&self) -> StoreResult<&Connection> {
        let is_whole = |connection: &&Connection| !self.has_begun || !connection.is_autocommit();
        // Some faults take a transaction back. What came after one would be committed without the rest.
        let taken_back = || StoreError::unexpected("the transaction was taken back");
        self.connection.as_ref().filter(is_whole).ok_or_else(taken_back)
    }
}

impl Drop for Writer {
    /// Takes back what was not committed: nothing of it is on the disk yet.
    fn drop(&mut self) {
        let is_open = |connection: &&Connection| !connection.is_autocommit();
        let open = self.connection.as_ref().filter(is_open);
        if open.is_some_and(|connection| connection.change(ROLLBACK, []).is_err()) {
            // Whoever comes next opens another one.
            *self.connection = None;
        }
    }
}

/// All connections of this process to one file.
#[derive(Debug)]
pub(crate) struct Connections {
    path: PathBuf,
    /// Those that nobody uses; the last one used is taken first.
    readers: Mutex<Vec<Connection>>,
    readers_kept: usize,
    long_reads: Semaphore,
    /// None until it is needed.
    writer: Arc<tokio::sync::Mutex<Option<Connection>>>,
    is_closed: AtomicBool,
}

impl Connections {
    pub(crate) fn new(path: PathBuf) -> Connections {
        let long_reads = usize::try_from(LONG_READS_MAX).unwrap_or(usize::MAX);
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Connections {
            path,
            readers: Mutex::default(),
            readers_kept: READERS_KEPT_MAX.min(threads + long_reads),
            long_reads: Semaphore::new(long_reads),
            writer: Arc::default(),
            is_closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A connection of its own.
    pub(crate) fn open(&self, purpose: Purpose) -> StoreResult<Connection> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(StoreError::Unavailable("the store is closed".into()));
        }
        open(&self.path, purpose).map_err(store_error)
    }

    /// Reads on this thread, which takes microseconds.
    pub(crate) fn read<T>(&self, work: impl FnOnce(&Connection) -> StoreResult<T>) -> StoreResult<T> {
        let idle = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => aside(|| self.open(Purpose::Read))?,
        };
        let read = work(&connection);
        // After a fault the next one begins with a connection that knows nothing of it.
        if read.is_ok() && connection.is_autocommit() {
            let mut idle = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < self.readers_kept && !self.is_closed.load(Ordering::Acquire) {
                idle.push(connection);
            }
        }
        read
    }

    /// Reads what may take a while.
    pub(crate) async fn read_long<T>(
        &self,
        work: impl FnOnce(&Connection) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let turn = tokio::time::timeout(TURN_TIMEOUT, self.long_reads.acquire()).await;
        let _turn = turn.map_err(|_| StoreError::Unavailable("long reads are under way".into()))?;
        aside(|| self.read(work))
    }

    /// Reads a page, whose rows are walked to from the beginning.
    pub(crate) async fn read_page<T>(
        &self,
        offset: u64,
        work: impl FnOnce(&Connection) -> StoreResult<T>,
    ) -> StoreResult<T> {
        if offset > OFFSET_NEAR { self.read_long(work).await } else { self.read(work) }
    }

    /// Begins a transaction, as soon as nobody else writes, here or in another process. The task goes on with
    /// something else until then.
    pub(crate) async fn begin(&self) -> StoreResult<Writer> {
        let deadline = Instant::now() + TURN_TIMEOUT;
        let mut writer = self.writer().await?;
        loop {
            let begun = writer.connection()?.change(BEGIN, []);
            match begun {
                Err(fault) if is_busy(&fault) && Instant::now() < deadline => {
                    tokio::time::sleep(BUSY_POLL).await;
                }
                begun => {
                    begun.map_err(store_error)?;
                    writer.has_begun = true;
                    return Ok(writer);
                }
            }
        }
    }

    /// The connection that writes, as soon as nobody else has it.
    pub(crate) async fn writer(&self) -> StoreResult<Writer> {
        let turn = tokio::time::timeout(TURN_TIMEOUT, Arc::clone(&self.writer).lock_owned()).await;
        let mut connection =
            turn.map_err(|_| StoreError::Unavailable("another transaction writes".into()))?;
        if connection.is_none() {
            *connection = Some(aside(|| self.open(Purpose::Write))?);
        }
        Ok(Writer { connection, has_begun: false })
    }

    /// Closes them, as soon as what reads or writes has ended. The last one writes the journal back.
    pub(crate) async fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let _long_reads =
            tokio::time::timeout(TURN_TIMEOUT, self.long_reads.acquire_many(LONG_READS_MAX)).await;
        let mut writer = self.writer.lock().await;
        let readers = std::mem::take(&mut *self.readers.lock().unwrap_or_else(PoisonError::into_inner));
        aside(|| drop((readers, writer.take())));
    }
}

/// Does what takes the thread for a while; the runtime goes on with another one.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    if has_other_threads() { tokio::task::block_in_place(work) } else { work() }
}

/// A runtime of one thread, as a simulation's, does everything on it.
fn has_other_threads() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Another process holds the file, and has so many times. Says whether to try again.
#[expect(clippy::disallowed_methods, reason = "another process gives no signal, and the runtime goes on")]
fn wait_for_others(polls: i32) -> bool {
    let tries_again = polls < BUSY_POLLS_MAX;
    if tries_again {
        aside(|| std::thread::sleep(BUSY_POLL));
    }
    tries_again
}

fn fault(code: i32, text: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), Some(text.to_owned()))
}

fn open(path: &Path, purpose: Purpose) -> rusqlite::Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_handler(Some(wait_for_others))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    // On a file that cannot have it a commit would have to wait for readers.
    connection.pragma_update_and_check(None, "journal_mode", "wal", |row| {
        let mode: String = row.get(0)?;
        if mode == "wal" {
            Ok(())
        } else {
            Err(fault(SQLITE_CANTOPEN, "it cannot have a journal of its own"))
        }
    })?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "journal_size_limit", JOURNAL_BYTES_KEPT)?;
    connection.pragma_update(None, "wal_autocheckpoint", JOURNAL_PAGES_MAX)?;
    match purpose {
        Purpose::Read => {
            connection.pragma_update(None, "cache_size", READER_CACHE)?;
            connection.pragma_update(None, "query_only", true)?;
        }
        Purpose::Write => {
            connection.pragma_update(None, "cache_size", WRITER_CACHE)?;
            // What a statement that fails would have to take back is kept in memory, not in a file.
            connection.pragma_update(None, "temp_store", "memory")?;
            // Nothing waits once a transaction has begun.
            connection.busy_handler(None)?;
        }
        Purpose::Migrate => {}
    }
    Ok(connection)
}
