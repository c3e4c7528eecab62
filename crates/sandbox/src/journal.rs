//! The sandbox's own file: one line of JSON for everything that happened.
//!
//! A thread of its own writes and syncs whatever has come meanwhile, so that thousands of operations a second
//! share a few syncs. Nothing is told to anybody before its line is on the disk. A `kill -9` in the middle of
//! a line leaves a torn one at the end, which nobody was told of: it is cut off when the file is opened.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use settle_domain::money::Decimal;
use tokio::sync::watch;

use crate::record::Record;

/// A line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Entry {
    /// The first line: the name of this memory.
    Instance(String),
    /// An operation as it stands since then, in microseconds since 1970.
    Operation { at: i64, record: Box<Record> },
    /// A rate that was set.
    Rate { sell: String, buy: String, rate: Decimal },
    /// Whether the wallet can pay for gas.
    Gas { filled: bool },
}

/// Why a file cannot be the sandbox's.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Another process has it.
    #[error("another sandbox uses it")]
    Taken,
    /// A line is not one of ours.
    #[error("line {line} is not a line of a sandbox: {fault}")]
    Unreadable {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        fault: String,
    },
}

/// How many lines are on the disk.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    lines: u64,
    failed: Option<io::ErrorKind>,
}

/// The file, or nothing at all: then every line counts as written.
pub(crate) struct Journal {
    queue: Arc<Queue>,
    progress: watch::Receiver<Progress>,
    has_file: bool,
}

/// What waits to be written.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    came: Condvar,
}

#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// Lines appended since the start.
    lines: u64,
    is_closed: bool,
}

impl Journal {
    /// A journal that is forgotten with the process.
    pub(crate) fn in_memory() -> Journal {
        let (_, progress) = watch::channel(Progress::default());
        Journal { queue: Arc::default(), progress, has_file: false }
    }

    /// Opens a file, or makes it, and gives its entries.
    pub(crate) fn open(path: &Path) -> Result<(Journal, Vec<Entry>), JournalError> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| JournalError::Taken)?;
        let entries = read(&mut file)?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            // The name of a new file is on the disk when its folder is.
            File::open(folder)?.sync_all()?;
        }
        let (sender, progress) = watch::channel(Progress::default());
        let queue = Arc::new(Queue::default());
        let writing = queue.clone();
        std::thread::Builder::new()
            .name("sandbox-journal".to_owned())
            .spawn(move || write(file, &writing, &sender))?;
        Ok((Journal { queue, progress, has_file: true }, entries))
    }

    /// Appends a line, and gives its number: [`Journal::written`] waits for it. The caller orders the lines.
    pub(crate) fn append(&self, entry: &Entry) -> u64 {
        if !self.has_file {
            return 0;
        }
        let mut waiting = self.queue.lock();
        // Strings, numbers and ids: there is nothing that JSON cannot say.
        let _ = serde_json::to_writer(&mut waiting.bytes, entry);
        waiting.bytes.push(b'\n');
        waiting.lines += 1;
        self.queue.came.notify_one();
        waiting.lines
    }

    /// Waits until this line and all before it are on the disk. An error means that they may never be.
    pub(crate) async fn written(&self, line: u64) -> io::Result<()> {
        if line == 0 {
            return Ok(());
        }
        let mut progress = self.progress.clone();
        let reached = progress.wait_for(|progress| progress.failed.is_some() || progress.lines >= line).await;
        match reached {
            Ok(progress) if progress.lines >= line => Ok(()),
            Ok(progress) => Err(progress.failed.unwrap_or(io::ErrorKind::Other).into()),
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Waits until a line cannot be written, which may be for ever.
    pub(crate) async fn failed(&self) -> io::Error {
        let mut progress = self.progress.clone();
        let failed = progress.wait_for(|progress| progress.failed.is_some()).await.map(|found| found.failed);
        match failed {
            Ok(kind) => kind.unwrap_or(io::ErrorKind::Other).into(),
            Err(_) if self.has_file => io::ErrorKind::BrokenPipe.into(),
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.came.notify_one();
    }
}

impl Queue {
    /// Nothing panics while it is locked, so there is no half-changed queue to fear.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes and syncs what has come, as long as there is a journal.
fn write(mut file: File, queue: &Queue, progress: &watch::Sender<Progress>) {
    loop {
        let (bytes, lines) = {
            let mut waiting = queue.lock();
            while waiting.bytes.is_empty() && !waiting.is_closed {
                waiting = queue.came.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
            if waiting.bytes.is_empty() {
                return;
            }
            (std::mem::take(&mut waiting.bytes), waiting.lines)
        };
        if let Err(fault) = file.write_all(&bytes).and_then(|()| file.sync_data()) {
            progress.send_modify(|progress| progress.failed = Some(fault.kind()));
            return;
        }
        progress.send_modify(|progress| progress.lines = lines);
    }
}

/// Reads all lines, cuts a torn one off, and leaves the file at its end.
fn read(file: &mut File) -> Result<Vec<Entry>, JournalError> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let mut entries = Vec::new();
    for (index, line) in bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
        let unreadable =
            |fault: serde_json::Error| JournalError::Unreadable { line: index + 1, fault: fault.to_string() };
        entries.push(serde_json::from_slice(line).map_err(unreadable)?);
    }
    if whole < bytes.len() {
        let torn = bytes.len() - whole;
        tracing::warn!(bytes = torn, "the last line was torn, and is cut off: nobody was told of it");
        file.set_len(whole as u64)?;
        file.sync_data()?;
    }
    file.seek(SeekFrom::End(0))?;
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gas(filled: bool) -> Entry {
        Entry::Gas { filled }
    }

    #[tokio::test]
    async fn what_was_written_is_there_again_and_a_torn_line_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal");
        let (journal, entries) = Journal::open(&path).expect("a new file");
        assert_eq!(entries, []);
        assert!(matches!(Journal::open(&path), Err(JournalError::Taken)));
        journal.append(&gas(true));
        let last = journal.append(&Entry::Instance("one".to_owned()));
        journal.written(last).await.expect("a disk");
        let whole = std::fs::read(&path).expect("a file");
        closed(journal, &path);

        for torn in 1..whole.len() {
            std::fs::write(&path, &whole[..whole.len() - torn]).expect("a file");
            let (journal, entries) = Journal::open(&path).expect("a torn file");
            let lines = whole[..whole.len() - torn].split(|byte| *byte == b'\n').count() - 1;
            assert_eq!(entries.len(), lines, "{torn}");
            // What comes next begins on a line of its own.
            let next = journal.append(&gas(false));
            journal.written(next).await.expect("a disk");
            closed(journal, &path);
            let (journal, entries) = Journal::open(&path).expect("a whole file");
            assert_eq!((entries.len(), entries.last()), (lines + 1, Some(&gas(false))));
            closed(journal, &path);
        }
    }

    /// Drops the journal, and waits until its thread has let go of the file.
    fn closed(journal: Journal, path: &Path) {
        drop(journal);
        let file = File::open(path).expect("a file");
        rustix::fs::flock(&file, FlockOperation::LockExclusive).expect("a lock");
    }

    #[test]
    fn a_line_of_somebody_else_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal");
        for (text, wrong) in [("{\"instance\":\"one\"}\nhello\n", 2), ("\n", 1), ("{}\n", 1)] {
            std::fs::write(&path, text).expect("a file");
            let Err(JournalError::Unreadable { line, .. }) = Journal::open(&path) else { panic!("{text}") };
            assert_eq!(line, wrong);
        }
    }
}
