//! What is on each account of a merchant.

use async_trait::async_trait;
use rusqlite::{Row, params};
use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::ledger::{Postings, SignedAmount};
use settle_domain::time::Timestamp;
use settle_store::{
    Audit, AuditedPayment, Balance, BalanceReads, BalanceWrites, MerchantLock, StoreError, StoreResult,
    audited, sum_postings,
};
use uuid::Uuid;

use crate::connections::Snapshot;
use crate::convert::{column, id, parsed, signed};
use crate::error::store_error;
use crate::operations::operation;
use crate::payments::{payment, step};
use crate::query::Query;
use crate::{SqliteStore, SqliteTx};

settle_store::statements! {
    cold "an operator's listing" OF = "
        SELECT merchant_id, account, asset, amount FROM balances WHERE merchant_id = ?1
        ORDER BY account, asset";
    cold "an operator's listing" LIST = "
        SELECT merchant_id, account, asset, amount FROM balances
        WHERE merchant_id IN (
            SELECT DISTINCT merchant_id FROM balances WHERE merchant_id > ?1 ORDER BY merchant_id LIMIT ?2 + 0)
        ORDER BY merchant_id, account, asset";
    cold "an audit's, a page at a time" AUDIT_PAYMENTS = "
        SELECT p.merchant_id, p.payment_id, payin_source, p.payin_reference, state, version, reason, blocked,
               provider, created_at, changed_at, due_at, request, progress, told.record
        FROM payments AS p
        LEFT JOIN settlements AS told
            ON told.merchant_id = p.merchant_id AND told.settlement_id = p.payment_id
        WHERE p.merchant_id = ?1 AND p.payment_id > ?2 ORDER BY p.payment_id LIMIT ?3 + 0";
    cold "an audit's, a page at a time" AUDIT_STEPS = "
        SELECT p.merchant_id, p.payment_id, s.number, s.at, s.step
        FROM payments AS p CROSS JOIN payment_steps AS s ON s.payment_number = p.number
        WHERE p.merchant_id = ?1 AND p.payment_id > ?2 AND p.payment_id <= ?3
        ORDER BY p.payment_id, s.number";
    cold "an audit's, a page at a time" AUDIT_OPERATIONS = "
        SELECT p.merchant_id, p.payment_id, o.kind, o.attempt, o.operation_id, o.provider, o.status,
               o.is_live, max(0, ?4 - o.prepared_at), o.request, o.memory
        FROM payments AS p CROSS JOIN operations AS o ON o.payment_number = p.number
        WHERE p.merchant_id = ?1 AND p.payment_id > ?2 AND p.payment_id <= ?3
        ORDER BY p.payment_id, o.kind, o.attempt";
    hot AMOUNT = "
        SELECT amount FROM balances WHERE merchant_id = ?1 AND account = ?2 AND asset = ?3";
    hot PUT = "
        INSERT INTO balances (merchant_id, account, asset, amount) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (merchant_id, account, asset) DO UPDATE SET amount = excluded.amount";
}

#[async_trait]
impl BalanceReads for SqliteStore {
    async fn balance_of(&self, merchant: MerchantId) -> StoreResult<Vec<Balance>> {
        self.connections.read(|connection| connection.rows(OF, [merchant.0], balance))
    }

    async fn balance_list(&self, after: Option<MerchantId>, merchants: u32) -> StoreResult<Vec<Balance>> {
        let after = after.map_or(Uuid::nil(), |after| after.0);
        let asked = params![after, signed(merchants)];
        self.connections.read(|connection| connection.rows(LIST, asked, balance))
    }

    async fn balance_audit(&self, merchant: MerchantId, now: Timestamp) -> StoreResult<Box<dyn Audit>> {
        Ok(Box::new(SqliteAudit { snapshot: self.connections.snapshot()?, merchant, now }))
    }
}

/// One transaction, which writes nothing: with WAL nobody waits for it.
struct SqliteAudit {
    snapshot: Snapshot,
    merchant: MerchantId,
    now: Timestamp,
}

#[async_trait]
impl Audit for SqliteAudit {
    async fn balances(&mut self) -> StoreResult<Vec<Balance>> {
        let merchant = self.merchant.0;
        self.snapshot.read(|connection| connection.rows(OF, [merchant], balance))
    }

    async fn payments(&mut self, after: Option<PaymentId>, limit: u32) -> StoreResult<Vec<AuditedPayment>> {
        let (merchant, after) = (self.merchant.0, after.map_or(Uuid::nil(), |after| after.0));
        let now = self.now.as_micros();
        self.snapshot.read(|connection| {
            let read = |row: &Row<'_>| Ok((payment(row)?, column(row, 14)?));
            let payments = connection.rows(AUDIT_PAYMENTS, params![merchant, after, signed(limit)], read)?;
            let Some((last, _)) = payments.last() else { return Ok(Vec::new()) };
            let last = last.payment_id.0;
            let steps = connection.rows(AUDIT_STEPS, [merchant, after, last], step)?;
            let asked = params![merchant, after, last, now];
            let operations = connection.rows(AUDIT_OPERATIONS, asked, operation)?;
            Ok(audited(payments, steps, operations))
        })
    }
}

#[async_trait]
impl BalanceWrites for SqliteTx {
    /// Differs because SQLite has no exact decimals: the sum is computed here, under the one writer's lock.
    async fn balance_post_many(
        &mut self,
        lock: &MerchantLock,
        postings: &[(MerchantId, Postings)],
    ) -> StoreResult<()> {
        self.number.check(lock, postings.iter().map(|(merchant, _)| *merchant))?;
        let connection = self.writer.connection()?;
        for change in sum_postings(postings)? {
            let (merchant, account, asset) =
                (change.merchant_id.0, change.account.as_str(), change.asset.code());
            let before: Option<SignedAmount> =
                connection.row(AMOUNT, params![merchant, account, asset], |row| parsed(row, 0))?;
            let before = before.unwrap_or_else(|| SignedAmount::zero(change.asset));
            let too_many = || StoreError::unexpected("a balance has too many digits");
            let after = before.plus(change.amount).ok_or_else(too_many)?.to_string();
            connection.change(PUT, params![merchant, account, asset, after]).map_err(store_error)?;
        }
        Ok(())
    }
}

fn balance(row: &Row<'_>) -> StoreResult<Balance> {
    Ok(Balance {
        merchant_id: id(row, 0, MerchantId)?,
        account: parsed(row, 1)?,
        asset: parsed(row, 2)?,
        amount: parsed(row, 3)?,
    })
}
