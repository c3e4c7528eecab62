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
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::opening::{PAGE_BYTES, Purpose, TURN_TIMEOUT, journal_pages_max, open};

/// How often it is written back beside those who write. A pass that somebody overtakes does not wait for the
/// file to reach the disk, so the last one would, while everybody waits. The first takes tens of
/// milliseconds, the others hardly one.
const PASSES_BESIDE: usize = 4;
/// When so many times the pages after which it is written back are left, somebody keeps them.
const STUCK_TIMES: i64 = 2;

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
    /// Whether nobody could, the last time.
    is_stuck: AtomicBool,
    /// Whether another process was at it, the last time.
    is_busy: AtomicBool,
}

impl Journal {
    pub(crate) fn new(path: PathBuf, writer: WriterPlace) -> Journal {
        let (pages_max, turn) = (AtomicI64::new(i64::MAX), Arc::new(Semaphore::new(1)));
        let (is_stuck, is_busy) = (AtomicBool::new(false), AtomicBool::new(false));
        Journal { path, writer, pages_max, keeper: Mutex::default(), turn, is_stuck, is_busy }
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
        let passes = move || (0..PASSES_BESIDE).all(|_| journal.write_back_beside().is_ok());
        let _is_done = tokio::task::spawn_blocking(passes).await;
        let writer = Arc::clone(&self.writer).lock_owned();
        let Ok(writer) = tokio::time::timeout(TURN_TIMEOUT, writer).await else {
            return;
        };
        let journal = Arc::clone(self);
        let rest = move || match (journal.write_back_beside(), &*writer) {
            (Err(_), Some(connection)) => write_back(connection),
            (beside, _) => beside,
        };
        if let Ok(written_back) = tokio::task::spawn_blocking(rest).await {
            self.tell(written_back);
        }
    }

    /// Writes it back with a connection of its own. There may be no file descriptors left for one.
    fn write_back_beside(&self) -> rusqlite::Result<WrittenBack> {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match keeper.take() {
            Some(connection) => connection,
            None => open(&self.path, Purpose::WriteBack)?,
        };
        let written_back = write_back(&connection)?;
        *keeper = Some(connection);
        Ok(written_back)
    }

    /// Logs once that it cannot be written back, and once that it could be again.
    pub(crate) fn tell(&self, written_back: rusqlite::Result<WrittenBack>) {
        let long = self.pages_max.load(Ordering::Relaxed).saturating_mul(STUCK_TIMES);
        let is_busy = matches!(written_back, Ok(WrittenBack { pages_left: None }));
        let was_busy = self.is_busy.swap(is_busy, Ordering::Relaxed);
        let fault = match written_back {
            Ok(WrittenBack { pages_left: Some(left) }) if left < long => None,
            Ok(WrittenBack { pages_left: Some(_) }) => {
                Some("somebody reads what was there before it".to_owned())
            }
            // It soon ends, unless it was at it before and the journal is too long.
            Ok(WrittenBack { pages_left: None }) if !was_busy || self.pages() < long => return,
            Ok(WrittenBack { pages_left: None }) => {
                Some("another process is writing it back, and does not end".to_owned())
            }
            Err(fault) => Some(fault.to_string()),
        };
        let was_stuck = self.is_stuck.swap(fault.is_some(), Ordering::Relaxed);
        match fault {
            Some(fault) if !was_stuck => {
                tracing::warn!(
                    fault,
                    "the journal cannot be written back to the file: it grows until it can"
                );
            }
            None if was_stuck => tracing::info!("the journal is written back to the file again"),
            Some(_) | None => {}
        }
    }

    /// How long its file is. It lies beside the database, wherever a link to that leads, and is not shortened
    /// until a commit begins it anew.
    pub(crate) fn bytes(&self) -> u64 {
        let path = self.path.canonicalize();
        let mut file = path.unwrap_or_else(|_| self.path.clone()).into_os_string();
        file.push("-wal");
        std::fs::metadata(file).map_or(0, |file| file.len())
    }

    /// The same, in pages.
    fn pages(&self) -> i64 {
        i64::try_from(self.bytes()).map_or(i64::MAX, |bytes| bytes / PAGE_BYTES)
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

/// What became of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WrittenBack {
    /// How many pages of it are left; nobody knows while another process is writing it back.
    pages_left: Option<i64>,
}

/// Writes the journal back as far as no reader needs it. If that fails, the journal stays, and whoever
/// commits next has it written back again.
pub(crate) fn write_back(connection: &Connection) -> rusqlite::Result<WrittenBack> {
    connection.query_row("PRAGMA wal_checkpoint (PASSIVE)", [], |row| {
        let (is_busy, pages, written_back): (bool, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(WrittenBack { pages_left: (!is_busy).then_some(pages - written_back) })
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Barrier;
    use std::thread;
    use std::time::Duration;

    use settle_testing::log::Log;
    use tracing::Level;

    use super::*;
    use crate::connections::{Connections, Writer};

    const PAGES: i64 = 100;

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

    #[tokio::test]
    async fn it_is_said_once_that_nobody_can_write_it_back_and_once_that_somebody_can_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let writer = small(folder.path()).await.journal.writer.clone();
        let journal = Arc::new(Journal::new(folder.path().join("missing/a.db"), Arc::clone(&writer)));
        let log = Log::of(Level::INFO, "settle_store_sqlite");
        // Within a transaction a connection does not write back.
        for (change, said) in [
            ("BEGIN IMMEDIATE", "the journal cannot be written back to the file: it grows until it can"),
            ("COMMIT", "the journal is written back to the file again"),
        ] {
            writer.lock().await.as_ref().expect("a writer").execute_batch(change).expect("it can");
            for said in [&[said][..], &[]] {
                journal.write_back_to_its_end().await;
                assert_eq!(log.taken(), said);
            }
        }
    }

    #[tokio::test]
    async fn it_is_said_that_a_reader_keeps_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let connections = small(folder.path()).await;
        let log = Log::of(Level::INFO, "settle_store_sqlite");
        let reader = Connection::open(folder.path().join("a.db")).expect("the file");
        reader.execute_batch("BEGIN; SELECT * FROM t").expect("a snapshot");
        let stuck = "the journal cannot be written back to the file: it grows until it can";
        // Each appends ten pages and a few: 200 are too many.
        for said in [&[][..], &[stuck]] {
            for _ in 0..12 {
                append(&connections).await;
            }
            assert_eq!(log.taken(), said);
        }
        // What another process has begun to write back and does not end is not written back.
        let other = another_that_waits_for_readers(folder.path().join("a.db"));
        connections.journal.write_back_to_its_end().await;
        assert_eq!(log.taken(), [""; 0]);
        other.end();
        reader.execute_batch("COMMIT").expect("the snapshot's end");
        append(&connections).await;
        assert_eq!(log.taken(), ["the journal is written back to the file again"]);
    }

    /// One that writes back, and waits for readers of what was there before for as long as it is let.
    struct Other {
        ended: &'static Barrier,
        thread: thread::JoinHandle<()>,
    }

    fn another_that_waits_for_readers(path: PathBuf) -> Other {
        static BEGUN: Barrier = Barrier::new(2);
        static ENDED: Barrier = Barrier::new(2);
        fn wait(polls: i32) -> bool {
            assert_eq!(polls, 0);
            BEGUN.wait();
            ENDED.wait();
            false
        }
        let thread = thread::spawn(move || {
            let connection = Connection::open(path).expect("the file");
            connection.busy_handler(Some(wait)).expect("it waits");
            let full = "PRAGMA wal_checkpoint (FULL)";
            connection.query_row(full, [], |_| Ok(())).expect("it is no fault that it could not");
        });
        BEGUN.wait();
        Other { ended: &ENDED, thread }
    }

    impl Other {
        fn end(self) {
            self.ended.wait();
            self.thread.join().expect("it ended");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_another_process_does_not_end_is_told_once_the_journal_is_too_long() {
        let folder = tempfile::tempdir().expect("a folder");
        let connections = small(folder.path()).await;
        let log = Log::of(Level::INFO, "settle_store_sqlite");
        let _nobody = connections.journal.turn.acquire().await.expect("nobody closes it");
        let [done, busy] = [Some(0), None].map(|pages_left| WrittenBack { pages_left });
        for (appended, said) in
            [(9, &[][..]), (12, &["the journal cannot be written back to the file: it grows until it can"])]
        {
            for _ in 0..appended {
                append(&connections).await;
            }
            connections.journal.tell(Ok(done));
            connections.journal.tell(Ok(busy));
            assert_eq!(log.taken(), [""; 0], "it has just begun");
            connections.journal.tell(Ok(busy));
            assert_eq!(log.taken(), said);
        }
    }

    #[tokio::test]
    async fn its_length_is_known_through_a_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let connections = small(folder.path()).await;
        append(&connections).await;
        let link = folder.path().join("link.db");
        std::os::unix::fs::symlink(folder.path().join("a.db"), &link).expect("a link");
        let linked = Connections::new(link);
        assert!(linked.journal.bytes() >= 40_960);
        assert_eq!(linked.journal.bytes(), connections.journal.bytes());
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
