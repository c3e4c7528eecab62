//! Puts the parts together as the settings say. The only crate that names a backend.
//!
//! | module | what it does |
//! |---|---|
//! | [`config`] | the settings: defaults, file, environment |
//! | [`system`] | the real clock and the real randomness |

use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use settle_domain::delivery::RetryPolicy;
use settle_domain::seams::{Clock, Entropy, random_bytes};
use settle_domain::vault::{KeyRing, MASTER_KEY_LENGTH, RingFault};
use settle_notify::alerts::{AlertBell, AlertSender, AlertTransport, Alerter, SEND_TIMEOUT};
use settle_notify::dispatcher::lanes::InFlightLimits;
use settle_notify::dispatcher::ledger::StoreLedger;
use settle_notify::dispatcher::{DispatchSettings, Dispatcher};
use settle_notify::guard::{DnsResolver, Guard, GuardPolicy, RESOLVE_TIMEOUT, ResolveFault};
use settle_notify::sender::{Sender, Transport};
use settle_notify::wake::Wake;
use settle_store::Store;
use settle_store_postgres::PostgresStore;
use settle_store_sqlite::SqliteStore;

pub mod config;
pub mod system;

use crate::config::Config;
use crate::system::{SystemClock, SystemEntropy};

/// Parts that cannot be put together. The text says which setting to look at.
#[derive(Debug, thiserror::Error)]
pub enum WiringError {
    /// The database URL is of no known kind.
    #[error("database_url: {0}")]
    Database(String),
    /// The data folder cannot be used.
    #[error("{}: {source}", path.display())]
    DataFolder {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The master key is not one.
    #[error("{place}: {source}")]
    MasterKey {
        /// Where it was found.
        place: String,
        /// What is wrong with it.
        source: RingFault,
    },
    /// Others can read the master key.
    #[error("{}: others can read it; run chmod 600 on it", .0.display())]
    ExposedMasterKey(PathBuf),
    /// The extra certificates cannot be used.
    #[error("webhook.extra_roots: {0}")]
    ExtraRoots(String),
    /// The name servers cannot be used.
    #[error("webhook.nameservers: {0}")]
    Resolver(ResolveFault),
}

/// The name of the file that holds a master key made by the service.
const MASTER_KEY_FILE: &str = "master.key";

/// The store that `database_url` names. Nothing is opened but the folder of a SQLite file.
pub fn store(config: &Config) -> Result<Arc<dyn Store>, WiringError> {
    let url = config.database_url();
    let url = url.expose_secret();
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        let store = PostgresStore::new(url, config.database.connections_max.get());
        return Ok(Arc::new(store.map_err(|fault| WiringError::Database(fault.to_string()))?));
    }
    if is_sqlite(url) {
        let store = SqliteStore::new(url).map_err(|fault| WiringError::Database(fault.to_string()))?;
        if let Some(folder) = store.path().parent().filter(|folder| !folder.as_os_str().is_empty()) {
            make_folder(folder)?;
        }
        make_private_file(store.path())?;
        return Ok(Arc::new(store));
    }
    Err(WiringError::Database("starts with neither sqlite:// nor postgres://".to_owned()))
}

fn is_sqlite(url: &str) -> bool {
    url.starts_with("sqlite:")
}

/// The file of a SQLite database, if that is what is set.
#[must_use]
pub fn sqlite_file(config: &Config) -> Option<PathBuf> {
    let url = config.database_url();
    let store = SqliteStore::new(url.expose_secret()).ok().filter(|_| is_sqlite(url.expose_secret()))?;
    Some(store.path().to_owned())
}

/// Whether there is a master key, set or made before.
#[must_use]
pub fn has_master_key(config: &Config) -> bool {
    !config.master_key.expose_secret().is_empty() || master_key_file(config).exists()
}

/// Where a master key that the service made is kept.
#[must_use]
pub fn master_key_file(config: &Config) -> PathBuf {
    config.data_dir.join(MASTER_KEY_FILE)
}

/// The master key ring: from the settings, or from the data folder, where it is made if there is none.
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

/// Written beside its name and then linked to it: whoever finds the file finds all of it, and of two
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

/// A folder that its owner alone can enter, with the folders above it.
fn make_folder(path: &Path) -> Result<(), WiringError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| WiringError::DataFolder { path: path.to_owned(), source })
}

/// An empty file that its owner alone can read, unless there is one. SQLite gives the files beside it the
/// same mode.
fn make_private_file(path: &Path) -> Result<(), WiringError> {
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Err(fault) if fault.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop).map_err(|source| WiringError::DataFolder { path: path.to_owned(), source }),
    }
}

/// The judge of webhook URLs.
pub fn guard(config: &Config) -> Result<Guard, WiringError> {
    let webhook = &config.webhook;
    let resolver = DnsResolver::new(&webhook.nameservers, RESOLVE_TIMEOUT).map_err(WiringError::Resolver)?;
    let policy =
        GuardPolicy { allow_networks: webhook.allow_networks.clone(), allow_http: webhook.allow_http };
    Ok(Guard::new(policy, Arc::new(resolver)))
}

/// Who carries notifications to endpoints, through the guard.
pub fn sender(config: &Config, guard: Guard) -> Result<Sender, WiringError> {
    let sender = Sender::new(guard, config.webhook.timeout, &extra_roots(config)?);
    sender.map_err(|fault| WiringError::ExtraRoots(fault.to_string()))
}

/// What sends notifications, as the settings say.
#[must_use]
pub fn dispatcher(config: &Config, parts: DispatchParts) -> Dispatcher {
    let webhook = &config.webhook;
    let number = |number: std::num::NonZeroU32| usize::try_from(number.get()).unwrap_or(usize::MAX);
    let settings = DispatchSettings {
        timeout: webhook.timeout,
        lease: webhook.lease,
        retry: RetryPolicy {
            retry_first: webhook.retry_first,
            retry_max: webhook.retry_max,
            attempts_max: i32::try_from(webhook.max_attempts.get()).unwrap_or(i32::MAX),
        },
        in_flight: InFlightLimits {
            total: number(webhook.in_flight),
            per_merchant: number(webhook.in_flight_per_merchant),
        },
        shutdown_timeout: config.shutdown.timeout,
    };
    Dispatcher {
        ledger: Arc::new(StoreLedger::new(parts.store, Arc::new(SystemEntropy), parts.bell)),
        transport: parts.transport,
        ring: parts.ring,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        wake: parts.wake,
        settings,
    }
}

/// What a dispatcher shares with the rest of the process.
pub struct DispatchParts {
    /// The database.
    pub store: Arc<dyn Store>,
    /// Who carries notifications to endpoints.
    pub transport: Arc<dyn Transport>,
    /// The master keys.
    pub ring: Arc<KeyRing>,
    /// Who says that something is due.
    pub wake: Wake,
    /// What is rung when operations are to be alerted.
    pub bell: AlertBell,
}

/// Who alerts operations of deliveries that died. It must be run: `alerter.run(stopped)`.
pub fn alerter(
    config: &Config,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
) -> Result<Alerter, WiringError> {
    let transport = match config.alerts.url.clone() {
        Some(url) => {
            let sender = AlertSender::new(url, SEND_TIMEOUT, &extra_roots(config)?);
            let sender = sender.map_err(|fault| WiringError::ExtraRoots(fault.to_string()))?;
            Some(Arc::new(sender) as Arc<dyn AlertTransport>)
        }
        None => None,
    };
    Ok(Alerter::new(store, transport, clock))
}

/// The certificates to trust besides the web's, as PEM.
fn extra_roots(config: &Config) -> Result<Vec<u8>, WiringError> {
    let file = &config.webhook.extra_roots;
    if file.as_os_str().is_empty() {
        return Ok(Vec::new());
    }
    std::fs::read(file).map_err(|fault| WiringError::ExtraRoots(format!("{}: {fault}", file.display())))
}
