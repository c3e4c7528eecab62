//! The journal, which commits are appended to before the file has them.
//!
//! From time to time somebody has to write it back to the file. SQLite does that within the commit that made
//! the journal long, and whoever writes waits for tens of milliseconds, or longer on a slow disk. So here a
//! thread of its own does it: first beside those who write, then once more while nobody of this process
//! writes, for the little that was appended meanwhile. Only a journal that is written back to its end begins
//! anew; otherwise it would grow for as long as somebody writes.
//!
//! One connection that writes back beside another that writes could damage the file before SQLite 3.51.3 (its
//! "WAL-reset bug"); a test keeps an older one away.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::opening::{Purpose, TURN_TIMEOUT, journal_pages_max, open};

/// How often it is written back beside those who write. A pass that somebody overtakes does not wait for the
/// file to reach the disk, so the last one would, while everybody waits. The first takes tens of
/// milliseconds, the others hardly one.
const PASSES_BESIDE: usize = 4;

thread_local! {
    /// How many pages the journal had after this thread's last commit.
    static PAGES: Cell<i64> = const { Cell::new(0) };
}

/// The one connection that writes.
pub(crate) type WriterPlace = Arc<tokio::sync::Mutex<Option<Connection>>>;

/// Writes the journal of one file back.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    writer: WriterPlace,
    /// Pages after which it is written back.
    pages_max: AtomicI64,
    /// The connection that writes back, once there is one.
    keeper: Mutex<Option<Connection>>,
    /// One at a time writes back, and nobody once the store is closed.
    turn: Arc<Semaphore>,
}

impl Journal {
    pub(crate) fn new(path: PathBuf, writer: WriterPlace) -> Journal {
        let (pages_max, turn) = (AtomicI64::new(i64::MAX), Arc::new(Semaphore::new(1)));
        Journal { path, writer, pages_max, keeper: Mutex::default(), turn }
    }

    /// Leaves the writing back of what a connection commits to [`Journal::write_back`].
    pub(crate) fn adopt(&self, writer: &Connection) {
        self.pages_max.store(journal_pages_max(&self.path), Ordering::Relaxed);
        writer.wal_hook(Some(|_, pages| {
            PAGES.set(pages.into());
            Ok(())
        }));
    }

    /// Whether the last commit of this thread made it so long that it has to be written back. Tells once: a
    /// commit that changes nothing does not count the pages.
    pub(crate) fn is_long(&self) -> bool {
        PAGES.take() >= self.pages_max.load(Ordering::Relaxed)
    }

    /// Writes it back on another thread, unless one does already.
    pub(crate) fn write_back(self: &Arc<Journal>) {
        let Ok(turn) = Arc::clone(&self.turn).try_acquire_owned() else {
            return;
        };
        let journal = Arc::clone(self);
        tokio::spawn(async move {
            journal.write_back_to_its_end().await;
            drop(turn);
        });
    }

    /// No thread waits for the writer: it may be the last that the system gives, and the writer need it.
    async fn write_back_to_its_end(self: &Arc<Journal>) {
        let journal = Arc::clone(self);
        let passes = move || (0..PASSES_BESIDE).all(|_| journal.write_back_beside());
        let _is_done = tokio::task::spawn_blocking(passes).await;
        let writer = Arc::clone(&self.writer).lock_owned();
        let Ok(writer) = tokio::time::timeout(TURN_TIMEOUT, writer).await else {
            return;
        };
        let journal = Arc::clone(self);
        let rest = move || {
            if !journal.write_back_beside()
                && let Some(connection) = &*writer
            {
                let _later = write_back(connection);
            }
        };
        let _is_done = tokio::task::spawn_blocking(rest).await;
    }

    /// Writes it back with a connection of its own, and says whether that was possible: there may be no file
    /// descriptors left for one.
    fn write_back_beside(&self) -> bool {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if keeper.is_none() {
            *keeper = open(&self.path, Purpose::WriteBack).ok();
        }
        let is_done = keeper.as_ref().is_some_and(|connection| write_back(connection).is_ok());
        if !is_done {
            *keeper = None;
        }
        is_done
    }

    /// Nobody writes back from now on. Waits for whoever does, for as long as for a turn to write.
    pub(crate) async fn close(&self) {
        let turn = tokio::time::timeout(TURN_TIMEOUT, self.turn.acquire()).await;
        self.turn.close();
        if turn.is_ok() {
            *self.keeper.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

/// Writes the journal back as far as no reader needs it. If that fails, the journal stays, and whoever
/// commits next has it written back again.
pub(crate) fn write_back(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint (PASSIVE)", [], |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::connections::{Connections, Writer};

    const PAGES: i64 = 100;
    const PAGE_BYTES: u64 = 4_096;

    /// A file with a table, whose journal is written back after [`PAGES`].
    async fn small(folder: &Path) -> Connections {
        let connections = Connections::new(folder.join("a.db"));
        let writer = connections.begin().await.expect("a transaction");
        execute(&writer, "CREATE TABLE t (bytes BLOB)");
        connections.journal.pages_max.store(PAGES, Ordering::Relaxed);
        writer.commit().await.expect("nothing is in the way");
        connections
    }

    fn execute(writer: &Writer, sql: &str) {
        writer.connection().expect("a connection").execute(sql, []).expect("it can be executed");
    }

    /// Appends ten pages and a few to the journal.
    async fn append(connections: &Connections) {
        let writer = connections.begin().await.expect("a transaction");
        execute(&writer, "INSERT INTO t VALUES (zeroblob(40960))");
        writer.commit().await.expect("nothing is in the way");
    }

    fn pages(folder: &Path, file: &str) -> u64 {
        std::fs::metadata(folder.join(file)).expect("a file").len() / PAGE_BYTES
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn it_begins_anew_although_somebody_writes_meanwhile() {
        let folder = tempfile::tempdir().expect("a folder");
        let connections = small(folder.path()).await;
        let nobody = connections.journal.turn.acquire().await.expect("nobody closes it");
        for _ in 0..20 {
            append(&connections).await;
        }
        let writer = connections.begin().await.expect("a transaction");
        execute(&writer, "INSERT INTO t VALUES (zeroblob(40960))");
        let before = pages(folder.path(), "a.db");
        drop(nobody);
        connections.journal.write_back();
        let is_under_way = async {
            while pages(folder.path(), "a.db") == before {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), is_under_way).await.expect("it is written back");
        // From here on nobody else begins to write back.
        connections.journal.pages_max.store(i64::MAX, Ordering::Relaxed);
        writer.commit().await.expect("nothing is in the way");
        let _done = connections.journal.turn.acquire().await.expect("nobody closes it");
        let longest = pages(folder.path(), "a.db-wal");
        append(&connections).await;
        assert_eq!(pages(folder.path(), "a.db-wal"), longest);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn it_is_written_back_also_without_files_for_another_connection() {
        let folder = tempfile::tempdir().expect("a folder");
        let connections = small(folder.path()).await;
        let journal =
            Journal::new(folder.path().join("missing/a.db"), Arc::clone(&connections.journal.writer));
        for _ in 0..8 {
            append(&connections).await;
        }
        let before = pages(folder.path(), "a.db");
        Arc::new(journal).write_back_to_its_end().await;
        assert!(pages(folder.path(), "a.db") >= before + 80, "{} pages", pages(folder.path(), "a.db"));
    }

    #[test]
    fn sqlite_is_one_that_may_write_back_beside_a_writer() {
        assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_commit_writes_it_back_itself() {
        let folder = tempfile::tempdir().expect("a folder");
        let connections = small(folder.path()).await;
        let before = pages(folder.path(), "a.db");
        let nobody = connections.journal.turn.acquire().await.expect("nobody closes it");
        for _ in 0..20 {
            append(&connections).await;
        }
        assert_eq!(pages(folder.path(), "a.db"), before);
        drop(nobody);
        append(&connections).await;
        let _done = connections.journal.turn.acquire().await.expect("nobody closes it");
        assert!(pages(folder.path(), "a.db") >= before + 200, "{} pages", pages(folder.path(), "a.db"));
    }

    /// As in the simulation.
    #[tokio::test]
    async fn on_a_runtime_of_one_thread_commits_write_it_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let connections = small(folder.path()).await;
        for _ in 0..20 {
            append(&connections).await;
        }
        assert!(pages(folder.path(), "a.db") > 100, "{} pages", pages(folder.path(), "a.db"));
        assert!(pages(folder.path(), "a.db-wal") < 130, "{} pages", pages(folder.path(), "a.db-wal"));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_closed_store_has_no_journal_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let connections = small(folder.path()).await;
        for _ in 0..40 {
            append(&connections).await;
        }
        connections.close().await;
        assert!(!folder.path().join("a.db-wal").exists());
    }
}
