//! `settle master-key`: make a master key, see what needs which, and seal everything anew with the first.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use settle_accounts::master_keys::{self, Needs, Resealed};
use settle_domain::vault::KeyRing;
use settle_wiring::config::Config;
use settle_wiring::system::SystemEntropy;
use settle_wiring::{Context, User};

use super::{CommandError, on_store};
use crate::output::{self, OutputFormat};

#[derive(Debug, Subcommand)]
pub(super) enum MasterKeyCommand {
    /// Make a master key, and print it: nothing else changes
    New {
        /// Write it to this new file, which only its owner can read, instead of printing it
        #[arg(long, value_name = "FILE", conflicts_with = "install")]
        output: Option<PathBuf>,
        /// Put it in front of the ring in the data folder, instead of printing it
        #[arg(long)]
        install: bool,
    },
    /// Show how many secrets, keys and operators need which master key
    Status {
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Seal everything anew with the first key of the ring; can be repeated at any time
    Reseal {
        #[command(flatten)]
        format: OutputFormat,
    },
}

#[derive(Serialize)]
struct Listed {
    key: String,
    ring_place: Option<usize>,
    webhook_secrets: u64,
    api_keys: u64,
    operators: u64,
}

#[derive(Serialize)]
struct Done {
    webhook_secrets: u64,
    api_keys: u64,
    operators: u64,
    unknown_master_key: u64,
    damaged: u64,
}

impl MasterKeyCommand {
    pub(super) async fn run(self, config: Config) -> Result<(), CommandError> {
        match self {
            Self::New { output, install } => new(&config, output.as_deref(), install),
            Self::Status { format } => {
                on_store(config, User::Reader, async |context| status(&context, format).await).await
            }
            Self::Reseal { format } => {
                on_store(config, User::Command, async |context| reseal(&context, format).await).await
            }
        }
    }
}

/// What to do with a new key. The first step keeps a node that has not been restarted yet from meeting rows
/// that it cannot open.
const NEXT: &str = "\
Put it in front of the ring: master_key = \"new,old\", or SETTLE_MASTER_KEY=new,old. Where several nodes share a
database, first give every node \"old,new\" and restart it, then \"new,old\". Then run settle master-key reseal,
and drop the old key when settle master-key status says that nothing needs it.";
const INSTALLED: &str = "\
Restart the service now. Then run settle master-key reseal, and take the old key, the second one, out of the file
when settle master-key status says that nothing needs it.";

fn new(config: &Config, output: Option<&Path>, install: bool) -> Result<(), CommandError> {
    let key = settle_wiring::new_master_key(&SystemEntropy);
    let ring =
        KeyRing::parse(key.expose_secret()).map_err(|fault| CommandError::Refused(fault.to_string()))?;
    let id = ring.newest();
    if install {
        if !config.master_key.expose_secret().is_empty() {
            let text =
                "master_key is set, so the file in the data folder is not used: put a new key in front there";
            return Err(CommandError::Refused(text.to_owned()));
        }
        let path = settle_wiring::put_in_front(config, &key)?;
        output::print_note(&format!(
            "The master key {id} is the first one in {}.\n{INSTALLED}",
            path.display()
        ))?;
    } else if let Some(path) = output {
        write_new(path, &key)
            .map_err(|fault| CommandError::Refused(format!("{}: {fault}", path.display())))?;
        output::print_note(&format!("The master key {id} is in {}.\n{NEXT}", path.display()))?;
    } else {
        output::print_text(key.expose_secret())?;
        output::print_note(&format!("The id of this master key is {id}.\n{NEXT}"))?;
    }
    Ok(())
}

fn write_new(path: &Path, key: &SecretString) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(key.expose_secret().as_bytes())?;
    file.sync_all()
}

async fn status(context: &Context, format: OutputFormat) -> Result<(), CommandError> {
    if !settle_wiring::has_master_key(&context.config) {
        let text =
            "there is no master key yet, and nothing needs one: settle serve makes one, unless it is set";
        return Err(CommandError::Refused(text.to_owned()));
    }
    let needs = master_keys::status(&*context.store, &context.ring).await?;
    let listed: Vec<Listed> = needs.iter().map(listed).collect();
    Ok(output::print(format, &listed, || format!("{}\n\n{}", status_table(&needs), advice(&needs)))?)
}

fn listed(needs: &Needs) -> Listed {
    Listed {
        key: needs.key.to_string(),
        ring_place: needs.place.map(|place| place + 1),
        webhook_secrets: needs.rows.secrets,
        api_keys: needs.rows.keys,
        operators: needs.rows.operators,
    }
}

fn status_table(needs: &[Needs]) -> String {
    let row = |needs: &Needs| {
        let place = match needs.place {
            Some(0) => "first: it seals".to_owned(),
            Some(place) => format!("number {}", place + 1),
            None => "NOT IN THE RING".to_owned(),
        };
        let rows = needs.rows;
        vec![
            needs.key.to_string(),
            place,
            rows.secrets.to_string(),
            rows.keys.to_string(),
            rows.operators.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = needs.iter().map(row).collect();
    output::table(&["MASTER_KEY", "RING", "SECRETS", "API_KEYS", "OPERATORS"], &rows)
}

fn advice(needs: &[Needs]) -> String {
    let mut lines = Vec::new();
    for Needs { key, place, rows } in needs.iter().filter(|needs| needs.place != Some(0)) {
        lines.push(match place {
            Some(_) if rows.is_none() => format!("Nothing needs {key}: it can leave the ring."),
            Some(_) => format!("{key} is needed until settle master-key reseal has sealed everything anew."),
            None => format!("{key} is needed and not in the ring: put it back, behind the first."),
        });
    }
    if lines.is_empty() { "Everything needs the one key of the ring.".to_owned() } else { lines.join("\n") }
}

async fn reseal(context: &Context, format: OutputFormat) -> Result<(), CommandError> {
    let done = master_keys::reseal(&*context.store, &context.ring, &SystemEntropy).await?;
    let Resealed { rows, unknown, damaged } = done;
    let document = Done {
        webhook_secrets: rows.secrets,
        api_keys: rows.keys,
        operators: rows.operators,
        unknown_master_key: unknown,
        damaged,
    };
    let text = || {
        let sealed = format!(
            "Sealed anew with {}: {}, {}, {}.",
            context.ring.newest(),
            output::counted(rows.secrets, "webhook secret", "webhook secrets"),
            output::counted(rows.keys, "API key", "API keys"),
            output::counted(rows.operators, "operator's token", "operators' tokens"),
        );
        let others = [
            (unknown, "need a master key that is not in the ring"),
            (damaged, "are damaged or were changed by somebody, and work for nobody"),
        ];
        let others = others.iter().filter(|(count, _)| *count > 0);
        let others = others.map(|(count, what)| format!("{count} {what}."));
        std::iter::once(sealed).chain(others).collect::<Vec<_>>().join("\n")
    };
    output::print(format, &document, text)?;
    if unknown + damaged > 0 {
        let rows = output::counted(unknown + damaged, "row was", "rows were");
        return Err(CommandError::Refused(format!(
            "{rows} not sealed anew: settle master-key status tells more"
        )));
    }
    Ok(())
}
