//! Scratch stores for tests: a file in a temporary folder that is deleted with the test.

#![expect(clippy::expect_used, reason = "these are tests: a panic is their message")]

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::Connection;
use settle_store::conformance::{Backdoor, ScratchStore};
use tempfile::TempDir;

use crate::SqliteStore;

/// A new, empty store.
///
/// # Panics
///
/// When no temporary folder can be made.
#[expect(clippy::unused_async, reason = "the scratch stores of both backends are made alike")]
pub async fn scratch() -> ScratchStore {
    let (url, folder) = scratch_url();
    let store = SqliteStore::new(&url).expect("a file name is a URL of SQLite");
    let file = ScratchFile { path: store.path().to_owned(), _folder: folder };
    ScratchStore::new(Arc::new(store), file)
}

struct ScratchFile {
    path: PathBuf,
    _folder: TempDir,
}

#[async_trait]
impl Backdoor for ScratchFile {
    async fn execute(&self, sql: &'static str) {
        let file = Connection::open(&self.path).expect("the file of the store");
        file.execute_batch(sql).expect("a statement of SQLite");
    }
}

/// The URL of a file that does not exist yet, and its folder, which is deleted when dropped.
///
/// # Panics
///
/// When no temporary folder can be made.
#[must_use]
pub fn scratch_url() -> (String, TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    (format!("sqlite://{}", folder.path().join("settle.db").display()), folder)
}
