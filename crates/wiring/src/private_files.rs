//! Folders and files that their owner alone can read.

use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::WiringError;

/// Creates a folder that its owner alone can enter, and the folders above it.
pub(crate) fn make_folder(path: &Path) -> Result<(), WiringError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| WiringError::DataFolder { path: path.to_owned(), source })
}

/// Creates an empty file that its owner alone can read, unless the file exists. SQLite gives its other files
/// the same mode.
pub(crate) fn make_private_file(path: &Path) -> Result<(), WiringError> {
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop).map_err(|source| WiringError::DataFolder { path: path.to_owned(), source }),
    }
}
