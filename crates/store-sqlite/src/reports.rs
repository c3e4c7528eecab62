//! What came of comparing providers' operations with ours.

use async_trait::async_trait;
use rusqlite::{Row, params};
use settle_domain::ids::{MerchantId, OperationId, PaymentId, ReportId};
use settle_domain::reconciliation::FindingKind;
use settle_domain::time::Timestamp;
use settle_store::{Finding, OperationRow, Report, ReportReads, ReportWrites, StoreResult, Unlisted};
use uuid::Uuid;

use crate::convert::{column, id, number, optional_time, parsed, signed, time};
use crate::error::store_error;
use crate::operations::operation;
use crate::query::Query;
use crate::{SqliteStore, SqliteTx};

settle_store::statements! {
    cold "an operator's listing" LIST = "
        SELECT report_id, provider, since, started_at, ended_at, listed, findings FROM reports
        WHERE report_id < ?1 ORDER BY report_id DESC LIMIT ?2 + 0";
    cold "an operator's" FIND = "
        SELECT report_id, provider, since, started_at, ended_at, listed, findings FROM reports
        WHERE report_id = ?1";
    cold "an operator's listing" FINDINGS = "
        SELECT operation_id, kind, merchant_id, payment_id, found_at, ours, theirs
        FROM report_findings WHERE report_id = ?1 AND (?2 IS NULL OR operation_id > ?2)
        ORDER BY operation_id, kind LIMIT ?3 + 0";
    cold "a step of a reconciliation" STEP_END = "
        SELECT operation_id FROM operations WHERE operation_id > ?1
        ORDER BY operation_id LIMIT 1 OFFSET ?2 + 0";
    cold "a step of a reconciliation" UNLISTED = "
        SELECT p.merchant_id, p.payment_id, o.kind, o.attempt, o.operation_id, o.provider, o.status,
               o.is_live, max(0, ?7 - o.prepared_at), o.request, o.memory
        FROM operations AS o CROSS JOIN payments AS p ON p.number = o.payment_number
        WHERE o.operation_id > ?1 AND o.operation_id <= ?2 AND o.provider = ?3
          AND ifnull(o.changed_at, o.prepared_at) >= ?4 AND ifnull(o.changed_at, o.prepared_at) < ?5
          AND o.status IN ('accepted', 'succeeded', 'returned')
          AND NOT EXISTS (
              SELECT 1 FROM report_listed AS l
              WHERE l.report_id = ?6 AND l.operation_id = o.operation_id)
        ORDER BY o.operation_id";
    cold "a reconciliation's beginning" BEGIN = "
        INSERT INTO reports (report_id, provider, since, started_at) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT DO NOTHING";
    cold "a step of a reconciliation" ADD_LISTED = "
        INSERT INTO report_listed (report_id, operation_id) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    cold "a step of a reconciliation" ADD_FINDING = "
        INSERT INTO report_findings (report_id, operation_id, kind, merchant_id, payment_id, found_at, ours,
                                     theirs)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING";
    cold "a step of a reconciliation" COUNT = "
        UPDATE reports SET listed = listed + ?2, findings = findings + ?3 WHERE report_id = ?1";
    cold "a reconciliation's end" END = "
        UPDATE reports SET ended_at = ifnull(ended_at, ?2) WHERE report_id = ?1";
    cold "a reconciliation's end" FORGET = "
        DELETE FROM report_listed WHERE report_id = ?1 AND operation_id IN (
            SELECT operation_id FROM report_listed WHERE report_id = ?1
            ORDER BY operation_id LIMIT ?2 + 0)";
}

#[async_trait]
impl ReportReads for SqliteStore {
    async fn report_list(&self, before: Option<ReportId>, limit: u32) -> StoreResult<Vec<Report>> {
        let before = before.map_or(Uuid::max(), |before| before.0);
        self.connections.read(|connection| connection.rows(LIST, params![before, signed(limit)], report))
    }

    async fn report_find(&self, asked: ReportId) -> StoreResult<Option<Report>> {
        self.connections.read(|connection| connection.row(FIND, [asked.0], report))
    }

    async fn report_findings(
        &self,
        asked: ReportId,
        after: Option<OperationId>,
        limit: u32,
    ) -> StoreResult<Vec<Finding>> {
        let after = after.map(|after| after.0);
        let asked = params![asked.0, after, signed(limit)];
        self.connections.read(|connection| connection.rows(FINDINGS, asked, finding))
    }

    async fn report_unlisted(
        &self,
        asked: &Unlisted,
        after: Option<OperationId>,
        rows: u32,
        now: Timestamp,
    ) -> StoreResult<(Vec<OperationRow>, Option<OperationId>)> {
        let after = after.map_or(Uuid::nil(), |after| after.0);
        let step = self.connections.read_long(|connection| {
            let from = params![after, signed(rows.saturating_sub(1))];
            let end = connection.row(STEP_END, from, |row| id(row, 0, OperationId))?;
            let unlisted = params![
                after,
                end.map_or(Uuid::max(), |end| end.0),
                asked.provider.as_str(),
                asked.from.as_micros(),
                asked.until.as_micros(),
                asked.report_id.0,
                now.as_micros()
            ];
            Ok((connection.rows(UNLISTED, unlisted, operation)?, end))
        });
        step.await
    }
}

#[async_trait]
impl ReportWrites for SqliteTx {
    async fn report_begin(&mut self, report: &Report) -> StoreResult<()> {
        let Report { report_id, provider, since, started_at, .. } = report;
        let begun = params![report_id.0, provider.as_str(), since.as_micros(), started_at.as_micros()];
        self.writer.connection()?.change(BEGIN, begun).map_err(store_error)?;
        Ok(())
    }

    async fn report_add(
        &mut self,
        report: ReportId,
        listed: &[OperationId],
        findings: &[Finding],
    ) -> StoreResult<Vec<(OperationId, FindingKind)>> {
        let rows = listed.iter().map(|operation| [report.0, operation.0]);
        let listed = self.writer.change_each(ADD_LISTED, rows).await?;
        let rows = findings.iter().map(|finding| {
            (
                report.0,
                finding.operation_id.0,
                finding.kind.as_str(),
                finding.merchant_id.map(|merchant| merchant.0),
                finding.payment_id.map(|payment| payment.0),
                finding.found_at.as_micros(),
                &finding.ours,
                &finding.theirs,
            )
        });
        let found = self.writer.change_each(ADD_FINDING, rows).await?;
        let new = |changed: &[bool]| i64::try_from(changed.iter().filter(|new| **new).count());
        let (listed, number) = (new(&listed).unwrap_or(i64::MAX), new(&found).unwrap_or(i64::MAX));
        self.writer.connection()?.change(COUNT, params![report.0, listed, number]).map_err(store_error)?;
        let first = findings.iter().zip(found).filter(|(_, is_new)| *is_new);
        Ok(first.map(|(finding, _)| (finding.operation_id, finding.kind)).collect())
    }

    async fn report_end(&mut self, report: ReportId, at: Timestamp) -> StoreResult<()> {
        self.writer.connection()?.change(END, params![report.0, at.as_micros()]).map_err(store_error)?;
        Ok(())
    }

    async fn report_forget(&mut self, report: ReportId, limit: u32) -> StoreResult<u64> {
        let forgotten = self.writer.connection()?.change(FORGET, params![report.0, signed(limit)]);
        Ok(u64::try_from(forgotten.map_err(store_error)?).unwrap_or(u64::MAX))
    }
}

fn report(row: &Row<'_>) -> StoreResult<Report> {
    Ok(Report {
        report_id: id(row, 0, ReportId)?,
        provider: parsed(row, 1)?,
        since: time(row, 2)?,
        started_at: time(row, 3)?,
        ended_at: optional_time(row, 4)?,
        listed: number(row, 5)?,
        findings: number(row, 6)?,
    })
}

fn finding(row: &Row<'_>) -> StoreResult<Finding> {
    let merchant: Option<Uuid> = column(row, 2)?;
    let payment: Option<Uuid> = column(row, 3)?;
    Ok(Finding {
        operation_id: id(row, 0, OperationId)?,
        kind: parsed(row, 1)?,
        merchant_id: merchant.map(MerchantId),
        payment_id: payment.map(PaymentId),
        found_at: time(row, 4)?,
        ours: column(row, 5)?,
        theirs: column(row, 6)?,
    })
}
