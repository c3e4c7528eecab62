//! Reports: what came of comparing a provider's operations with ours, with both sides' words.
//!
//! A report is made in steps, each a short transaction, and a step that is done twice changes nothing. While
//! it is made, the store remembers which operations the provider has listed: what it has not is found then.

use async_trait::async_trait;
use settle_domain::ids::{MerchantId, OperationId, PaymentId, ReportId};
use settle_domain::provider::ProviderName;
use settle_domain::reconciliation::FindingKind;
use settle_domain::time::Timestamp;

use crate::{OperationRow, StoreResult};

/// One comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Its id.
    pub report_id: ReportId,
    /// With whom.
    pub provider: ProviderName,
    /// What has changed there since then was compared.
    pub since: Timestamp,
    /// When it began.
    pub started_at: Timestamp,
    /// When it was whole.
    pub ended_at: Option<Timestamp>,
    /// How many operations the provider listed.
    pub listed: u64,
    /// How many findings there are.
    pub findings: u64,
}

/// Something that the provider and we do not agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which operation.
    pub operation_id: OperationId,
    /// What does not agree.
    pub kind: FindingKind,
    /// Whose payment, if we know the operation.
    pub merchant_id: Option<MerchantId>,
    /// Which payment, if we know the operation.
    pub payment_id: Option<PaymentId>,
    /// When it was found.
    pub found_at: Timestamp,
    /// What we hold, as JSON.
    pub ours: Option<String>,
    /// What the provider says, as JSON.
    pub theirs: Option<String>,
}

/// Which of our operations a provider must have listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlisted {
    /// In which report.
    pub report_id: ReportId,
    /// By whom.
    pub provider: ProviderName,
    /// It came to its status then or later.
    pub from: Timestamp,
    /// And before then.
    pub until: Timestamp,
}

/// Questions about reports.
#[async_trait]
pub trait ReportReads {
    /// Reports, the newest first, before the given one.
    async fn report_list(&self, before: Option<ReportId>, limit: u32) -> StoreResult<Vec<Report>>;

    /// A report.
    async fn report_find(&self, report: ReportId) -> StoreResult<Option<Report>>;

    /// The findings of a report in the order of the operations' ids, after the given one.
    async fn report_findings(
        &self,
        report: ReportId,
        after: Option<OperationId>,
        limit: u32,
    ) -> StoreResult<Vec<Finding>>;

    /// A step over all our operations, as many as given after the given one: those of them that the provider
    /// accepted and has not listed, and where the next step begins. Walks over the history.
    async fn report_unlisted(
        &self,
        asked: &Unlisted,
        after: Option<OperationId>,
        rows: u32,
        now: Timestamp,
    ) -> StoreResult<(Vec<OperationRow>, Option<OperationId>)>;
}

/// Changes to reports.
#[async_trait]
pub trait ReportWrites {
    /// Begins a report.
    async fn report_begin(&mut self, report: &Report) -> StoreResult<()>;

    /// Adds what the provider has listed, and what was found. What is there already is not counted again.
    /// Gives what was found now for the first time, in any order.
    async fn report_add(
        &mut self,
        report: ReportId,
        listed: &[OperationId],
        findings: &[Finding],
    ) -> StoreResult<Vec<(OperationId, FindingKind)>>;

    /// The report is whole.
    async fn report_end(&mut self, report: ReportId, at: Timestamp) -> StoreResult<()>;

    /// Forgets what the provider had listed, at most so many rows. Says how many it forgot.
    async fn report_forget(&mut self, report: ReportId, limit: u32) -> StoreResult<u64>;
}
