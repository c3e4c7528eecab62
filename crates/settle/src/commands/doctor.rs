//! `settle doctor`: checks everything the service needs and says what is missing. It changes nothing.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use secrecy::ExposeSecret;
use serde::Serialize;
use settle_domain::provider::ProviderName;
use settle_notify::guard::{DnsResolver, PROBE_NAME, RESOLVE_TIMEOUT, Resolve, ResolveFault};
use settle_store::Store;
use settle_wiring::config::{Config, without_secrets};
use settle_wiring::system::SystemEntropy;
use settle_wiring::{User, WiringError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::serve::deaf;
use super::{CommandError, explained};
use crate::output::{self, OutputFormat};

/// How long whoever has a port may take to answer, and how much of the answer is read.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: u64 = 4_096;

/// Missing rights that are named: the others are many, and mended by the same statement.
const RIGHTS_NAMED: usize = 4;

#[derive(Debug, Args)]
pub(super) struct Doctor {
    #[command(flatten)]
    format: OutputFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warning,
    Failed,
}

#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    finding: String,
}

impl Doctor {
    /// Checks everything; `warnings` is what was found when the settings were read.
    pub(super) async fn run(self, config: &Config, warnings: Vec<String>) -> Result<ExitCode, CommandError> {
        let mut findings = settings(config, warnings);
        findings.extend([data_folder(config), master_key(config)]);
        let databases = database(config).await;
        // What the database knows of the master key says more.
        findings.retain(|finding| databases.iter().all(|other| other.check != finding.check));
        findings.extend(databases);
        findings.push(name_servers(config).await);
        findings.extend(certificates(config));
        findings.extend(providers(config));
        let (api, operator) = (config.api.listen, config.operator.listen);
        findings.push(port("api.listen", api).await);
        findings.push(match collision(api, operator) {
            Some(found) => found,
            None => port("operator.listen", operator).await,
        });
        let line = |finding: &Finding| {
            let mark = match finding.verdict {
                Verdict::Ok => "ok",
                Verdict::Warning => "warning",
                Verdict::Failed => "FAILED",
            };
            vec![mark.to_owned(), finding.check.to_owned(), finding.finding.clone()]
        };
        let rows: Vec<Vec<String>> = findings.iter().map(line).collect();
        output::print(self.format, &findings, || output::table(&["", "CHECK", "FINDING"], &rows))?;
        let failed = findings.iter().any(|finding| finding.verdict == Verdict::Failed);
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn finding(check: &'static str, verdict: Verdict, text: impl Into<String>) -> Finding {
    Finding { check, verdict, finding: text.into() }
}

fn settings(config: &Config, mut warnings: Vec<String>) -> Vec<Finding> {
    if config.webhook.is_opened() {
        let text = "webhook.allow_http, allow_networks or allow_unresolved is set: for development only";
        warnings.push(text.to_owned());
    }
    if warnings.is_empty() {
        return vec![finding("settings", Verdict::Ok, "every key is known and has a usable value")];
    }
    warnings.into_iter().map(|warning| finding("settings", Verdict::Warning, warning)).collect()
}

fn data_folder(config: &Config) -> Finding {
    let folder = &config.data_dir;
    // What is not there yet is made in the nearest folder that is.
    let Some(there) = folder.ancestors().find(|folder| folder.as_os_str().is_empty() || folder.exists())
    else {
        return finding("data folder", Verdict::Ok, "is made when it is needed");
    };
    let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
    if !there.is_dir() {
        let text = format!("{} is not a folder: set data_dir to one", there.display());
        return finding("data folder", Verdict::Failed, text);
    }
    // Rights alone do not tell: a file without a name, which is gone at once, does.
    match tempfile::tempfile_in(there) {
        Ok(_) if folder.exists() => {
            finding("data folder", Verdict::Ok, format!("{} can be written", folder.display()))
        }
        Ok(_) => {
            finding("data folder", Verdict::Ok, format!("{} is made when it is needed", folder.display()))
        }
        Err(fault) => {
            let text = format!(
                "{} cannot be written ({fault}): give it to the user who runs settle, or set data_dir",
                there.display()
            );
            finding("data folder", Verdict::Failed, text)
        }
    }
}

/// A finding if the sender cannot be made, which reads `webhook.extra_roots`.
fn certificates(config: &Config) -> Option<Finding> {
    let sender = settle_wiring::guard(config).and_then(|guard| settle_wiring::sender(config, guard));
    sender.err().map(|fault| finding("certificates", Verdict::Failed, explained(&fault)))
}

/// Whether the settings of the providers can be used, as the engine reads them; none without providers.
fn providers(config: &Config) -> Option<Finding> {
    let names: Vec<&str> = config.providers.keys().map(ProviderName::as_str).collect();
    match settle_wiring::providers(config) {
        Ok(_) if names.is_empty() => None,
        Ok(_) => {
            let text = format!("{}: the settings can be used", names.join(", "));
            Some(finding("providers", Verdict::Ok, text))
        }
        // The certificates have a finding of their own.
        Err(WiringError::ExtraRoots(_)) => None,
        Err(fault) => Some(finding("providers", Verdict::Failed, explained(&fault))),
    }
}

/// A finding if the second listener cannot have its address because of the first. Each alone could.
fn collision(api: SocketAddr, operator: SocketAddr) -> Option<Finding> {
    // [::] takes the port for IPv4 too.
    let covers = |wide: SocketAddr, other: SocketAddr| {
        wide.ip().is_unspecified() && (wide.is_ipv6() || other.is_ipv4())
    };
    let same = api.ip() == operator.ip() || covers(api, operator) || covers(operator, api);
    // With port 0 the system gives each a port of its own.
    if api.port() != operator.port() || api.port() == 0 || !same {
        return None;
    }
    let text = format!("{operator} collides with api.listen, {api}: set one of them to another port");
    Some(finding("operator.listen", Verdict::Failed, text))
}

/// Whether a listener can have its address. One that a running settle has is fine.
async fn port(setting: &'static str, address: SocketAddr) -> Finding {
    let Err(fault) = TcpListener::bind(address).await else {
        return finding(setting, Verdict::Ok, format!("{address} is free"));
    };
    if fault.kind() == std::io::ErrorKind::AddrInUse && is_settle(address).await {
        let text = format!("a running settle listens on {address}: fine if it is this installation's");
        return finding(setting, Verdict::Ok, text);
    }
    finding(setting, Verdict::Failed, deaf(setting, address, &fault))
}

/// Whether a service of ours answers there.
async fn is_settle(address: SocketAddr) -> bool {
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: settle\r\nconnection: close\r\n\r\n").await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, asked).await;
    answer.is_ok_and(|answer| answer.is_ok_and(|answer| answer.ends_with(br#"{"status":"ok"}"#)))
}

fn master_key(config: &Config) -> Finding {
    if !settle_wiring::has_master_key(config) {
        return finding("master key", Verdict::Ok, "none yet: the first command that needs one makes it");
    }
    match settle_wiring::key_ring(config, &SystemEntropy) {
        Ok(ring) => {
            let ids: Vec<String> = ring.ids().iter().map(ToString::to_string).collect();
            let keys = if ids.len() == 1 { "key" } else { "keys" };
            let text = format!("the ring has {} {keys}: {}", ids.len(), ids.join(", "));
            finding("master key", Verdict::Ok, text)
        }
        Err(fault) => finding("master key", Verdict::Failed, fault.to_string()),
    }
}

async fn database(config: &Config) -> Vec<Finding> {
    let url = without_secrets(config.database_url().expose_secret());
    if settle_wiring::sqlite_file(config).is_some_and(|file| !file.exists()) {
        let file = format!("{url} is not there yet, and will be made");
        return vec![finding("database", Verdict::Ok, file), schema_behind(config, "is not there yet")];
    }
    let store = match settle_wiring::store(config, User::Doctor) {
        Ok(store) => store,
        Err(fault) => return vec![finding("database", Verdict::Failed, fault.to_string())],
    };
    if let Err(fault) = store.ping().await {
        let text = format!("{url} cannot be used: {}: see database_url", explained(&fault));
        return vec![finding("database", Verdict::Failed, text)];
    }
    let mut findings = vec![finding("database", Verdict::Ok, format!("{url} answers"))];
    let schema = match store.migrations_pending().await {
        Ok(0) => {
            findings.extend(match rights(&*store).await {
                None => writes(&*store).await,
                lacking => lacking,
            });
            findings.extend(known_master_key(config, &*store).await);
            finding("schema", Verdict::Ok, "is that of this version")
        }
        Ok(pending) => {
            let pending = output::counted(pending, "migration is", "migrations are");
            schema_behind(config, &format!("{pending} pending"))
        }
        // Who may read nothing cannot tell the version either.
        Err(fault) => match rights(&*store).await {
            Some(lacking) => lacking,
            None => finding("schema", Verdict::Failed, explained(&fault)),
        },
    };
    findings.push(schema);
    findings.extend(settle_wiring::exposed_files(config).into_iter().map(|file| {
        let text = format!(
            "others can read {}: settle serve takes that from them, as does chmod 600",
            file.display()
        );
        finding("files", Verdict::Warning, text)
    }));
    store.close().await;
    findings
}

/// A schema that somebody has to migrate: the service, or, where the settings say so, nobody but a person.
fn schema_behind(config: &Config, how: &str) -> Finding {
    if config.database.migrate {
        let text = format!("{how}: run settle migrate (settle serve does it too)");
        finding("schema", Verdict::Warning, text)
    } else {
        let text = format!("{how}, and database.migrate is false: run settle migrate");
        finding("schema", Verdict::Failed, text)
    }
}

/// A finding if nothing can be written: a standby, a full disk, a file or a session that is read-only.
async fn writes(store: &dyn Store) -> Option<Finding> {
    let fault = store.write_probe().await.err()?;
    Some(finding("writing", Verdict::Failed, format!("nothing can be written: {}", explained(&fault))))
}

/// A finding if the role may not do what the service does.
async fn rights(store: &dyn Store) -> Option<Finding> {
    match store.rights_missing().await {
        Ok(missing) if missing.is_empty() => None,
        Ok(missing) => {
            let (first, more) = missing.split_at(missing.len().min(RIGHTS_NAMED));
            let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
            let text = format!(
                "database_grant_missing: as the owner of the tables run GRANT SELECT, INSERT, UPDATE, DELETE ON ALL \
                 TABLES IN SCHEMA … TO …; the role lacks {}{more}",
                first.join(", ")
            );
            Some(finding("rights", Verdict::Failed, text))
        }
        Err(fault) => Some(finding("rights", Verdict::Failed, explained(&fault))),
    }
}

/// A finding if the database was used with another master key than this one, or needs one that is not in the
/// ring; none if all is well.
async fn known_master_key(config: &Config, store: &dyn Store) -> Option<Finding> {
    let failed = |text: String| Some(finding("master key", Verdict::Failed, text));
    let known = match store.master_key_list().await {
        Ok(known) => known,
        Err(fault) => return failed(explained(&fault)),
    };
    let ring = if settle_wiring::has_master_key(config) {
        // One that cannot be used has a finding already.
        Some(settle_wiring::key_ring(config, &SystemEntropy).ok()?)
    } else {
        None
    };
    let ids = ring.as_ref().map(|ring| ring.ids()).unwrap_or_default();
    if !known.is_empty() && !ids.iter().any(|id| known.contains(id)) {
        let fault = if ring.is_some() { WiringError::MasterKeyOther } else { WiringError::MasterKeyMissing };
        return failed(explained(&fault));
    }
    let checked = settle_wiring::check_master_keys(store, ring.as_deref()?).await;
    checked.err().and_then(|fault| failed(explained(&fault)))
}

async fn name_servers(config: &Config) -> Finding {
    let answer = match DnsResolver::new(&config.webhook.nameservers, RESOLVE_TIMEOUT) {
        Ok(resolver) => resolver.addresses(PROBE_NAME).await,
        Err(fault) => Err(fault),
    };
    match answer {
        // "No such name" is an answer too.
        Ok(_) | Err(ResolveFault::NoRecords) => finding("name servers", Verdict::Ok, "answer"),
        Err(fault) => {
            let text =
                format!("{fault}: no webhook URL with a host name can be set; see webhook.nameservers");
            finding("name servers", Verdict::Warning, text)
        }
    }
}
