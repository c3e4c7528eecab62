//! `settle provider`: looks at providers.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use secrecy::SecretString;
use serde::Serialize;
use settle_domain::money::Decimal;
use settle_provider::check::{self, Report, Terms, TermsFault, Verdict};
use settle_provider::client::{ClientSettings, Endpoint};
use settle_wiring::config::{SANDBOX_SECRET_VARIABLE, parse_duration};
use settle_wiring::system::{SystemClock, SystemEntropy};

use super::CommandError;
use super::sandbox::parse_secret;
use crate::output::{self, OutputFormat};

#[derive(Debug, Subcommand)]
pub(super) enum ProviderCommand {
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
    pub(super) async fn run(self) -> Result<ExitCode, CommandError> {
        match self {
            ProviderCommand::Check(check) => check.run().await,
        }
    }
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
