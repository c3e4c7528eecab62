//! Connections, and the threads that use them.
//!
//! SQLite has no server: it executes on the thread that calls it, and most statements take microseconds, less
//! than handing them to another thread and back. A library that gives each connection a thread, as `sqlx`
//! does, hands over every statement and every row, and asks the connection whether it lives before and after
//! each use: a fifth of the processor time of a delivery. So this backend uses `rusqlite`:
//!
//! - A statement executes on the caller's thread. A batch yields to other tasks after every few rows.
//! - A commit waits for the disk on a blocking thread. Another one writes the journal back (`journal.rs`).
//! - A read that may walk far or a statement that changes many rows goes through [`aside`]: it blocks its
//!   thread, and the runtime goes on with another. This is rare: each more thread keeps memory of its own.
//!
//! The price: a read from a slow disk, of pages that are not in memory, holds up a thread of the runtime.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{CachedStatement, Connection, Params, Row};
use settle_store::{StoreError, StoreResult};
use tokio::sync::{OwnedMutexGuard, Semaphore};
use tokio::time::Instant;

use crate::error::{is_busy, store_error};
use crate::journal::{Journal, WriterPlace, write_back};
use crate::opening::{BUSY_POLL, Purpose, TURN_TIMEOUT, open, set_synchronous};
use crate::query::Query;
use crate::threads::{aside, has_other_threads};

/// Most reading connections kept. On smaller machines: as many as threads can read at the same time.
const READERS_KEPT_MAX: usize = 32;
/// Reads that may walk far, at the same time.
const LONG_READS_MAX: u32 = 2;
/// Rows after which a batch yields to other tasks: less than a millisecond's work.
const ROWS_A_TURN: usize = 32;
/// The same for rows that are only looked at.
const LOOKS_A_TURN: usize = 256;
/// Most rows before a page that SQLite walks in microseconds.
const OFFSET_NEAR: u64 = 256;

settle_store::statements! {
    hot BEGIN = "BEGIN IMMEDIATE";
    hot SNAPSHOT = "BEGIN DEFERRED";
    hot COMMIT = "COMMIT";
    hot ROLLBACK = "ROLLBACK";
}

/// The one connection that writes, lent to one caller at a time.
pub(crate) struct Writer {
    connection: OwnedMutexGuard<Option<Connection>>,
    journal: Arc<Journal>,
    /// Whether a transaction has begun.
    has_begun: bool,
    /// Whether its commit does not wait for the disk.
    is_relaxed: bool,
}

impl Writer {
    /// The transaction is on the disk when this returns. A caller that stops waiting does not undo it.
    pub(crate) async fn commit(self) -> StoreResult<()> {
        if !has_other_threads() {
            self.connection()?.change(COMMIT, []).map_err(store_error)?;
            if self.journal.is_long()
                && let Some(connection) = &*self.connection
            {
                self.journal.tell(write_back(connection));
            }
            return Ok(());
        }
        let commit = move || {
            self.connection()?.change(COMMIT, []).map_err(store_error)?;
            let journal = Arc::clone(&self.journal);
            drop(self);
            if journal.is_long() {
                journal.write_back();
            }
            Ok(())
        };
        let committed = tokio::task::spawn_blocking(commit).await;
        committed.unwrap_or_else(|fault| Err(StoreError::Unexpected(fault.into())))
    }

    /// Executes the statement for each of the given rows, and says which of them changed something.
    pub(crate) async fn change_each<P: Params>(
        &mut self,
        sql: &str,
        rows: impl Iterator<Item = P>,
    ) -> StoreResult<Vec<bool>> {
        let change = |statement: &mut CachedStatement<'_>, row| {
            statement.execute(row).map(|changed| changed > 0).map_err(store_error)
        };
        self.each(sql, rows, ROWS_A_TURN, change).await
    }

    /// Executes a statement that finds at most one row for each of the given ones, and gives what it found.
    pub(crate) async fn row_each<P: Params, T>(
        &mut self,
        sql: &str,
        asked: impl Iterator<Item = P>,
        mut read: impl FnMut(&Row<'_>) -> StoreResult<T>,
    ) -> StoreResult<Vec<Option<T>>> {
        let find = |statement: &mut CachedStatement<'_>, params| {
            let mut rows = statement.query(params).map_err(store_error)?;
            rows.next().map_err(store_error)?.map(&mut read).transpose()
        };
        self.each(sql, asked, LOOKS_A_TURN, find).await
    }

    /// Executes the statement for each of the given rows, and yields to other tasks after each turn.
    async fn each<P, T>(
        &mut self,
        sql: &str,
        mut rows: impl Iterator<Item = P>,
        a_turn: usize,
        mut execute: impl FnMut(&mut CachedStatement<'_>, P) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>> {
        let mut done = Vec::new();
        loop {
            let before = done.len();
            self.some(sql, rows.by_ref().take(a_turn), &mut execute, &mut done)?;
            if done.len() < before + a_turn {
                return Ok(done);
            }
            tokio::task::yield_now().await;
        }
    }

    fn some<P, T>(
        &self,
        sql: &str,
        rows: impl Iterator<Item = P>,
        mut execute: impl FnMut(&mut CachedStatement<'_>, P) -> StoreResult<T>,
        done: &mut Vec<T>,
    ) -> StoreResult<()> {
        let mut statement = self.connection()?.prepare_cached(sql).map_err(store_error)?;
        for row in rows {
            done.push(execute(&mut statement, row)?);
        }
        Ok(())
    }

    /// The connection that the transaction's statements go to.
    pub(crate) fn connection(&self) -> StoreResult<&Connection> {
        let is_whole = |connection: &&Connection| !self.has_begun || !connection.is_autocommit();
        // Some faults make SQLite roll back. Later statements would be committed without the earlier ones.
        let taken_back = || StoreError::unexpected("the transaction was taken back");
        self.connection.as_ref().filter(is_whole).ok_or_else(taken_back)
    }
}

impl Drop for Writer {
    /// Rolls back a transaction that has not committed.
    fn drop(&mut self) {
        let is_open = |connection: &&Connection| !connection.is_autocommit();
        let open = self.connection.as_ref().filter(is_open);
        let is_stuck = open.is_some_and(|connection| connection.change(ROLLBACK, []).is_err());
        let is_careless = self.is_relaxed
            && self
                .connection
                .as_ref()
                .is_some_and(|connection| set_synchronous(connection, "full").is_err());
        if is_stuck || is_careless {
            // The next caller opens another connection.
            *self.connection = None;
        }
    }
}

/// Readers that nobody uses; the one used last is taken first.
#[derive(Debug)]
struct IdleReaders {
    connections: Mutex<Vec<Connection>>,
    kept: usize,
    is_closed: AtomicBool,
}

impl IdleReaders {
    fn new(kept: usize) -> IdleReaders {
        IdleReaders { connections: Mutex::default(), kept, is_closed: AtomicBool::new(false) }
    }

    /// None also when all are closed: who then opens one is refused.
    fn take(&self) -> Option<Connection> {
        let mut idle = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_closed.load(Ordering::Acquire) { None } else { idle.pop() }
    }

    fn take_all(&self) -> Vec<Connection> {
        std::mem::take(&mut *self.connections.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Closes it if there are enough.
    fn give_back(&self, connection: Connection) {
        let mut idle = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let is_kept =
            connection.is_autocommit() && idle.len() < self.kept && !self.is_closed.load(Ordering::Acquire);
        if is_kept {
            idle.push(connection);
        }
    }
}

/// Reads for as long as its owner likes, and always sees the same state of the file.
pub(crate) struct Snapshot {
    /// None after a read that has failed: the connection is closed, and the snapshot has ended with it.
    connection: Option<Connection>,
    readers: Arc<IdleReaders>,
}

impl Snapshot {
    /// Reads aside.
    pub(crate) fn read<T>(&mut self, work: impl FnOnce(&Connection) -> StoreResult<T>) -> StoreResult<T> {
        let ended = || StoreError::unexpected("the snapshot has ended");
        let connection = self.connection.take().ok_or_else(ended)?;
        let read = aside(|| work(&connection))?;
        self.connection = Some(connection);
        Ok(read)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && connection.change(COMMIT, []).is_ok()
        {
            self.readers.give_back(connection);
        }
    }
}

/// All connections of this process to one file.
#[derive(Debug)]
pub(crate) struct Connections {
    path: PathBuf,
    readers: Arc<IdleReaders>,
    long_reads: Semaphore,
    /// None until the first write.
    writer: WriterPlace,
    pub(crate) journal: Arc<Journal>,
}

impl Connections {
    pub(crate) fn new(path: PathBuf) -> Connections {
        let long_reads = usize::try_from(LONG_READS_MAX).unwrap_or(usize::MAX);
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let writer = WriterPlace::default();
        Connections {
            journal: Arc::new(Journal::new(path.clone(), Arc::clone(&writer))),
            path,
            readers: Arc::new(IdleReaders::new(READERS_KEPT_MAX.min(threads + long_reads))),
            long_reads: Semaphore::new(long_reads),
            writer,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a new connection.
    pub(crate) fn open(&self, purpose: Purpose) -> StoreResult<Connection> {
        if self.readers.is_closed.load(Ordering::Acquire) {
            return Err(StoreError::Unavailable("the store is closed".into()));
        }
        open(&self.path, purpose).map_err(store_error)
    }

    /// Reads on this thread, for reads that take microseconds.
    pub(crate) fn read<T>(&self, work: impl FnOnce(&Connection) -> StoreResult<T>) -> StoreResult<T> {
        let connection = self.reader()?;
        let read = work(&connection);
        // A connection that has failed is closed: the next reader takes another one.
        if read.is_ok() {
            self.readers.give_back(connection);
        }
        read
    }

    fn reader(&self) -> StoreResult<Connection> {
        match self.readers.take() {
            Some(connection) => Ok(connection),
            None => aside(|| self.open(Purpose::Read)),
        }
    }

    /// A reader of one state of the file, that of its first statement.
    pub(crate) fn snapshot(&self) -> StoreResult<Snapshot> {
        let connection = self.reader()?;
        begin_snapshot(&connection)?;
        Ok(Snapshot { connection: Some(connection), readers: Arc::clone(&self.readers) })
    }

    /// Reads aside, for reads that may take a while.
    pub(crate) async fn read_long<T>(
        &self,
        work: impl FnOnce(&Connection) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let turn = tokio::time::timeout(TURN_TIMEOUT, self.long_reads.acquire()).await;
        let _turn = turn.map_err(|_| StoreError::Unavailable("long reads are under way".into()))?;
        aside(|| self.read(work))
    }

    /// Reads a page: on this thread if it starts near the beginning of the list, otherwise aside, because
    /// SQLite walks over all rows before it.
    pub(crate) async fn read_page<T>(
        &self,
        offset: u64,
        work: impl FnOnce(&Connection) -> StoreResult<T>,
    ) -> StoreResult<T> {
        if offset > OFFSET_NEAR { self.read_long(work).await } else { self.read(work) }
    }

    /// Begins a transaction, as soon as no other task and no other process writes. It waits without blocking
    /// the thread.
    pub(crate) async fn begin(&self) -> StoreResult<Writer> {
        let writer = self.writer().await?;
        Connections::begin_on(writer).await
    }

    /// A transaction whose commit does not wait for the disk: the next one that does takes it along. If the
    /// machine loses its power before, it is as if it had never been.
    pub(crate) async fn begin_relaxed(&self) -> StoreResult<Writer> {
        let mut writer = self.writer().await?;
        writer.is_relaxed = true;
        set_synchronous(writer.connection()?, "normal").map_err(store_error)?;
        Connections::begin_on(writer).await
    }

    async fn begin_on(mut writer: Writer) -> StoreResult<Writer> {
        let deadline = Instant::now() + TURN_TIMEOUT;
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

    /// The connection that writes, as soon as no other task has it.
    pub(crate) async fn writer(&self) -> StoreResult<Writer> {
        let turn = tokio::time::timeout(TURN_TIMEOUT, Arc::clone(&self.writer).lock_owned()).await;
        let mut connection =
            turn.map_err(|_| StoreError::Unavailable("another transaction writes".into()))?;
        if connection.is_none() {
            let opened = aside(|| self.open(Purpose::Write))?;
            self.journal.adopt(&opened);
            *connection = Some(opened);
        }
        Ok(Writer { connection, journal: Arc::clone(&self.journal), has_begun: false, is_relaxed: false })
    }

    /// Closes all connections, as soon as long reads and the writer have ended; late ones end with the
    /// process. The last connection that closes writes the journal back.
    pub(crate) async fn close(&self) {
        self.readers.is_closed.store(true, Ordering::Release);
        let _long_reads =
            tokio::time::timeout(TURN_TIMEOUT, self.long_reads.acquire_many(LONG_READS_MAX)).await;
        // Before the writer is taken, which whoever writes back may wait for.
        self.journal.close().await;
        let writer = tokio::time::timeout(TURN_TIMEOUT, self.writer.lock()).await;
        let readers = self.readers.take_all();
        aside(|| drop((readers, writer.map(|mut writer| writer.take()))));
    }
}

/// Lets a connection that reads see one state of the file from its next statement on.
fn begin_snapshot(connection: &Connection) -> StoreResult<()> {
    connection.change(SNAPSHOT, []).map(|_| ()).map_err(store_error)
}

/// Reads with several statements that see the same state of the file.
pub(crate) fn in_snapshot<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> StoreResult<T>,
) -> StoreResult<T> {
    begin_snapshot(connection)?;
    // If it fails, [`Connections::read`] closes the connection, and the snapshot ends with it.
    let read = work(connection)?;
    connection.change(COMMIT, []).map_err(store_error)?;
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn synchronous(writer: &Writer) -> i64 {
        let connection = writer.connection().expect("a connection");
        connection.pragma_query_value(None, "synchronous", |row| row.get(0)).expect("a level")
    }

    #[tokio::test]
    async fn a_relaxed_transaction_leaves_the_next_one_careful() {
        let folder = tempfile::tempdir().expect("a folder");
        let connections = Connections::new(folder.path().join("a.db"));
        for is_committed in [true, false] {
            let relaxed = connections.begin_relaxed().await.expect("a transaction");
            assert_eq!(synchronous(&relaxed), 1);
            if is_committed {
                relaxed.commit().await.expect("nothing is in the way");
            } else {
                drop(relaxed);
            }
            assert_eq!(synchronous(&connections.begin().await.expect("the next one")), 2);
        }
    }

    #[tokio::test]
    async fn a_connection_is_kept_after_a_snapshot_and_closed_if_it_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let connections = Connections::new(folder.path().join("a.db"));
        drop(connections.begin().await.expect("a file"));
        let read = |is_broken| {
            connections.read(|connection| {
                in_snapshot(connection, |snapshot| {
                    assert!(!snapshot.is_autocommit());
                    if is_broken { Err(StoreError::unexpected("broken")) } else { Ok(()) }
                })
            })
        };
        assert!(read(false).is_ok() && kept(&connections) == 1);
        assert!(read(true).is_err() && kept(&connections) == 0);
    }

    #[tokio::test]
    async fn a_snapshot_lasts_and_its_connection_is_kept_unless_it_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let connections = Connections::new(folder.path().join("a.db"));
        let write = async |sql| {
            let writer = connections.begin().await.expect("a turn");
            writer.connection().expect("a connection").change(sql, []).expect("a statement");
            writer.commit().await.expect("nothing is in the way");
        };
        let count = |connection: &Connection| {
            connection.row("SELECT count(*) FROM a", [], |row| Ok(row.get::<_, i64>(0).expect("a number")))
        };
        write("CREATE TABLE a (b)").await;
        let mut snapshot = connections.snapshot().expect("a reader");
        assert_eq!(snapshot.read(count).expect("a row"), Some(0));
        write("INSERT INTO a VALUES (1)").await;
        assert_eq!(snapshot.read(count).expect("a row"), Some(0), "what is written later is not seen");
        drop(snapshot);
        assert_eq!(kept(&connections), 1);

        let mut snapshot = connections.snapshot().expect("the same reader");
        assert_eq!((snapshot.read(count).expect("a row"), kept(&connections)), (Some(1), 0));
        snapshot.read(|_| Err::<(), _>(StoreError::unexpected("broken"))).expect_err("broken");
        assert!(snapshot.read(count).is_err(), "it would see a later state");
        drop(snapshot);
        assert_eq!(kept(&connections), 0);
    }

    fn kept(connections: &Connections) -> usize {
        connections.readers.connections.lock().expect("nobody panicked").len()
    }
}
