//! What is on each account of a merchant.

use async_trait::async_trait;
use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::ledger::{Postings, SignedAmount};
use settle_domain::money::Asset;
use settle_domain::time::Timestamp;
use settle_store::{
    Audit, AuditedPayment, Balance, BalanceReads, BalanceWrites, MerchantLock, StoreError, StoreResult,
    audited, sum_postings,
};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::connections::Transaction;
use crate::convert::{array, column, id, parsed, signed};
use crate::error::store_error;
use crate::manners::Manner;
use crate::operations::operation;
use crate::payments::{payment, step};
use crate::{PostgresStore, PostgresTx};

settle_store::statements! {
    cold "an operator's listing" OF = "
        SELECT merchant_id, account, asset, amount::text FROM balances WHERE merchant_id = $1
        ORDER BY account, asset";
    cold "an operator's listing" LIST = "
        SELECT merchant_id, account, asset, amount::text FROM balances
        WHERE merchant_id IN (
            SELECT DISTINCT merchant_id FROM balances WHERE merchant_id > $1 ORDER BY merchant_id LIMIT $2)
        ORDER BY merchant_id, account, asset";
    cold "an audit's, a page at a time" AUDIT_PAYMENTS = "
        SELECT p.merchant_id, p.payment_id, payin_source, p.payin_reference, state, version, reason, blocked,
               provider, created_at, changed_at, due_at, request, progress, told.record::text
        FROM payments AS p
        LEFT JOIN LATERAL (
            SELECT record FROM settlements
            WHERE merchant_id = p.merchant_id AND settlement_id = p.payment_id LIMIT 1
        ) AS told ON true
        WHERE p.merchant_id = $1 AND p.payment_id > $2 ORDER BY p.payment_id LIMIT $3";
    cold "an audit's, a page at a time" AUDIT_STEPS = "
        SELECT p.merchant_id, p.payment_id, s.number, s.at, s.step
        FROM payments AS p
        JOIN payment_steps AS s ON s.merchant_id = p.merchant_id AND s.payment_number = p.number
        WHERE p.merchant_id = $1 AND p.payment_id > $2 AND p.payment_id <= $3
        ORDER BY p.payment_id, s.number";
    cold "an audit's, a page at a time" AUDIT_OPERATIONS = "
        SELECT p.merchant_id, p.payment_id, o.kind, o.attempt, o.operation_id, o.provider, o.status, o.is_live,
               greatest(0, extract(epoch FROM clock_timestamp() - o.prepared_at) * 1000000)::bigint,
               o.request, o.memory
        FROM payments AS p
        JOIN operations AS o ON o.merchant_id = p.merchant_id AND o.payment_number = p.number
        WHERE p.merchant_id = $1 AND p.payment_id > $2 AND p.payment_id <= $3
        ORDER BY p.payment_id, o.kind, o.attempt";
    // The merchant is locked, so whatever is not there stays away until it is inserted. To insert first and
    // change what is in the way costs twice as much, and nearly all are there.
    hot POST = "
        WITH changed AS (
            UPDATE balances SET amount = balances.amount + row.amount::numeric
            FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[])
                AS row (merchant_id, account, asset, amount)
            WHERE balances.merchant_id = row.merchant_id AND balances.account = row.account
              AND balances.asset = row.asset
            RETURNING balances.merchant_id, balances.account, balances.asset
        )
        INSERT INTO balances (merchant_id, account, asset, amount)
        SELECT merchant_id, account, asset, amount::numeric
        FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS row (merchant_id, account, asset, amount)
        WHERE (merchant_id, account, asset) NOT IN (SELECT * FROM changed)";
}

#[async_trait]
impl BalanceReads for PostgresStore {
    async fn balance_of(&self, merchant: MerchantId) -> StoreResult<Vec<Balance>> {
        let rows = sqlx::query(OF).bind(merchant.0).fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(balance).collect()
    }

    async fn balance_list(&self, after: Option<MerchantId>, merchants: u32) -> StoreResult<Vec<Balance>> {
        let after = after.map_or(Uuid::nil(), |after| after.0);
        let query = sqlx::query(LIST).bind(after).bind(signed(merchants));
        let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(balance).collect()
    }

    async fn balance_audit(&self, merchant: MerchantId, _now: Timestamp) -> StoreResult<Box<dyn Audit>> {
        Ok(Box::new(PostgresAudit { inner: self.pool.transaction(Manner::Snapshot), merchant }))
    }
}

/// A transaction at the level REPEATABLE READ, which writes nothing and locks nothing.
struct PostgresAudit {
    inner: Transaction,
    merchant: MerchantId,
}

#[async_trait]
impl Audit for PostgresAudit {
    async fn balances(&mut self) -> StoreResult<Vec<Balance>> {
        let query = sqlx::query(OF).bind(self.merchant.0);
        let rows = query.fetch_all(&mut self.inner).await.map_err(store_error)?;
        rows.iter().map(balance).collect()
    }

    async fn payments(&mut self, after: Option<PaymentId>, limit: u32) -> StoreResult<Vec<AuditedPayment>> {
        let after = after.map_or(Uuid::nil(), |after| after.0);
        let query = sqlx::query(AUDIT_PAYMENTS).bind(self.merchant.0).bind(after).bind(signed(limit));
        let rows = query.fetch_all(&mut self.inner).await.map_err(store_error)?;
        let read = |row: &PgRow| Ok((payment(row)?, column(row, 14)?));
        let payments = rows.iter().map(read).collect::<StoreResult<Vec<_>>>()?;
        let Some((last, _)) = payments.last() else { return Ok(Vec::new()) };
        let last = last.payment_id.0;
        let query = sqlx::query(AUDIT_STEPS).bind(self.merchant.0).bind(after).bind(last);
        let rows = query.fetch_all(&mut self.inner).await.map_err(store_error)?;
        let steps = rows.iter().map(step).collect::<StoreResult<_>>()?;
        let query = sqlx::query(AUDIT_OPERATIONS).bind(self.merchant.0).bind(after).bind(last);
        let rows = query.fetch_all(&mut self.inner).await.map_err(store_error)?;
        let operations = rows.iter().map(operation).collect::<StoreResult<_>>()?;
        Ok(audited(payments, steps, operations))
    }
}

#[async_trait]
impl BalanceWrites for PostgresTx {
    async fn balance_post_many(
        &mut self,
        lock: &MerchantLock,
        postings: &[(MerchantId, Postings)],
    ) -> StoreResult<()> {
        self.number.check(lock, postings.iter().map(|(merchant, _)| *merchant))?;
        let changes = sum_postings(postings)?;
        if changes.is_empty() {
            return Ok(());
        }
        let query = sqlx::query(POST)
            .bind(array(&changes, |change| change.merchant_id.0))
            .bind(array(&changes, |change| change.account.as_str()))
            .bind(array(&changes, |change| change.asset.code()))
            .bind(array(&changes, |change| change.amount.to_string()));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }
}

/// The server gives a sum the scale of its parts, which is the asset's; a sum of zero keeps it too.
fn balance(row: &PgRow) -> StoreResult<Balance> {
    let (asset, amount): (Asset, SignedAmount) = (parsed(row, 2)?, parsed(row, 3)?);
    let damaged = || StoreError::unexpected("a balance that its asset cannot have");
    Ok(Balance {
        merchant_id: id(row, 0, MerchantId)?,
        account: parsed(row, 1)?,
        asset,
        amount: amount.at_scale(asset).ok_or_else(damaged)?,
    })
}
