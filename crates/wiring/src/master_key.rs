//! The master key ring: from the settings, or from a file in the data folder that the service creates once.
//!
//! The database remembers the ids of its master keys, which reveal nothing of the keys. A node with another
//! key would refuse every API key and could open no webhook secret, so no command starts
//! ([`Context::open`](crate::Context::open)). A node whose ring lacks a key that only some rows need would
//! refuse those alone, which nobody would notice: the service does not start either ([`check_master_keys`]).

use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use settle_domain::seams::{Entropy, random_bytes};
use settle_domain::vault::{KeyRing, MASTER_KEY_LENGTH};
use settle_store::{MasterKeyUse, SealedKind, Store};

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
    refuse_exposed(&path)?;
    let text: SecretString = std::fs::read_to_string(&path).map_err(fault)?.into();
    let place = path.display().to_string();
    let ring = KeyRing::parse(text.expose_secret().trim());
    ring.map(Arc::new).map_err(|source| WiringError::MasterKey { place, source })
}

/// A ring with a key that is forgotten when the command ends.
pub(crate) fn key_ring_of_nobody(entropy: &dyn Entropy) -> Result<Arc<KeyRing>, WiringError> {
    let place = "a new key".to_owned();
    let ring = KeyRing::parse(new_master_key(entropy).expose_secret());
    ring.map(Arc::new).map_err(|source| WiringError::MasterKey { place, source })
}

/// A new master key, as text.
#[must_use]
pub fn new_master_key(entropy: &dyn Entropy) -> SecretString {
    hex::encode(random_bytes::<MASTER_KEY_LENGTH>(entropy)).into()
}

/// Puts a key in front of the ring in the data folder. The file that was is replaced at once or not at all.
pub fn put_in_front(config: &Config, key: &SecretString) -> Result<PathBuf, WiringError> {
    let path = master_key_file(config);
    let fault = |source| WiringError::DataFolder { path: path.clone(), source };
    refuse_exposed(&path)?;
    let ring: SecretString = std::fs::read_to_string(&path).map_err(fault)?.into();
    let ring: SecretString = format!("{},{}", key.expose_secret(), ring.expose_secret().trim()).into();
    let place = path.display().to_string();
    KeyRing::parse(ring.expose_secret()).map_err(|source| WiringError::MasterKey { place, source })?;
    let draft = write_draft(&path, &ring).map_err(fault)?;
    std::fs::rename(&draft, &path).map_err(fault)?;
    keep_name(&path).map_err(fault)?;
    Ok(path)
}

/// Refuses a ring that lacks a key which rows of the database need.
pub async fn check_master_keys(store: &dyn Store, ring: &KeyRing) -> Result<(), WiringError> {
    let ids = ring.ids();
    let mut uses = store.master_key_uses().await?;
    uses.retain(|used| !ids.contains(&used.key));
    if uses.is_empty() {
        return Ok(());
    }
    Err(WiringError::MasterKeyNeeded { needed: needed(&uses) })
}

/// Which keys are missing, and what needs each.
fn needed(mut uses: &[MasterKeyUse]) -> String {
    let mut sentences = Vec::new();
    let mut told = Vec::new();
    while let Some((first, rest)) = uses.split_first() {
        uses = rest;
        if told.contains(&first.key) {
            continue;
        }
        told.push(first.key);
        let same = std::iter::once(first).chain(rest.iter().filter(|used| used.key == first.key));
        let same: Vec<&MasterKeyUse> = same.collect();
        let verb = if same.iter().map(|used| used.rows).sum::<u64>() == 1 { "needs" } else { "need" };
        let rows = listed(&same.into_iter().map(counted).collect::<Vec<String>>());
        sentences.push(format!("the master key {} is not in the ring, and {rows} {verb} it", first.key));
    }
    sentences.join("; ")
}

/// `1 webhook secret`, `3 API keys`.
fn counted(used: &MasterKeyUse) -> String {
    let (one, many) = match used.kind {
        SealedKind::WebhookSecret => ("webhook secret", "webhook secrets"),
        SealedKind::ApiKey => ("API key", "API keys"),
        SealedKind::OperatorToken => ("operator's token", "operators' tokens"),
    };
    format!("{} {}", used.rows, if used.rows == 1 { one } else { many })
}

/// `a`, `a and b`, `a, b and c`.
fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

/// Writes the key to a draft and then links it to its name: no process can read half a key, and of two
/// processes that start together the second takes the key of the first.
fn make_master_key(path: &Path, entropy: &dyn Entropy) -> io::Result<()> {
    let draft = write_draft(path, &new_master_key(entropy))?;
    let linked = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft)?;
    match linked {
        Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => {}
        linked => linked?,
    }
    keep_name(path)
}

/// Waits until the file's name is on the disk. What the key seals may be on another machine's disk at once:
/// if this one lost its power, nobody could open it any more.
fn keep_name(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    std::fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn write_draft(path: &Path, text: &SecretString) -> io::Result<PathBuf> {
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(text.expose_secret().as_bytes())?;
    file.sync_all()?;
    Ok(draft)
}

/// We refuse such a file instead of mending it: others may have read the key already, and only an operator
/// can say whether it has to be replaced.
fn refuse_exposed(path: &Path) -> Result<(), WiringError> {
    let fault = |source| WiringError::DataFolder { path: path.to_owned(), source };
    let mode = path.metadata().map_err(fault)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(WiringError::ExposedMasterKey(path.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use settle_domain::vault::MasterKeyId;

    use super::*;

    #[test]
    fn what_needs_a_missing_key_is_told_in_one_sentence_for_each_key() {
        let needy = |kind, key, rows| MasterKeyUse { kind, key: MasterKeyId([key; 4]), rows };
        let uses = [
            needy(SealedKind::WebhookSecret, 0x11, 1),
            needy(SealedKind::ApiKey, 0x11, 3),
            needy(SealedKind::ApiKey, 0x22, 1),
            needy(SealedKind::OperatorToken, 0x11, 2),
        ];
        let words = "the master key 11111111 is not in the ring, and 1 webhook secret, 3 API keys and \
                     2 operators' tokens need it; the master key 22222222 is not in the ring, and 1 API key needs it";
        assert_eq!(needed(&uses), words);
    }
}
