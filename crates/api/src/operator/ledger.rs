//! `/operator/v1/ledger`: what is on the accounts, and what came of comparing providers' operations with
//! ours.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use serde::Serialize;
use serde_json::value::RawValue;
use settle_domain::ids::{MerchantId, OperationId, PaymentId, ReportId};
use settle_domain::ledger::{Account, SignedAmount};
use settle_domain::money::Asset;
use settle_domain::provider::ProviderName;
use settle_domain::reconciliation::FindingKind;
use settle_domain::time::Timestamp;
use settle_engine::books;
use utoipa::{IntoResponses, ToSchema};

use super::OperatorState;
use super::authentication::Operator;
use super::details::Details;
use super::pages::{Asked, PageParameters};
use crate::error::ApiError;
use crate::http::{Parameters, PathIds, serialized};
use crate::refusals::{Documentation, Refusal, responses};

/// What is on an account, of one merchant or of all.
#[derive(Serialize, ToSchema)]
#[schema(as = AccountBalance)]
pub(super) struct Balance {
    /// `payer`, `client_funds`, `converting`, `exchange`, `payable`, `fees` and so on.
    #[schema(value_type = String, examples("client_funds"))]
    account: Account,
    #[schema(value_type = String, examples("BRL"))]
    asset: Asset,
    /// With a leading `-` below zero.
    #[schema(value_type = String, examples("-1000.00"))]
    amount: SignedAmount,
}

/// Every account that something was ever posted to.
#[derive(Serialize, ToSchema)]
pub(super) struct Balances {
    balances: Vec<Balance>,
}

/// Describes the query of the balances for the OpenAPI document.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its description is used")]
pub(super) struct BalanceParameters {
    /// Only this merchant's; absent for the sums over all merchants.
    #[param(value_type = Option<Uuid>)]
    merchant_id: Option<String>,
}

/// What asking for balances can be refused for.
pub(super) struct BalanceRefusals;

impl IntoResponses for BalanceRefusals {
    fn responses() -> Documentation {
        responses(&[Refusal::UnknownMerchant, Refusal::AdminValidation])
    }
}

/// Show what is on the accounts
#[utoipa::path(
    get,
    path = "/operator/v1/ledger/balances",
    operation_id = "listBalances",
    tag = "Ledger",
    params(BalanceParameters),
    responses((status = 200, description = "The balances, by account and asset.", body = Balances), BalanceRefusals)
)]
pub(super) async fn list_balances(
    _operator: Operator,
    State(state): State<OperatorState>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let merchant = merchant(query.as_deref())?;
    if let Some(merchant) = merchant
        && state.store.merchant_find(merchant).await?.is_none()
    {
        return Err(ApiError::NotFound);
    }
    let sums = books::balances(&*state.store, merchant).await?;
    let balances = sums.into_iter().map(|(account, asset, amount)| Balance { account, asset, amount });
    Ok(serialized(&Balances { balances: balances.collect() })?)
}

/// The merchant that a query names, if it names one.
pub(super) fn merchant(query: Option<&str>) -> Result<Option<MerchantId>, ApiError> {
    let mut details = Details::default();
    let parameters = Parameters::new(query);
    let text = parameters.once("merchant_id").map_err(|_| "is given once".to_owned());
    let merchant = text
        .and_then(|text| text.map(str::parse::<MerchantId>).transpose().map_err(|fault| fault.to_string()));
    merchant.map_err(|problem| {
        details.push(|| format!("merchant_id: {problem}"));
        ApiError::AdminValidation(details.into_list())
    })
}

/// One comparison of a provider's operations with ours.
#[derive(Serialize, ToSchema)]
#[schema(as = ReconciliationReport)]
pub(super) struct Report {
    #[schema(value_type = Uuid)]
    report_id: ReportId,
    #[schema(value_type = String, examples("sandbox"))]
    provider: ProviderName,
    /// What has changed there since then was compared.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// Null while it is being made.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
    /// How many operations the provider listed.
    listed: u64,
    /// How many findings there are.
    findings: u64,
}

impl From<settle_store::Report> for Report {
    fn from(report: settle_store::Report) -> Report {
        let settle_store::Report { report_id, provider, since, started_at, ended_at, listed, findings } =
            report;
        Report { report_id, provider, since, started_at, ended_at, listed, findings }
    }
}

/// A page of reports, the newest first.
#[derive(Serialize, ToSchema)]
pub(super) struct ReportPage {
    reports: Vec<Report>,
    /// The page size that was asked for.
    #[schema(minimum = 1, maximum = 200, examples(50), value_type = i64)]
    limit: u32,
    /// The `after` of the next page; null on the last one.
    #[schema(required, value_type = Option<Uuid>)]
    next_after: Option<ReportId>,
}

/// What listing reports can be refused for.
pub(super) struct ReportRefusals;

impl IntoResponses for ReportRefusals {
    fn responses() -> Documentation {
        responses(&[Refusal::AdminValidation])
    }
}

/// List the reports of reconciliation
#[utoipa::path(
    get,
    path = "/operator/v1/ledger/reports",
    operation_id = "listReports",
    tag = "Ledger",
    params(PageParameters),
    responses((status = 200, description = "A page of reports.", body = ReportPage), ReportRefusals)
)]
pub(super) async fn list_reports(
    _operator: Operator,
    State(state): State<OperatorState>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let asked: Asked<ReportId> = Asked::parse(query.as_deref())?;
    let mut rows = state.store.report_list(asked.after, asked.rows()).await?;
    let next_after = asked.cut(&mut rows, |row| row.report_id);
    let reports = rows.into_iter().map(Report::from).collect();
    Ok(serialized(&ReportPage { reports, limit: asked.limit, next_after })?)
}

/// Something that a provider and we do not agree on, with both sides' words.
#[derive(Serialize, ToSchema)]
#[schema(as = ReconciliationFinding)]
pub(super) struct Finding {
    #[schema(value_type = Uuid)]
    operation_id: OperationId,
    /// `unknown_to_us`, `unknown_to_them`, `other_amounts`, `other_reference`, `returned`, `succeeded_there`,
    /// `refused_there`, `pending_there` or `unreadable`, of which one side's word cannot be read: if the
    /// provider's, `theirs` says why, and `operation_id` is nil where it names none.
    #[schema(value_type = String, examples("other_amounts"))]
    kind: FindingKind,
    /// Null if we do not know the operation.
    #[schema(required, value_type = Option<Uuid>)]
    merchant_id: Option<MerchantId>,
    /// Null if we do not know the operation.
    #[schema(required, value_type = Option<Uuid>)]
    payment_id: Option<PaymentId>,
    #[schema(value_type = String, format = DateTime)]
    found_at: Timestamp,
    /// What we hold of it; null if we do not know it.
    #[schema(required, value_type = Option<Object>)]
    ours: Option<Box<RawValue>>,
    /// What the provider says of it; null if it says nothing.
    #[schema(required, value_type = Option<Object>)]
    theirs: Option<Box<RawValue>>,
}

impl From<settle_store::Finding> for Finding {
    fn from(finding: settle_store::Finding) -> Finding {
        // What is stored as JSON is JSON; if not, the list is worth more than the words.
        let raw = |text: Option<String>| text.and_then(|text| RawValue::from_string(text).ok());
        Finding {
            operation_id: finding.operation_id,
            kind: finding.kind,
            merchant_id: finding.merchant_id,
            payment_id: finding.payment_id,
            found_at: finding.found_at,
            ours: raw(finding.ours),
            theirs: raw(finding.theirs),
        }
    }
}

/// A page of a report's findings, in the order of the operations' ids.
#[derive(Serialize, ToSchema)]
pub(super) struct FindingPage {
    findings: Vec<Finding>,
    /// The page size that was asked for.
    #[schema(minimum = 1, maximum = 200, examples(50), value_type = i64)]
    limit: u32,
    /// The `after` of the next page; null on the last one.
    #[schema(required, value_type = Option<Uuid>)]
    next_after: Option<OperationId>,
}

/// What listing findings can be refused for.
pub(super) struct FindingRefusals;

impl IntoResponses for FindingRefusals {
    fn responses() -> Documentation {
        responses(&[Refusal::UnknownReport, Refusal::AdminValidation])
    }
}

/// List what a report found
#[utoipa::path(
    get,
    path = "/operator/v1/ledger/reports/{report_id}/findings",
    operation_id = "listFindings",
    tag = "Ledger",
    params(("report_id" = Uuid, Path, description = "The report."), PageParameters),
    responses((status = 200, description = "A page of findings.", body = FindingPage), FindingRefusals)
)]
pub(super) async fn list_findings(
    _operator: Operator,
    State(state): State<OperatorState>,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let report: ReportId = ids.id("report_id").ok_or(ApiError::NotFound)?;
    let asked: Asked<OperationId> = Asked::parse(query.as_deref())?;
    if state.store.report_find(report).await?.is_none() {
        return Err(ApiError::NotFound);
    }
    let mut rows = state.store.report_findings(report, asked.after, asked.rows()).await?;
    let next_after = asked.cut(&mut rows, |row| row.operation_id);
    let findings = rows.into_iter().map(Finding::from).collect();
    Ok(serialized(&FindingPage { findings, limit: asked.limit, next_after })?)
}
