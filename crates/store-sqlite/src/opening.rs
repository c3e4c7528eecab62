//! Opening a connection: how it waits for other processes, and how long the journal may get.

use std::path::Path;
use std::time::Duration;

use rusqlite::ffi::SQLITE_CANTOPEN;
use rusqlite::{Connection, OpenFlags};
use tokio::time::Instant;

use crate::error::is_busy;
use crate::threads::aside;

/// How long a caller waits for its turn; this bounds the writer's queue.
pub(crate) const TURN_TIMEOUT: Duration = Duration::from_secs(10);
/// How often, and for how long each time, a statement waits while another process holds the file. The start
/// of a write transaction retries at the same interval, until its turn times out.
const BUSY_POLLS_MAX: i32 = 2_000;
pub(crate) const BUSY_POLL: Duration = Duration::from_millis(5);
/// Statements that a connection keeps prepared: more than this backend has.
const STATEMENTS_KEPT: usize = 128;

/// Pages of the journal after which it is written back: rare enough that a page which changes with every
/// commit is written back once for many commits. On a small volume it is written back earlier, when it takes
/// one in so many of the bytes that were free.
const JOURNAL_PAGES_MAX: i64 = 16_384;
const JOURNAL_PAGES_MIN: i64 = 256;
const JOURNAL_SHARE: i64 = 16;
pub(crate) const PAGE_BYTES: i64 = 4_096;

/// Memory for pages, of the writer and of each reader, in KiB; negative, because SQLite takes a positive
/// number for a number of pages.
const WRITER_CACHE: i64 = -32_768;
const READER_CACHE: i64 = -4_096;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    Write,
    /// May have to roll back more than fits into memory.
    Migrate,
    /// Writes the journal back.
    WriteBack,
}

pub(crate) fn open(path: &Path, purpose: Purpose) -> rusqlite::Result<Connection> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, purpose != Purpose::WriteBack);
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_handler(Some(wait_for_others))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    keep_journal(&connection, path)?;
    set_synchronous(&connection, "full")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    match purpose {
        Purpose::Read => {
            connection.pragma_update(None, "cache_size", READER_CACHE)?;
            connection.pragma_update(None, "query_only", true)?;
        }
        Purpose::Write => {
            connection.pragma_update(None, "cache_size", WRITER_CACHE)?;
            // SQLite keeps in memory, not in a file, what it needs to undo a statement that fails.
            connection.pragma_update(None, "temp_store", "memory")?;
            // `Connections::begin` waits without blocking the thread, and later statements need not wait.
            connection.busy_handler(None)?;
        }
        Purpose::Migrate | Purpose::WriteBack => {}
    }
    Ok(connection)
}

/// How careful commits are: with "full" each waits for the disk.
pub(crate) fn set_synchronous(connection: &Connection, level: &str) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", level)
}

/// SQLite calls this when another process holds the file, with the number of calls before. Says whether to
/// try again.
#[expect(clippy::disallowed_methods, reason = "another process gives no signal, and the runtime goes on")]
fn wait_for_others(polls: i32) -> bool {
    let tries_again = polls < BUSY_POLLS_MAX;
    if tries_again {
        aside(|| std::thread::sleep(BUSY_POLL));
    }
    tries_again
}

/// Gives the file a journal of its own, if it has none: without one a commit would have to wait for readers.
/// On a new file two processes can meet, each of which waits for the other; SQLite then refuses one of them
/// without asking whether to try again.
fn keep_journal(connection: &Connection, path: &Path) -> rusqlite::Result<()> {
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
    let pages_max = journal_pages_max(path);
    // How much of it stays on the disk after a large transaction.
    connection.pragma_update(None, "journal_size_limit", pages_max.saturating_mul(PAGE_BYTES))?;
    connection.pragma_update(None, "wal_autocheckpoint", pages_max)
}

fn no_journal() -> rusqlite::Error {
    let text = "it cannot have a journal of its own".to_owned();
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(SQLITE_CANTOPEN), Some(text))
}

/// Pages after which the journal of this file is written back.
pub(crate) fn journal_pages_max(file: &Path) -> i64 {
    pages_within(free_bytes(file))
}

/// The free bytes of the volume that a file is on; many if nobody can tell.
fn free_bytes(file: &Path) -> i64 {
    let free = rustix::fs::statvfs(file).map(|volume| volume.f_bavail.saturating_mul(volume.f_frsize));
    free.ok().and_then(|free| i64::try_from(free).ok()).unwrap_or(i64::MAX)
}

fn pages_within(free_bytes: i64) -> i64 {
    (free_bytes / JOURNAL_SHARE / PAGE_BYTES).clamp(JOURNAL_PAGES_MIN, JOURNAL_PAGES_MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    const MIB: i64 = 1_024 * 1_024;

    #[test]
    fn a_journal_takes_a_small_part_of_a_small_volume() {
        assert_eq!(pages_within(i64::MAX) * PAGE_BYTES, 64 * MIB);
        assert_eq!(pages_within(64 * MIB) * PAGE_BYTES, 4 * MIB);
        assert_eq!(pages_within(0) * PAGE_BYTES, MIB);
    }

    /// Each may be the one that gives the file its journal.
    #[test]
    fn processes_that_open_a_new_file_together_all_succeed() {
        for _ in 0..100 {
            let folder = tempfile::tempdir().expect("a folder");
            let (path, together) = (folder.path().join("a.db"), Barrier::new(4));
            let open_it = || {
                together.wait();
                open(&path, Purpose::Read).map(drop)
            };
            thread::scope(|scope| {
                let opened: Vec<_> = (0..4).map(|_| scope.spawn(open_it)).collect();
                for opened in opened {
                    opened.join().expect("no panic").expect("the file opens");
                }
            });
        }
    }
}
