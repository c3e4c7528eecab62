//! What was asked of providers.

use std::time::Duration;

use async_trait::async_trait;
use settle_domain::ids::{MerchantId, OperationId, PaymentId};
use settle_domain::time::Timestamp;
use settle_store::{
    MerchantLock, OperationChange, OperationReads, OperationRow, OperationWrites, StoreError, StoreResult,
};
use sqlx::postgres::PgRow;

use crate::convert::{At, array, column, id, number, parsed, small};
use crate::error::store_error;
use crate::{PostgresStore, PostgresTx};

settle_store::statements! {
    // The age is counted by the server's clock, as the time of the preparation is. The limit keeps the
    // planner from reading all operations in the order that is asked for.
    hot OF_MANY = "
        SELECT o.merchant_id, o.payment_id, o.kind, o.attempt, o.operation_id, o.provider, o.status, o.is_live,
               greatest(0, extract(epoch FROM clock_timestamp() - o.prepared_at) * 1000000)::bigint,
               o.request, o.memory
        FROM unnest($1::uuid[], $2::uuid[]) AS asked (merchant_id, payment_id)
        CROSS JOIN LATERAL (
            SELECT number FROM payments
            WHERE merchant_id = asked.merchant_id AND payment_id = asked.payment_id LIMIT 1
        ) AS p
        CROSS JOIN LATERAL (
            SELECT * FROM operations
            WHERE merchant_id = asked.merchant_id AND payment_number = p.number
            ORDER BY kind, attempt LIMIT 1000
        ) AS o
        ORDER BY o.merchant_id, o.payment_id, o.kind, o.attempt";
    hot FIND = "
        SELECT merchant_id, payment_id, kind, attempt, operation_id, provider, status,
               is_live, greatest(0, extract(epoch FROM clock_timestamp() - prepared_at) * 1000000)::bigint,
               request, memory
        FROM operations WHERE operation_id = $1";
    hot FIND_MANY = "
        SELECT o.merchant_id, o.payment_id, o.kind, o.attempt, o.operation_id, o.provider, o.status, o.is_live,
               greatest(0, extract(epoch FROM clock_timestamp() - o.prepared_at) * 1000000)::bigint,
               o.request, o.memory
        FROM unnest($1::uuid[]) AS asked (operation_id)
        CROSS JOIN LATERAL (
            SELECT * FROM operations WHERE operation_id = asked.operation_id LIMIT 1
        ) AS o";
    hot PREPARE = "
        INSERT INTO operations (merchant_id, payment_number, payment_id, kind, attempt, operation_id, provider,
                                status, is_live, prepared_at, request, memory)
        SELECT merchant_id,
               (SELECT p.number FROM payments AS p
                WHERE p.merchant_id = row.merchant_id AND p.payment_id = row.payment_id),
               payment_id, kind, attempt, operation_id, provider, status, is_live,
               clock_timestamp(), request, memory
        FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::integer[], $5::uuid[], $6::text[], $7::text[],
                    $8::boolean[], $9::text[], $10::text[])
            AS row (merchant_id, payment_id, kind, attempt, operation_id, provider, status, is_live, request,
                    memory)";
    // The rows are complete before operations are read, so that the planner has the number to ask by.
    hot CHANGE = "
        UPDATE operations
        SET status = row.status, is_live = row.is_live, memory = row.memory,
            changed_at = CASE WHEN operations.status = row.status THEN operations.changed_at ELSE $8 END
        FROM (
            SELECT row.*, (SELECT p.number FROM payments AS p
                           WHERE p.merchant_id = row.merchant_id AND p.payment_id = row.payment_id) AS payment_number
            FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::integer[], $5::text[], $6::boolean[], $7::text[])
                AS row (merchant_id, payment_id, kind, attempt, status, is_live, memory)
            OFFSET 0
        ) AS row
        WHERE operations.merchant_id = row.merchant_id AND operations.payment_number = row.payment_number
          AND operations.kind = row.kind AND operations.attempt = row.attempt";
}

#[async_trait]
impl OperationReads for PostgresStore {
    async fn operation_of_many(
        &self,
        payments: &[(MerchantId, PaymentId)],
        _now: Timestamp,
    ) -> StoreResult<Vec<OperationRow>> {
        let query = sqlx::query(OF_MANY)
            .bind(array(payments, |(merchant, _)| merchant.0))
            .bind(array(payments, |(_, payment)| payment.0));
        let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(operation).collect()
    }

    async fn operation_find_many(
        &self,
        asked: &[OperationId],
        _now: Timestamp,
    ) -> StoreResult<Vec<OperationRow>> {
        let query = sqlx::query(FIND_MANY).bind(array(asked, |operation| operation.0));
        let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(operation).collect()
    }

    async fn operation_find(&self, asked: OperationId, _now: Timestamp) -> StoreResult<Option<OperationRow>> {
        let row = sqlx::query(FIND).bind(asked.0).fetch_optional(&self.pool).await.map_err(store_error)?;
        row.as_ref().map(operation).transpose()
    }
}

#[async_trait]
impl OperationWrites for PostgresTx {
    async fn operation_prepare_many(
        &mut self,
        lock: &MerchantLock,
        operations: &[OperationRow],
        _now: Timestamp,
    ) -> StoreResult<()> {
        self.number.check(lock, operations.iter().map(|row| row.merchant_id))?;
        let query = sqlx::query(PREPARE)
            .bind(array(operations, |row| row.merchant_id.0))
            .bind(array(operations, |row| row.payment_id.0))
            .bind(array(operations, |row| row.kind.as_str()))
            .bind(array(operations, |row| small(row.attempt)))
            .bind(array(operations, |row| row.operation_id.0))
            .bind(array(operations, |row| row.provider.as_str()))
            .bind(array(operations, |row| row.status.as_str()))
            .bind(array(operations, |row| row.is_live))
            .bind(array(operations, |row| row.request.as_str()))
            .bind(array(operations, |row| row.memory.as_str()));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }

    async fn operation_change_many(
        &mut self,
        lock: &MerchantLock,
        changes: &[OperationChange],
        at: Timestamp,
    ) -> StoreResult<()> {
        self.number.check(lock, changes.iter().map(|change| change.merchant_id))?;
        let query = sqlx::query(CHANGE)
            .bind(array(changes, |change| change.merchant_id.0))
            .bind(array(changes, |change| change.payment_id.0))
            .bind(array(changes, |change| change.kind.as_str()))
            .bind(array(changes, |change| small(change.attempt)))
            .bind(array(changes, |change| change.status.as_str()))
            .bind(array(changes, |change| change.is_live))
            .bind(array(changes, |change| change.memory.as_str()))
            .bind(At(at));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }
}

pub(crate) fn operation(row: &PgRow) -> Result<OperationRow, StoreError> {
    let attempt: i32 = column(row, 3)?;
    Ok(OperationRow {
        merchant_id: id(row, 0, MerchantId)?,
        payment_id: id(row, 1, PaymentId)?,
        kind: parsed(row, 2)?,
        attempt: attempt.unsigned_abs(),
        operation_id: id(row, 4, OperationId)?,
        provider: parsed(row, 5)?,
        status: parsed(row, 6)?,
        is_live: column(row, 7)?,
        age: Duration::from_micros(number(row, 8)?),
        request: column(row, 9)?,
        memory: column(row, 10)?,
    })
}
