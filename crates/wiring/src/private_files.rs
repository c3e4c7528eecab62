//! Folders and files that their owner alone can read.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

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

/// What SQLite and the store put beside the database, by the end of the name.
const BESIDE_DATABASE: [&str; 6] = ["", "-wal", "-shm", "-migrate", "-dispatch", "-engine"];

/// The database's files that others can read, each with its mode.
pub(crate) fn exposed(path: &Path) -> Result<Vec<(PathBuf, u32)>, WiringError> {
    let mut exposed = Vec::new();
    for end in BESIDE_DATABASE {
        let mut name = OsString::from(path);
        name.push(end);
        let file = PathBuf::from(name);
        let mode = match file.metadata() {
            Ok(found) => found.permissions().mode() & 0o777,
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(WiringError::DataFolder { path: file, source }),
        };
        if mode & 0o077 != 0 {
            exposed.push((file, mode));
        }
    }
    Ok(exposed)
}

/// Takes the database's files from others who can read them, as after a copy under another umask. We mend
/// them, unlike the master key: they hold nothing that must be replaced because somebody read it.
pub(crate) fn mend_database(path: &Path) -> Result<(), WiringError> {
    for (file, mode) in exposed(path)? {
        let fault = |source| WiringError::DataFolder { path: file.clone(), source };
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode & 0o700)).map_err(fault)?;
        let was = format!("{mode:o}");
        tracing::warn!(file = %file.display(), was, "others could read it: now only its owner can");
    }
    Ok(())
}
