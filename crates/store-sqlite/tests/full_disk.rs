//! No room left on the disk: the probe says so. A program of its own, because it changes a limit of its
//! process.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use settle_store::{Store, StoreError};
use settle_store_sqlite::SqliteStore;
use settle_store_sqlite::testing::scratch_url;
use tokio::signal::unix::{SignalKind, signal};

/// What the kernel sends to a process that writes beyond its limit: `SIGXFSZ`.
const FILE_TOO_LARGE: i32 = 25;

fn journal(store: &SqliteStore) -> PathBuf {
    let mut journal = store.path().as_os_str().to_owned();
    journal.push("-wal");
    PathBuf::from(journal)
}

fn bytes(file: &Path) -> u64 {
    std::fs::metadata(file).unwrap().len()
}

#[tokio::test]
async fn a_probe_writes_one_page_and_fails_when_it_cannot() {
    // Where somebody listens, the signal does not end the process, and the write fails as on a full disk.
    let _listening = signal(SignalKind::from_raw(FILE_TOO_LARGE)).unwrap();
    let (url, _folder) = scratch_url();
    let store = SqliteStore::new(&url).unwrap();
    store.migrate().await.unwrap();
    store.write_probe().await.unwrap();
    let written = bytes(&journal(&store));
    store.write_probe().await.unwrap();
    let page = bytes(&journal(&store)) - written;
    assert!((4_096..8_192).contains(&page), "{page} bytes");

    let unlimited = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: Some(written + page), ..unlimited }).unwrap();
    let refused = store.write_probe().await;
    setrlimit(Resource::Fsize, unlimited).unwrap();
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    store.write_probe().await.unwrap();
}
