//! The journal, which commits are appended to before the file has them.
//!
//! From time to time somebody has to write it back to the file. SQLite does that within the commit that made
//! the journal long, and whoever writes waits for tens of milliseconds, or longer on a slow disk. So here a
//! thread of its own does it: first beside those who write, then once more while nobody writes, for the
//! little that was appended meanwhile. Only a journal that is written back to its end begins anew; otherwise
//! it would grow for as long as somebody writes.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::ffi::SQLITE_CANTOPEN;
use rusqlite::{Connection, Row};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::connections::{Purpose, TURN_TIMEOUT, open, wait_for_others};
use crate::error::is_busy;

/// Pages of the journal after which it is written back: rare enough that a page which changes with every
/// commit is written back once for many commits. On a small volume it is written back earlier, when it takes
/// one in so many of the bytes that were free.
const PAGES_MAX: i64 = 16_384;
const PAGES_MIN: i64 = 256;
const SHARE: i64 = 16;
const PAGE_BYTES: i64 = 4_096;

thread_local! {
    /// How many pages the journal had after this thread's last commit.
    static PAGES: Cell<i64> = const { Cell::new(0) };
}

/// The one connection that writes.
pub(crate) type WriterPlace = Arc<tokio::sync::Mutex<Option<Connection>>>;

/// Whoever writes back.
#[derive(Debug, Default)]
enum Keeper {
    #[default]
    NotOpen,
    Open(Connection),
    /// The store is closed.
    Gone,
}

/// Writes the journal of one file back.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    writer: WriterPlace,
    /// Pages after which it is written back.
    pages_max: AtomicI64,
    keeper: Mutex<Keeper>,
    /// One at a time writes back.
    turn: Arc<Semaphore>,
}

impl Journal {
    pub(crate) fn new(path: PathBuf, writer: WriterPlace) -> Journal {
        let (pages_max, turn) = (AtomicI64::new(PAGES_MAX), Arc::new(Semaphore::new(1)));
        Journal { path, writer, pages_max, keeper: Mutex::default(), turn }
    }

    /// Leaves the writing back of what a connection commits to [`Journal::write_back`].
    pub(crate) fn adopt(&self, writer: &Connection) {
        self.pages_max.store(pages_max(free_bytes(&self.path)), Ordering::Relaxed);
        writer.wal_hook(Some(|_, pages| {
            PAGES.set(pages.into());
            Ok(())
        }));
    }

    /// Whether the last commit of this thread made it so long that it has to be written back.
    pub(crate) fn is_long(&self) -> bool {
        PAGES.get() >= self.pages_max.load(Ordering::Relaxed)
    }

    /// Writes it back on another thread, unless one does already.
    pub(crate) fn write_back(self: &Arc<Journal>) {
        let Ok(turn) = Arc::clone(&self.turn).try_acquire_owned() else {
            return;
        };
        let journal = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            let mut keeper = journal.keeper.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(*keeper, Keeper::NotOpen) {
                *keeper = open(&journal.path, Purpose::WriteBack).map_or(Keeper::NotOpen, Keeper::Open);
            }
            if let Keeper::Open(connection) = &*keeper {
                write_back(connection);
                let _nobody_writes = journal.writer.blocking_lock();
                write_back(connection);
            }
            drop(turn);
        });
    }

    /// Ends as soon as nobody writes back, and for good.
    pub(crate) fn close(&self) {
        *self.keeper.lock().unwrap_or_else(PoisonError::into_inner) = Keeper::Gone;
    }
}

/// Writes the journal back as far as no reader needs it. If that fails, the journal stays, and whoever commits
/// next has it written back again; a disk that is full or broken shows in the commits themselves.
pub(crate) fn write_back(connection: &Connection) {
    let done = |_: &Row<'_>| Ok(());
    let _later = connection.query_row("PRAGMA wal_checkpoint (PASSIVE)", [], done);
}

/// Gives the file a journal of its own, if it has none: without one a commit would have to wait for readers.
/// On a new file two processes can meet, each of which waits for the other; SQLite then refuses one of them
/// without asking whether to try again.
pub(crate) fn keep_journal(connection: &Connection, path: &Path) -> rusqlite::Result<()> {
    let started = Instant::now();
    loop {
        let kept = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| {
            let mode: String = row.get(0)?;
            if mode == "wal" { Ok(()) } else { Err(no_journal()) }
        });
        match kept {
            Err(refused) if is_busy(&refused) && started.elapsed() < TURN_TIMEOUT => {
                wait_for_others(0);
            }
            kept => {
                kept?;
                break;
            }
        }
    }
    let pages_max = pages_max(free_bytes(path));
    // How much of it stays on the disk after a large transaction.
    connection.pragma_update(None, "journal_size_limit", pages_max.saturating_mul(PAGE_BYTES))?;
    connection.pragma_update(None, "wal_autocheckpoint", pages_max)
}

fn no_journal() -> rusqlite::Error {
    let text = "it cannot have a journal of its own".to_owned();
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(SQLITE_CANTOPEN), Some(text))
}

/// The free bytes of the volume that a file is on; many if nobody can tell.
fn free_bytes(file: &Path) -> i64 {
    let free = rustix::fs::statvfs(file).map(|volume| volume.f_bavail.saturating_mul(volume.f_frsize));
    free.ok().and_then(|free| i64::try_from(free).ok()).unwrap_or(i64::MAX)
}

fn pages_max(free_bytes: i64) -> i64 {
    (free_bytes / SHARE / PAGE_BYTES).clamp(PAGES_MIN, PAGES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::{Connections, Writer};

    const MIB: i64 = 1_024 * 1_024;
    const PAGES: i64 = 100;

    #[test]
    fn a_journal_takes_a_small_part_of_a_small_volume() {
        assert_eq!(pages_max(i64::MAX) * PAGE_BYTES, 64 * MIB);
        assert_eq!(pages_max(64 * MIB) * PAGE_BYTES, 4 * MIB);
        assert_eq!(pages_max(0) * PAGE_BYTES, MIB);
    }

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
        std::fs::metadata(folder.join(file)).expect("a file").len() / PAGE_BYTES.unsigned_abs()
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
        while pages(folder.path(), "a.db") == before {
            tokio::task::yield_now().await;
        }
        // From here on nobody else begins to write back.
        connections.journal.pages_max.store(i64::MAX, Ordering::Relaxed);
        writer.commit().await.expect("nothing is in the way");
        let _done = connections.journal.turn.acquire().await.expect("nobody closes it");
        let longest = pages(folder.path(), "a.db-wal");
        append(&connections).await;
        assert_eq!(pages(folder.path(), "a.db-wal"), longest);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn it_stays_short_under_those_who_write_without_a_pause() {
        let folder = tempfile::tempdir().expect("a folder");
        let connections = small(folder.path()).await;
        for _ in 0..400 {
            append(&connections).await;
        }
        let _done = connections.journal.turn.acquire().await.expect("nobody closes it");
        assert!(pages(folder.path(), "a.db") > 3_000, "{} pages", pages(folder.path(), "a.db"));
        let longest = pages(folder.path(), "a.db-wal");
        assert!(longest < 2_000, "{longest} pages");
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
