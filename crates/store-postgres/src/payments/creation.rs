//! Payments that come in: created once, whoever tells of them and however often.

use std::collections::HashMap;

use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::payment::Likeness;
use settle_domain::provider::ProviderName;
use settle_domain::reason::{Blocked, Reason};
use settle_domain::time::Timestamp;
use settle_store::{NewPayment, PaymentCreated, PaymentRow, StoreResult};
use uuid::Uuid;

use super::ids;
use crate::PostgresTx;
use crate::convert::{At, array, column, signed};
use crate::error::store_error;

settle_store::statements! {
    // The table is asked as it was before: payments of the same call are compared apart. Each day is asked in
    // the order that one index alone has: planned on an empty table, a statement without it walks all
    // payments of the merchant until the server learns how many there are. The earlier day comes first: the
    // earliest is named.
    hot CREATE = "
        INSERT INTO payments (merchant_id, payment_id, payin_source, payin_reference, state, version, reason,
                              blocked, provider, created_at, changed_at, due_at, is_open, request, progress,
                              likeness)
        SELECT merchant_id, payment_id, payin_source, payin_reference, state, 1, reason, blocked, provider,
               created_at, changed_at, due_at, is_open, request, progress, likeness
        FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                    $8::text[], $9::timestamptz[], $10::timestamptz[], $11::timestamptz[], $12::boolean[],
                    $13::text[], $14::text[], $15::uuid[])
            AS row (merchant_id, payment_id, payin_source, payin_reference, state, reason, blocked, provider,
                    created_at, changed_at, due_at, is_open, request, progress, likeness)
        ON CONFLICT DO NOTHING
        RETURNING merchant_id, payment_id, (
            (SELECT alike.payment_id FROM payments AS alike
             WHERE alike.merchant_id = payments.merchant_id
               AND (alike.created_at AT TIME ZONE 'UTC')::date = (payments.created_at AT TIME ZONE 'UTC')::date - 1
               AND alike.likeness = payments.likeness
               AND alike.created_at > payments.created_at - $16 * interval '1 second'
             ORDER BY alike.created_at LIMIT 1)
            UNION ALL
            (SELECT alike.payment_id FROM payments AS alike
             WHERE alike.merchant_id = payments.merchant_id
               AND (alike.created_at AT TIME ZONE 'UTC')::date = (payments.created_at AT TIME ZONE 'UTC')::date
               AND alike.likeness = payments.likeness
               AND alike.created_at > payments.created_at - $16 * interval '1 second'
             ORDER BY alike.created_at LIMIT 1)
            LIMIT 1)";
    hot STORED = "
        SELECT p.merchant_id, p.payment_id, p.payin_source, p.payin_reference, p.request
        FROM unnest($1::uuid[], $2::uuid[]) AS row (merchant_id, payment_id)
        JOIN payments AS p USING (merchant_id, payment_id)";
}

/// What a payment was created from: source and reference of its pay-in, and its request.
type PayinRequest = (String, String, String);

/// Payments that were inserted, and whom each is like.
type Inserted = HashMap<(MerchantId, PaymentId), Option<PaymentId>>;

impl PostgresTx {
    /// Inserts payments; says in their order what became of each.
    pub(super) async fn create_payments(
        &mut self,
        payments: &[NewPayment],
    ) -> StoreResult<Vec<PaymentCreated>> {
        let mut new = self.insert_payments(payments).await?;
        let rows = payments.iter().map(|payment| &payment.row);
        let (fresh, known): (Vec<&PaymentRow>, Vec<&PaymentRow>) =
            rows.partition(|row| new.contains_key(&key(row)));
        let recorded = self.recorded_by_hand(&fresh).await?;
        let stored = self.stored_requests(&known).await?;
        let mut seen = HashMap::new();
        let mut created = Vec::with_capacity(payments.len());
        for (place, NewPayment { row, likeness }) in payments.iter().enumerate() {
            let is_same = |stored: &PayinRequest| {
                *stored == (row.payin_source.clone(), row.payin_reference.clone(), row.request.clone())
            };
            created.push(if recorded.contains(&key(row)) {
                PaymentCreated::Conflict
            } else if let Some(alike) = new.remove(&key(row)) {
                let before = seen.insert((row.merchant_id, *likeness), (row.payment_id, row.created_at));
                let is_near = |at: Timestamp| row.created_at.since(at) < Likeness::WITHIN;
                let before = before.filter(|(_, at)| is_near(*at)).map(|(payment, _)| payment);
                alike.or(before).map_or(PaymentCreated::New, PaymentCreated::NewAlike)
            } else if let Some(stored) = stored.get(&key(row)) {
                if is_same(stored) { PaymentCreated::Same } else { PaymentCreated::Conflict }
            } else if payments[..place].iter().any(|first| key(&first.row) == key(row) && first.row == *row) {
                // The second of two that are the same: the first is the new one.
                PaymentCreated::Same
            } else {
                PaymentCreated::Conflict
            });
        }
        Ok(created)
    }

    /// Those that were inserted, and whom each is like.
    async fn insert_payments(&mut self, payments: &[NewPayment]) -> StoreResult<Inserted> {
        let query = sqlx::query(CREATE)
            .bind(array(payments, |new| new.row.merchant_id.0))
            .bind(array(payments, |new| new.row.payment_id.0))
            .bind(array(payments, |new| new.row.payin_source.as_str()))
            .bind(array(payments, |new| new.row.payin_reference.as_str()))
            .bind(array(payments, |new| new.row.standing.state.as_str()))
            .bind(array(payments, |new| new.row.standing.reason.map(Reason::as_str)))
            .bind(array(payments, |new| new.row.standing.blocked.map(Blocked::as_str)))
            .bind(array(payments, |new| new.row.standing.provider.as_ref().map(ProviderName::as_str)))
            .bind(array(payments, |new| At(new.row.created_at)))
            .bind(array(payments, |new| At(new.row.standing.changed_at)))
            .bind(array(payments, |new| new.row.standing.due_at.map(At)))
            .bind(array(payments, |new| new.row.standing.is_open()))
            .bind(array(payments, |new| new.row.request.as_str()))
            .bind(array(payments, |new| new.row.standing.progress.as_str()))
            .bind(array(payments, |new| new.likeness.0))
            .bind(signed(Likeness::WITHIN.as_secs()));
        let rows = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        let alike = |row| Ok(column::<Option<Uuid>>(row, 2)?.map(PaymentId));
        rows.iter().map(|row| Ok((ids(row)?, alike(row)?))).collect()
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
