//! What came of comparing providers' operations with ours.

use async_trait::async_trait;
use settle_domain::ids::{MerchantId, OperationId, PaymentId, ReportId};
use settle_domain::reconciliation::FindingKind;
use settle_domain::time::Timestamp;
use settle_store::{Finding, OperationRow, Report, ReportReads, ReportWrites, StoreResult, Unlisted};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::convert::{At, array, column, id, number, optional_time, parsed, signed, time};
use crate::error::store_error;
use crate::operations::operation;
use crate::{PostgresStore, PostgresTx};

settle_store::statements! {
    cold "an operator's listing" LIST = "
        SELECT report_id, provider, since, started_at, ended_at, listed, findings FROM reports
        WHERE report_id < $1 ORDER BY report_id DESC LIMIT $2";
    cold "an operator's" FIND = "
        SELECT report_id, provider, since, started_at, ended_at, listed, findings FROM reports
        WHERE report_id = $1";
    cold "an operator's listing" FINDINGS = "
        SELECT operation_id, kind, merchant_id, payment_id, found_at, ours::text, theirs::text
        FROM report_findings WHERE report_id = $1 AND ($2::uuid IS NULL OR operation_id > $2)
        ORDER BY operation_id, kind LIMIT $3";
    cold "a step of a reconciliation" STEP_END = "
        SELECT operation_id FROM operations WHERE operation_id > $1 ORDER BY operation_id OFFSET $2 LIMIT 1";
    cold "a step of a reconciliation" UNLISTED = "
        SELECT o.merchant_id, o.payment_id, o.kind, o.attempt, o.operation_id, o.provider, o.status, o.is_live,
               greatest(0, extract(epoch FROM clock_timestamp() - o.prepared_at) * 1000000)::bigint,
               o.request, o.memory
        FROM operations AS o
        WHERE o.operation_id > $1 AND o.operation_id <= $2 AND o.provider = $3
          AND coalesce(o.changed_at, o.prepared_at) >= $4 AND coalesce(o.changed_at, o.prepared_at) < $5
          AND o.status IN ('accepted', 'succeeded', 'returned')
          AND NOT EXISTS (
              SELECT FROM report_listed AS l WHERE l.report_id = $6 AND l.operation_id = o.operation_id)
        ORDER BY o.operation_id";
    cold "a reconciliation's beginning" BEGIN = "
        INSERT INTO reports (report_id, provider, since, started_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT DO NOTHING";
    cold "a step of a reconciliation" ADD_LISTED = "
        INSERT INTO report_listed (report_id, operation_id) SELECT $1, unnest($2::uuid[])
        ON CONFLICT DO NOTHING";
    cold "a step of a reconciliation" ADD_FINDINGS = "
        INSERT INTO report_findings (report_id, operation_id, kind, merchant_id, payment_id, found_at, ours,
                                     theirs)
        SELECT $1, operation_id, kind, merchant_id, payment_id, found_at, ours::json, theirs::json
        FROM unnest($2::uuid[], $3::text[], $4::uuid[], $5::uuid[], $6::timestamptz[], $7::text[], $8::text[])
            AS row (operation_id, kind, merchant_id, payment_id, found_at, ours, theirs)
        ON CONFLICT DO NOTHING
        RETURNING operation_id, kind";
    cold "a step of a reconciliation" COUNT = "
        UPDATE reports SET listed = listed + $2, findings = findings + $3 WHERE report_id = $1";
    cold "a reconciliation's end" END = "
        UPDATE reports SET ended_at = coalesce(ended_at, $2) WHERE report_id = $1";
    cold "a reconciliation's end" FORGET = "
        DELETE FROM report_listed WHERE report_id = $1 AND operation_id IN (
            SELECT operation_id FROM report_listed WHERE report_id = $1 ORDER BY operation_id LIMIT $2)";
}

#[async_trait]
impl ReportReads for PostgresStore {
    async fn report_list(&self, before: Option<ReportId>, limit: u32) -> StoreResult<Vec<Report>> {
        let before = before.map_or(Uuid::max(), |before| before.0);
        let query = sqlx::query(LIST).bind(before).bind(signed(limit));
        let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(report).collect()
    }

    async fn report_find(&self, asked: ReportId) -> StoreResult<Option<Report>> {
        let row = sqlx::query(FIND).bind(asked.0).fetch_optional(&self.pool).await.map_err(store_error)?;
        row.as_ref().map(report).transpose()
    }

    async fn report_findings(
        &self,
        asked: ReportId,
        after: Option<OperationId>,
        limit: u32,
    ) -> StoreResult<Vec<Finding>> {
        let after = after.map(|after| after.0);
        let query = sqlx::query(FINDINGS).bind(asked.0).bind(after).bind(signed(limit));
        let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(finding).collect()
    }

    async fn report_unlisted(
        &self,
        asked: &Unlisted,
        after: Option<OperationId>,
        rows: u32,
        _now: Timestamp,
    ) -> StoreResult<(Vec<OperationRow>, Option<OperationId>)> {
        let after = after.map_or(Uuid::nil(), |after| after.0);
        let query = sqlx::query(STEP_END).bind(after).bind(signed(rows.saturating_sub(1)));
        let end = query.fetch_optional(&self.pool).await.map_err(store_error)?;
        let end = end.as_ref().map(|row| id(row, 0, OperationId)).transpose()?;
        let query = sqlx::query(UNLISTED)
            .bind(after)
            .bind(end.map_or(Uuid::max(), |end| end.0))
            .bind(asked.provider.as_str())
            .bind(At(asked.from))
            .bind(At(asked.until))
            .bind(asked.report_id.0);
        let found = query.fetch_all(&self.pool).await.map_err(store_error)?;
        Ok((found.iter().map(operation).collect::<StoreResult<_>>()?, end))
    }
}

#[async_trait]
impl ReportWrites for PostgresTx {
    async fn report_begin(&mut self, report: &Report) -> StoreResult<()> {
        let query = sqlx::query(BEGIN)
            .bind(report.report_id.0)
            .bind(report.provider.as_str())
            .bind(At(report.since))
            .bind(At(report.started_at));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }

    async fn report_add(
        &mut self,
        report: ReportId,
        listed: &[OperationId],
        findings: &[Finding],
    ) -> StoreResult<Vec<(OperationId, FindingKind)>> {
        let query = sqlx::query(ADD_LISTED).bind(report.0).bind(array(listed, |operation| operation.0));
        let listed = query.execute(&mut *self.inner).await.map_err(store_error)?.rows_affected();
        let query = sqlx::query(ADD_FINDINGS)
            .bind(report.0)
            .bind(array(findings, |finding| finding.operation_id.0))
            .bind(array(findings, |finding| finding.kind.as_str()))
            .bind(array(findings, |finding| finding.merchant_id.map(|merchant| merchant.0)))
            .bind(array(findings, |finding| finding.payment_id.map(|payment| payment.0)))
            .bind(array(findings, |finding| At(finding.found_at)))
            .bind(array(findings, |finding| finding.ours.as_deref()))
            .bind(array(findings, |finding| finding.theirs.as_deref()));
        let found = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        let number = signed(found.len() as u64);
        let query = sqlx::query(COUNT).bind(report.0).bind(signed(listed)).bind(number);
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        found.iter().map(|row| Ok((id(row, 0, OperationId)?, parsed(row, 1)?))).collect()
    }

    async fn report_end(&mut self, report: ReportId, at: Timestamp) -> StoreResult<()> {
        let query = sqlx::query(END).bind(report.0).bind(At(at));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }

    async fn report_forget(&mut self, report: ReportId, limit: u32) -> StoreResult<u64> {
        let query = sqlx::query(FORGET).bind(report.0).bind(signed(limit));
        Ok(query.execute(&mut *self.inner).await.map_err(store_error)?.rows_affected())
    }
}

fn report(row: &PgRow) -> StoreResult<Report> {
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

fn finding(row: &PgRow) -> StoreResult<Finding> {
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
