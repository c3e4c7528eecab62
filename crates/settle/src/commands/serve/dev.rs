//! `settle serve --dev`: the service for a test suite, or for a developer's own machine, with nothing set up.
//!
//! It keeps everything in a temporary folder unless it is given one, lets webhooks reach this machine over
//! plain http, makes a merchant, a key and an operator's token, and prints where everything is as one JSON
//! line on standard output as soon as both listeners answer.
//!
//! Each of that would weaken a real installation without a word: an opened guard lets its merchants reach the
//! machine's own network, and a token appears on standard output. So `--dev` refuses what looks like one: a
//! database of its own, a set master key, a listener that others can reach, a data folder that `--dev` did
//! not make. Whoever wants the guard opened there has the settings for it, by name.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use figment::Figment;
use secrecy::ExposeSecret;
use settle_accounts::merchants;
use settle_domain::ids::MerchantId;
use settle_domain::page::PageRequest;
use settle_domain::seams::Clock;
use settle_store::StoreError;
use settle_wiring::config::{self, Config};
use settle_wiring::system::{SystemClock, SystemEntropy};
use settle_wiring::{Context, has_master_key, sqlite_file};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::{Bound, listen};
use crate::commands::CommandError;
use crate::commands::access::Access;

/// The file that shows that `--dev` made a data folder; it holds the id of the merchant made there.
const MARK: &str = "development";
/// The name of the merchant, and the start of the operator's.
const NAME: &str = "development";
/// What webhooks may reach besides public addresses.
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1/128"];

/// What a service for development has beyond others.
pub(super) struct Development {
    /// The temporary folder, removed at the end; `None` if one was given.
    folder: Option<TempDir>,
    mark: PathBuf,
    api_address: SocketAddr,
    operator_address: SocketAddr,
}

impl Development {
    /// Refuses what looks like a real installation, sets what `--dev` sets, and binds the listeners.
    pub(super) async fn prepare(
        config: &mut Config,
        sources: &Figment,
    ) -> Result<(Development, Bound), CommandError> {
        let set: Vec<String> = config::shown(sources, config)
            .into_iter()
            .filter(|setting| setting.source != "default")
            .map(|setting| setting.key)
            .collect();
        let is_set = |key: &str| set.iter().any(|set| set == key);
        let folder = if is_set("data_dir") { None } else { Some(tempfile::tempdir()?) };
        if let Some(folder) = &folder {
            config.data_dir = folder.path().join("data");
        }
        let mark = config.data_dir.join(MARK);
        refuse_real_installation(config, &mark)?;
        config.webhook.allow_http = true;
        for network in LOOPBACK.into_iter().flat_map(str::parse) {
            config.webhook.allow_networks.push(network);
        }
        let api = bind(is_set("api.listen"), "api.listen", config.api.listen).await?;
        let operator = bind(is_set("operator.listen"), "operator.listen", config.operator.listen).await?;
        let (api_address, operator_address) = (api.local_addr()?, operator.local_addr()?);
        let bound = Bound { api: Some(api), operator: Some(operator) };
        Ok((Development { folder, mark, api_address, operator_address }, bound))
    }

    /// Makes the key and the token, and on the first start the merchant.
    pub(super) async fn open(&self, context: &Context) -> Result<Access, CommandError> {
        let known = std::fs::read_to_string(&self.mark).ok().and_then(|text| text.trim().parse().ok());
        let merchant = match known {
            Some(merchant) if has(context, merchant).await? => merchant,
            _ => {
                let merchant = merchants::create(&*context.store, &SystemClock, &SystemEntropy, NAME).await?;
                std::fs::write(&self.mark, format!("{}\n", merchant.merchant_id))?;
                merchant.merchant_id
            }
        };
        tracing::warn!(
            data_dir = %context.config.data_dir.display(),
            temporary = self.folder.is_some(),
            "THIS SERVICE IS FOR DEVELOPMENT: a key and a token of it are on standard output, and webhooks may \
             reach this machine"
        );
        // No two operators have the same name, and the one of the last start may still be there.
        let operator = format!("{NAME} {}", SystemClock.now());
        Access::make(context, merchant, &operator, self.api_address, self.operator_address).await
    }
}

/// Prints where everything is, when both listeners answer.
pub(super) async fn announce(
    access: Option<Access>,
    ready: oneshot::Receiver<()>,
) -> Result<(), CommandError> {
    // A service that ends before it is ready says why itself.
    if let (Some(access), Ok(())) = (access, ready.await) {
        access.print()?;
    }
    Ok(())
}

/// Whether the database knows the merchant: somebody may have removed the file and left the mark.
async fn has(context: &Context, merchant: MerchantId) -> Result<bool, CommandError> {
    let Some(page) = PageRequest::new(1, 0) else { return Ok(false) };
    match context.store.delivery_page(merchant, None, page).await {
        Ok(_) => Ok(true),
        Err(StoreError::UnknownMerchant(_)) => Ok(false),
        Err(fault) => Err(fault.into()),
    }
}

fn refuse_real_installation(config: &Config, mark: &Path) -> Result<(), CommandError> {
    let mut reasons = Vec::new();
    if sqlite_file(config) != Some(config.data_dir.join("settle.db")) {
        reasons.push("database_url is set: --dev keeps a SQLite file in its data folder".to_owned());
    }
    if !config.master_key.expose_secret().is_empty() {
        reasons.push("master_key is set: --dev makes its own".to_owned());
    }
    for (setting, address) in [("api.listen", config.api.listen), ("operator.listen", config.operator.listen)]
    {
        if !is_loopback(address.ip()) {
            reasons.push(format!("{setting} is {address}, which others can reach: --dev stays on loopback"));
        }
    }
    let is_used = sqlite_file(config).is_some_and(|file| file.exists()) || has_master_key(config);
    if reasons.is_empty() && is_used && !mark.exists() {
        let folder = config.data_dir.display();
        reasons.push(format!("the data folder {folder} was not made by --dev: name a new one, or none"));
    }
    if reasons.is_empty() {
        return Ok(());
    }
    Err(CommandError::Refused(format!(
        "--dev opens the address guard and prints a token, so it refuses what looks like a real installation:\n  \
         {}\nTo open the guard alone, set webhook.allow_http and webhook.allow_networks.",
        reasons.join("\n  ")
    )))
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Listens where a setting says. Where it is a default, another port will do if that one is taken.
async fn bind(is_set: bool, setting: &str, address: SocketAddr) -> Result<TcpListener, CommandError> {
    if is_set { listen(None, setting, address) } else { Ok(wanted_or_free(address).await?) }
}

/// Listens on the wanted port, or on a free one if it is taken.
pub(in crate::commands) async fn wanted_or_free(wanted: SocketAddr) -> std::io::Result<TcpListener> {
    match TcpListener::bind(wanted).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind((wanted.ip(), 0)).await,
    }
}
