//! What was asked of providers.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Row, params};
use settle_domain::ids::{MerchantId, OperationId, PaymentId};
use settle_domain::time::Timestamp;
use settle_store::{
    MerchantLock, OperationChange, OperationReads, OperationRow, OperationWrites, StoreResult,
};

use crate::convert::{column, hex, id, json_rows, parsed};
use crate::query::Query;
use crate::{SqliteStore, SqliteTx};

settle_store::statements! {
    hot OF_MANY = "
        SELECT p.merchant_id, p.payment_id, o.kind, o.attempt, o.operation_id, o.provider, o.status,
               o.is_live, max(0, ?2 - o.prepared_at), o.request, o.memory
        FROM json_each(?1) AS asked
        CROSS JOIN payments AS p
            ON p.merchant_id = unhex(asked.value ->> 0) AND p.payment_id = unhex(asked.value ->> 1)
        CROSS JOIN operations AS o ON o.payment_number = p.number
        ORDER BY p.merchant_id, p.payment_id, o.kind, o.attempt";
    hot FIND = "
        SELECT p.merchant_id, p.payment_id, o.kind, o.attempt, o.operation_id, o.provider, o.status,
               o.is_live, max(0, ?2 - o.prepared_at), o.request, o.memory
        FROM operations AS o CROSS JOIN payments AS p ON p.number = o.payment_number
        WHERE o.operation_id = ?1";
    hot FIND_MANY = "
        SELECT p.merchant_id, p.payment_id, o.kind, o.attempt, o.operation_id, o.provider, o.status,
               o.is_live, max(0, ?2 - o.prepared_at), o.request, o.memory
        FROM json_each(?1) AS asked
        CROSS JOIN operations AS o ON o.operation_id = unhex(asked.value)
        CROSS JOIN payments AS p ON p.number = o.payment_number";
    hot PREPARE = "
        INSERT INTO operations (payment_number, kind, attempt, operation_id, provider, status, is_live,
                                prepared_at, request, memory)
        VALUES ((SELECT number FROM payments WHERE merchant_id = ?1 AND payment_id = ?2),
                ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    hot CHANGE = "
        UPDATE operations
        SET status = ?5, is_live = ?6, memory = ?7,
            changed_at = CASE WHEN status = ?5 THEN changed_at ELSE ?8 END
        WHERE payment_number = (SELECT number FROM payments WHERE merchant_id = ?1 AND payment_id = ?2)
          AND kind = ?3 AND attempt = ?4";
}

#[async_trait]
impl OperationReads for SqliteStore {
    async fn operation_of_many(
        &self,
        payments: &[(MerchantId, PaymentId)],
        now: Timestamp,
    ) -> StoreResult<Vec<OperationRow>> {
        let asked = json_rows(payments.iter().map(|(merchant, payment)| (hex(merchant.0), hex(payment.0))));
        let asked = params![asked, now.as_micros()];
        self.connections.read(|connection| connection.rows(OF_MANY, asked, operation))
    }

    async fn operation_find_many(
        &self,
        asked: &[OperationId],
        now: Timestamp,
    ) -> StoreResult<Vec<OperationRow>> {
        let asked = json_rows(asked.iter().map(|operation| hex(operation.0)));
        let asked = params![asked, now.as_micros()];
        self.connections.read(|connection| connection.rows(FIND_MANY, asked, operation))
    }

    async fn operation_find(&self, asked: OperationId, now: Timestamp) -> StoreResult<Option<OperationRow>> {
        let asked = params![asked.0, now.as_micros()];
        self.connections.read(|connection| connection.row(FIND, asked, operation))
    }
}

#[async_trait]
impl OperationWrites for SqliteTx {
    async fn operation_prepare_many(
        &mut self,
        lock: &MerchantLock,
        operations: &[OperationRow],
        now: Timestamp,
    ) -> StoreResult<()> {
        self.number.check(lock, operations.iter().map(|row| row.merchant_id))?;
        let rows = operations.iter().map(|row| {
            (
                row.merchant_id.0,
                row.payment_id.0,
                row.kind.as_str(),
                row.attempt,
                row.operation_id.0,
                row.provider.as_str(),
                row.status.as_str(),
                row.is_live,
                now.as_micros(),
                &row.request,
                &row.memory,
            )
        });
        self.writer.change_each(PREPARE, rows).await?;
        Ok(())
    }

    async fn operation_change_many(
        &mut self,
        lock: &MerchantLock,
        changes: &[OperationChange],
        at: Timestamp,
    ) -> StoreResult<()> {
        self.number.check(lock, changes.iter().map(|change| change.merchant_id))?;
        let rows = changes.iter().map(|change| {
            (
                change.merchant_id.0,
                change.payment_id.0,
                change.kind.as_str(),
                change.attempt,
                change.status.as_str(),
                change.is_live,
                &change.memory,
                at.as_micros(),
            )
        });
        self.writer.change_each(CHANGE, rows).await?;
        Ok(())
    }
}

pub(crate) fn operation(row: &Row<'_>) -> StoreResult<OperationRow> {
    let micros: i64 = column(row, 8)?;
    Ok(OperationRow {
        merchant_id: id(row, 0, MerchantId)?,
        payment_id: id(row, 1, PaymentId)?,
        kind: parsed(row, 2)?,
        attempt: column(row, 3)?,
        operation_id: id(row, 4, OperationId)?,
        provider: parsed(row, 5)?,
        status: parsed(row, 6)?,
        is_live: column(row, 7)?,
        age: Duration::from_micros(micros.unsigned_abs()),
        request: column(row, 9)?,
        memory: column(row, 10)?,
    })
}
