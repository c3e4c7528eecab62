//! Payments that come in: created once, whoever tells of them and however often.

use std::collections::{HashMap, HashSet};

use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::provider::ProviderName;
use settle_domain::reason::{Blocked, Reason};
use settle_store::{PaymentCreated, PaymentRow, StoreResult};

use super::ids;
use crate::PostgresTx;
use crate::convert::{At, array, column};
use crate::error::store_error;

settle_store::statements! {
    hot CREATE = "
        INSERT INTO payments (merchant_id, payment_id, payin_source, payin_reference, state, version, reason,
                              blocked, provider, created_at, changed_at, due_at, is_open, request, progress)
        SELECT merchant_id, payment_id, payin_source, payin_reference, state, 1, reason, blocked, provider,
               created_at, changed_at, due_at, is_open, request::json, progress::json
        FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                    $8::text[], $9::timestamptz[], $10::timestamptz[], $11::timestamptz[], $12::boolean[],
                    $13::text[], $14::text[])
            AS row (merchant_id, payment_id, payin_source, payin_reference, state, reason, blocked, provider,
                    created_at, changed_at, due_at, is_open, request, progress)
        ON CONFLICT DO NOTHING
        RETURNING merchant_id, payment_id";
    hot STORED = "
        SELECT p.merchant_id, p.payment_id, p.payin_source, p.payin_reference, p.request::text
        FROM unnest($1::uuid[], $2::uuid[]) AS row (merchant_id, payment_id)
        JOIN payments AS p USING (merchant_id, payment_id)";
}

/// What a payment was created from: source and reference of its pay-in, and its request.
type PayinRequest = (String, String, String);

impl PostgresTx {
    /// Inserts payments; says in their order what became of each.
    pub(super) async fn create_payments(
        &mut self,
        payments: &[PaymentRow],
    ) -> StoreResult<Vec<PaymentCreated>> {
        let mut new = self.insert_payments(payments).await?;
        let (fresh, known): (Vec<&PaymentRow>, Vec<&PaymentRow>) =
            payments.iter().partition(|row| new.contains(&key(row)));
        let recorded = self.recorded_by_hand(&fresh).await?;
        let stored = self.stored_requests(&known).await?;
        let mut created = Vec::with_capacity(payments.len());
        for (place, row) in payments.iter().enumerate() {
            let is_same = |stored: &PayinRequest| {
                *stored == (row.payin_source.clone(), row.payin_reference.clone(), row.request.clone())
            };
            created.push(if recorded.contains(&key(row)) {
                PaymentCreated::Conflict
            } else if new.remove(&key(row)) {
                PaymentCreated::New
            } else if let Some(stored) = stored.get(&key(row)) {
                if is_same(stored) { PaymentCreated::Same } else { PaymentCreated::Conflict }
            } else if payments[..place].iter().any(|first| key(first) == key(row) && first == row) {
                // The second of two that are the same: the first is the new one.
                PaymentCreated::Same
            } else {
                PaymentCreated::Conflict
            });
        }
        Ok(created)
    }

    async fn insert_payments(
        &mut self,
        payments: &[PaymentRow],
    ) -> StoreResult<HashSet<(MerchantId, PaymentId)>> {
        let query = sqlx::query(CREATE)
            .bind(array(payments, |row| row.merchant_id.0))
            .bind(array(payments, |row| row.payment_id.0))
            .bind(array(payments, |row| row.payin_source.as_str()))
            .bind(array(payments, |row| row.payin_reference.as_str()))
            .bind(array(payments, |row| row.standing.state.as_str()))
            .bind(array(payments, |row| row.standing.reason.map(Reason::as_str)))
            .bind(array(payments, |row| row.standing.blocked.map(Blocked::as_str)))
            .bind(array(payments, |row| row.standing.provider.as_ref().map(ProviderName::as_str)))
            .bind(array(payments, |row| At(row.created_at)))
            .bind(array(payments, |row| At(row.standing.changed_at)))
            .bind(array(payments, |row| row.standing.due_at.map(At)))
            .bind(array(payments, |row| row.standing.is_open()))
            .bind(array(payments, |row| row.request.as_str()))
            .bind(array(payments, |row| row.standing.progress.as_str()));
        let rows = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        rows.iter().map(ids).collect()
    }

    async fn stored_requests(
        &mut self,
        known: &[&PaymentRow],
    ) -> StoreResult<HashMap<(MerchantId, PaymentId), PayinRequest>> {
        if known.is_empty() {
            return Ok(HashMap::new());
        }
        let query = sqlx::query(STORED)
            .bind(array(known, |row| row.merchant_id.0))
            .bind(array(known, |row| row.payment_id.0));
        let rows = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        rows.iter().map(|row| Ok((ids(row)?, (column(row, 2)?, column(row, 3)?, column(row, 4)?)))).collect()
    }
}

fn key(row: &PaymentRow) -> (MerchantId, PaymentId) {
    (row.merchant_id, row.payment_id)
}
