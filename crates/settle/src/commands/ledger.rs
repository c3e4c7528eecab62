//! `settle ledger`: what is on the accounts, whether the books agree, and whether providers agree with them.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Subcommand;
use serde::Serialize;
use serde_json::value::RawValue;
use settle_domain::ids::{MerchantId, OperationId, PaymentId, ReportId};
use settle_domain::ledger::{Account, SignedAmount};
use settle_domain::money::Asset;
use settle_domain::provider::ProviderName;
use settle_domain::reconciliation::FindingKind;
use settle_domain::time::Timestamp;
use settle_engine::books::{self, Checked, Disagreement};
use settle_engine::reconcile::{Reconciler, When};
use settle_engine::wake::EngineWake;
use settle_engine::writer::Writer;
use settle_store::{Finding, Report, Store, StoreError};
use settle_wiring::system::{SystemClock, SystemEntropy};
use settle_wiring::{Context, User};

use super::{CommandError, explained};
use crate::output::{self, OutputFormat};

/// Findings that are read at once.
const FINDINGS_A_PAGE: u32 = 200;

#[derive(Debug, Subcommand)]
pub(super) enum LedgerCommand {
    /// Show what is on the accounts: of the whole house, or of one merchant
    Balances {
        /// Only this merchant's
        #[arg(long, value_name = "MERCHANT_ID")]
        merchant: Option<MerchantId>,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Check that the books agree with themselves, with every payment and with the settlements
    ///
    /// Each merchant is read as of one moment, so it can be run while the service works. Exits with 1 when
    /// something does not agree, and says what and where.
    Check {
        /// Only this merchant's
        #[arg(long, value_name = "MERCHANT_ID")]
        merchant: Option<MerchantId>,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Compare what providers say they did with what we hold, now, and print the report
    ///
    /// The service does it once a day by itself. What is news to us is looked up, as the engine does. Exits
    /// with 1 when there are findings.
    Reconcile {
        /// With whom [default: every provider of the settings]
        provider: Vec<ProviderName>,
        #[command(flatten)]
        format: OutputFormat,
    },
}

impl LedgerCommand {
    /// How it uses the store.
    pub(super) fn user(&self) -> User {
        if matches!(self, Self::Reconcile { .. }) { User::Command } else { User::Reader }
    }

    pub(super) async fn run(self, context: Context) -> Result<ExitCode, CommandError> {
        match self {
            Self::Balances { merchant, format } => balances(&context, merchant, format).await,
            Self::Check { merchant, format } => check(&context, merchant, format).await,
            Self::Reconcile { provider, format } => reconcile(&context, provider, format).await,
        }
    }
}

#[derive(Serialize)]
struct PrintedBalance {
    account: Account,
    asset: Asset,
    amount: SignedAmount,
}

async fn known(store: &dyn Store, merchant: Option<MerchantId>) -> Result<(), StoreError> {
    match merchant {
        Some(merchant) if store.merchant_find(merchant).await?.is_none() => {
            Err(StoreError::UnknownMerchant(merchant))
        }
        _ => Ok(()),
    }
}

async fn balances(
    context: &Context,
    merchant: Option<MerchantId>,
    format: OutputFormat,
) -> Result<ExitCode, CommandError> {
    known(&*context.store, merchant).await?;
    let sums = books::balances(&*context.store, merchant).await?;
    let printed: Vec<PrintedBalance> =
        sums.into_iter().map(|(account, asset, amount)| PrintedBalance { account, asset, amount }).collect();
    output::print(format, &printed, || {
        let row = |balance: &PrintedBalance| {
            vec![balance.account.to_string(), balance.asset.code().to_owned(), balance.amount.to_string()]
        };
        let rows: Vec<Vec<String>> = printed.iter().map(row).collect();
        output::table(&["ACCOUNT", "ASSET", "AMOUNT"], &rows)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What was checked, as JSON.
#[derive(Serialize)]
struct PrintedCheck<'a> {
    agree: bool,
    merchants: u64,
    payments: u64,
    found: u64,
    disagreements: Vec<PrintedDisagreement<'a>>,
}

#[derive(Serialize)]
struct PrintedDisagreement<'a> {
    merchant_id: MerchantId,
    payment_id: Option<PaymentId>,
    account: Option<Account>,
    asset: Option<Asset>,
    books: &'a str,
    expected: &'a str,
    text: String,
}

impl<'a> From<&'a Disagreement> for PrintedDisagreement<'a> {
    fn from(found: &'a Disagreement) -> PrintedDisagreement<'a> {
        PrintedDisagreement {
            merchant_id: found.merchant_id,
            payment_id: found.payment_id,
            account: found.account,
            asset: found.asset,
            books: &found.stands,
            expected: &found.expected,
            text: found.to_string(),
        }
    }
}

async fn check(
    context: &Context,
    merchant: Option<MerchantId>,
    format: OutputFormat,
) -> Result<ExitCode, CommandError> {
    known(&*context.store, merchant).await?;
    let checked = match merchant {
        Some(merchant) => books::check_merchant(&*context.store, &SystemClock, merchant).await?,
        None => books::check(&*context.store, &SystemClock).await?,
    };
    let Checked { merchants, payments, found, disagreements } = &checked;
    let agree = *found == 0;
    let printed = PrintedCheck {
        agree,
        merchants: *merchants,
        payments: *payments,
        found: *found,
        disagreements: disagreements.iter().map(PrintedDisagreement::from).collect(),
    };
    output::print(format, &printed, || {
        let mut lines: Vec<String> = disagreements.iter().map(ToString::to_string).collect();
        let untold = found.saturating_sub(u64::try_from(lines.len()).unwrap_or(u64::MAX));
        if untold > 0 {
            lines.push(format!("and {untold} more"));
        }
        let verdict = if agree { "The books agree" } else { "THE BOOKS DO NOT AGREE" };
        lines.push(format!("{verdict}: {merchants} merchants, {payments} payments, {found} disagreements"));
        lines.join("\n")
    })?;
    Ok(if agree { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Serialize)]
struct PrintedReport {
    report_id: ReportId,
    provider: ProviderName,
    since: Timestamp,
    started_at: Timestamp,
    ended_at: Option<Timestamp>,
    listed: u64,
    findings: Vec<PrintedFinding>,
}

#[derive(Serialize)]
struct PrintedFinding {
    operation_id: OperationId,
    kind: FindingKind,
    merchant_id: Option<MerchantId>,
    payment_id: Option<PaymentId>,
    ours: Option<Box<RawValue>>,
    theirs: Option<Box<RawValue>>,
}

impl From<Finding> for PrintedFinding {
    fn from(finding: Finding) -> PrintedFinding {
        let raw = |text: Option<String>| text.and_then(|text| RawValue::from_string(text).ok());
        PrintedFinding {
            operation_id: finding.operation_id,
            kind: finding.kind,
            merchant_id: finding.merchant_id,
            payment_id: finding.payment_id,
            ours: raw(finding.ours),
            theirs: raw(finding.theirs),
        }
    }
}

async fn reconcile(
    context: &Context,
    asked: Vec<ProviderName>,
    format: OutputFormat,
) -> Result<ExitCode, CommandError> {
    let providers = settle_wiring::providers(&context.config)?;
    let wake = EngineWake::default();
    let writer = Writer::start(context.command_outbox(), wake.clone(), Arc::new(SystemClock));
    let means = settle_wiring::means(&context.config, context.store.clone(), writer, providers.clone());
    let reconciler = Reconciler::new(means, wake, Arc::new(SystemEntropy));
    let all = || providers.all().map(|station| station.name().clone()).collect();
    let asked: Vec<ProviderName> = if asked.is_empty() { all() } else { asked };
    if asked.is_empty() {
        return Err(CommandError::Refused("the settings have no provider".to_owned()));
    }
    let (mut printed, mut faults) = (Vec::new(), Vec::new());
    for provider in asked {
        // One that does not answer takes nothing from what is compared with the others.
        match reconciler.reconcile(&provider, When::Now).await {
            Ok(Some(report)) => printed.push(with_findings(&*context.store, report).await?),
            Ok(None) => {}
            Err(fault) => faults.push(explained(&fault)),
        }
    }
    let agrees = printed.iter().all(|report| report.findings.is_empty());
    if !printed.is_empty() {
        output::print(format, &printed, || printed.iter().map(told).collect::<Vec<_>>().join("\n"))?;
    }
    if !faults.is_empty() {
        return Err(CommandError::Refused(faults.join("; ")));
    }
    Ok(if agrees { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn with_findings(store: &dyn Store, report: Report) -> Result<PrintedReport, CommandError> {
    let mut findings: Vec<PrintedFinding> = Vec::new();
    loop {
        let after = findings.last().map(|finding| finding.operation_id);
        let page = store.report_findings(report.report_id, after, FINDINGS_A_PAGE).await?;
        if page.is_empty() {
            break;
        }
        findings.extend(page.into_iter().map(PrintedFinding::from));
    }
    let Report { report_id, provider, since, started_at, ended_at, listed, .. } = report;
    Ok(PrintedReport { report_id, provider, since, started_at, ended_at, listed, findings })
}

/// A report as a person reads it.
fn told(report: &PrintedReport) -> String {
    let PrintedReport { provider, since, listed, findings, .. } = report;
    let mut lines = Vec::new();
    for finding in findings {
        let whose = finding.payment_id.map(|payment| format!(" of payment {payment}")).unwrap_or_default();
        lines.push(format!("operation {}{whose}: {}", finding.operation_id, finding.kind.words()));
        for (side, words) in [("ours", &finding.ours), ("theirs", &finding.theirs)] {
            let words = words.as_ref().map_or("nothing", |words| words.get());
            lines.push(format!("  {side:<6} {}", output::harmless_line(words)));
        }
    }
    lines.push(format!("{provider}: {listed} operations listed since {since}, {} findings", findings.len()));
    lines.join("\n")
}
