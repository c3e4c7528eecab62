//! The master key ring: from the settings, or from a file in the data folder that the service creates once.
//!
//! The database remembers the ids of its master keys, which reveal nothing of the keys. A node with another
//! key would refuse every API key and could open no webhook secret, so it does not start
//! ([`Context::open`](crate::Context::open)).

use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use settle_domain::seams::{Entropy, random_bytes};
use settle_domain::vault::{KeyRing, MASTER_KEY_LENGTH};

use crate::WiringError;
use crate::config::Config;
use crate::private_files::make_folder;

/// The name of the file that holds a master key made by the service.
const MASTER_KEY_FILE: &str = "master.key";

/// Whether a master key is set, or the service has made one before.
#[must_use]
pub fn has_master_key(config: &Config) -> bool {
    !config.master_key.expose_secret().is_empty() || master_key_file(config).exists()
}

/// The file in which the service keeps a master key that it made.
#[must_use]
pub fn master_key_file(config: &Config) -> PathBuf {
    config.data_dir.join(MASTER_KEY_FILE)
}

/// The master key ring: from the settings, or from the data folder. If neither has one, the service makes it.
pub fn key_ring(config: &Config, entropy: &dyn Entropy) -> Result<Arc<KeyRing>, WiringError> {
    let set = config.master_key.expose_secret();
    if !set.is_empty() {
        let place = "master_key".to_owned();
        return KeyRing::parse(set).map(Arc::new).map_err(|source| WiringError::MasterKey { place, source });
    }
    let path = master_key_file(config);
    let fault = |source| WiringError::DataFolder { path: path.clone(), source };
    if !path.try_exists().map_err(fault)? {
        make_folder(&config.data_dir)?;
        make_master_key(&path, entropy).map_err(fault)?;
    }
    let mode = path.metadata().map_err(fault)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(WiringError::ExposedMasterKey(path));
    }
    let text: SecretString = std::fs::read_to_string(&path).map_err(fault)?.into();
    let place = path.display().to_string();
    let ring = KeyRing::parse(text.expose_secret().trim());
    ring.map(Arc::new).map_err(|source| WiringError::MasterKey { place, source })
}

/// Writes the key to a draft and then links it to its name: no process can read half a key, and of two
/// processes that start together the second takes the key of the first.
fn make_master_key(path: &Path, entropy: &dyn Entropy) -> io::Result<()> {
    let key: SecretString = hex::encode(random_bytes::<MASTER_KEY_LENGTH>(entropy)).into();
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(key.expose_secret().as_bytes())?;
    file.sync_all()?;
    let linked = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft)?;
    match linked {
        Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}
