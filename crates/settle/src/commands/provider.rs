//! `settle provider`: looks at providers, pauses them, and tries whether one keeps to the protocol.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use secrecy::SecretString;
use serde::Serialize;
use serde_json::{Value, json};
use settle_domain::money::Decimal;
use settle_domain::provider::ProviderName;
use settle_provider::check::{self, Report, Terms, TermsFault, Verdict};
use settle_provider::client::{ClientSettings, Endpoint};
use settle_wiring::config::{Config, SANDBOX_SECRET_VARIABLE, parse_duration};
use settle_wiring::system::{SystemClock, SystemEntropy};

use super::desk::{Desk, person};
use super::sandbox::parse_secret;
use super::{CommandError, settings};
use crate::output::{self, OutputFormat};

#[derive(Debug, Args)]
pub(super) struct ProviderCommand {
    #[command(flatten)]
    desk: Desk,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the providers of the running service, and how they are
    List(OutputFormat),
    /// Send nothing more to a provider; look-ups go on
    Pause {
        /// Its name in the settings
        name: ProviderName,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Let a provider go on
    Resume {
        /// Its name in the settings
        name: ProviderName,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Try whether a provider keeps to the protocol; this moves money
    Check(Check),
}

#[derive(Debug, Args)]
pub(super) struct Check {
    /// The provider, such as <http://127.0.0.1:4100>
    url: String,
    /// The secret that both sides sign with
    #[arg(long, env = SANDBOX_SECRET_VARIABLE, hide_env_values = true, default_value = "sandbox")]
    secret: SecretString,
    /// Try a provider that moves real money
    #[arg(long, requires_all = ["destination", "amount"])]
    live: bool,
    /// Where real money is paid to
    #[arg(long, value_name = "REFERENCE", requires = "live")]
    destination: Option<String>,
    /// How much real money is paid: once, if the provider conforms
    #[arg(long, value_name = "AMOUNT", requires = "live")]
    amount: Option<Decimal>,
    /// The asset of that amount [default: the first that the provider names]
    #[arg(long, value_name = "CODE", requires = "live")]
    asset: Option<String>,
    /// How long a call may take
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    format: OutputFormat,
}

impl ProviderCommand {
    pub(super) async fn run(self, file: Option<&Path>) -> Result<ExitCode, CommandError> {
        let desk = &self.desk;
        match self.action {
            // It needs no settings, so bad ones must not make it fail.
            Action::Check(check) => return check.run().await,
            Action::List(format) => {
                let listed = desk.get(&settings(file)?.config, "/operator/v1/providers").await?;
                let providers = listed["providers"].as_array().map_or(&[][..], Vec::as_slice);
                output::print(format, &listed, || health(providers))?;
            }
            Action::Pause { name, format } => {
                set(desk, &settings(file)?.config, &name, true, format).await?;
            }
            Action::Resume { name, format } => {
                set(desk, &settings(file)?.config, &name, false, format).await?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn set(
    desk: &Desk,
    config: &Config,
    name: &ProviderName,
    paused: bool,
    format: OutputFormat,
) -> Result<(), CommandError> {
    let set =
        desk.put(config, &format!("/operator/v1/providers/{name}"), &json!({ "paused": paused })).await?;
    Ok(output::print(format, &set, || health(std::slice::from_ref(&set)))?)
}

/// The providers as the process that answered sees them.
fn health(providers: &[Value]) -> String {
    let row = |provider: &Value| {
        let text = |name: &str| provider[name].as_str().unwrap_or("-").to_owned();
        let paused = if provider["paused"] == true { person(provider, "paused_by") } else { "-".to_owned() };
        let is_sandbox = provider["sandbox"].as_bool().map_or("?", |is| if is { "yes" } else { "no" });
        vec![
            text("name"),
            text("circuit"),
            text("answered_at").chars().take(19).collect(),
            provider["unanswered"].to_string(),
            provider["in_flight"].to_string(),
            is_sandbox.to_owned(),
            paused,
        ]
    };
    let rows: Vec<Vec<String>> = providers.iter().map(row).collect();
    let names = ["PROVIDER", "CIRCUIT", "LAST_ANSWER", "UNANSWERED", "IN_FLIGHT", "SANDBOX", "PAUSED_BY"];
    output::table(&names, &rows)
}

/// The report as JSON.
#[derive(Serialize)]
struct Printed<'a> {
    url: &'a str,
    conforms: bool,
    #[serde(flatten)]
    report: &'a Report,
}

impl Check {
    async fn run(self) -> Result<ExitCode, CommandError> {
        let endpoint = Endpoint::parse(&self.url)
            .map_err(|fault| CommandError::Refused(format!("{:?} {fault}", self.url)))?;
        let secret = parse_secret(&self.secret)?;
        let terms = match (self.destination, self.amount) {
            (Some(destination), Some(amount)) => Terms::Live { destination, amount, asset: self.asset },
            _ => Terms::Sandbox,
        };
        let settings =
            ClientSettings { endpoint, secret, timeout: self.timeout, extra_roots_pem: Vec::new() };
        let examined = check::examine(settings, terms, Arc::new(SystemClock), &SystemEntropy).await;
        let report = examined.map_err(|fault| {
            let hint = match fault {
                TermsFault::NotASandbox => ". Give --live, --destination and --amount if it shall",
                TermsFault::Roots(_) => "",
            };
            CommandError::Refused(format!("{fault}{hint}"))
        })?;
        let conforms = report.is_good();
        let printed = Printed { url: &self.url, conforms, report: &report };
        output::print(self.format, &printed, || table(&report))?;
        Ok(if conforms { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn table(report: &Report) -> String {
    let rows: Vec<Vec<String>> = report
        .checks
        .iter()
        .map(|check| {
            let mark = match check.verdict {
                Verdict::Ok => "ok",
                Verdict::Failed => "FAILED",
                Verdict::Skipped => "skipped",
            };
            vec![mark.to_owned(), check.check.to_owned(), check.finding.clone()]
        })
        .collect();
    let verdict = if report.is_good() { "It conforms." } else { "It does NOT conform." };
    format!("{}\n{verdict}", output::table(&["", "CHECK", "FINDING"], &rows))
}
