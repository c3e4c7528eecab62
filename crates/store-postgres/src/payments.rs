//! Payments, their queue and their timeline.

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::payment::Flag;
use settle_domain::provider::ProviderName;
use settle_domain::reason::{Blocked, Reason};
use settle_domain::time::Timestamp;
use settle_store::{
    DueMerchant, DueTime, LOOKED_AT_MAX, MerchantLock, NewPayment, PaymentAsk, PaymentChange, PaymentClaims,
    PaymentCreated, PaymentReads, PaymentRow, PaymentStanding, PaymentWrites, Shard, StepRow, StoreError,
    StoreResult,
};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::convert::{
    At, array, column, id, merchant_array, number, optional_parsed, optional_time, parsed, signed, small,
    time,
};
use crate::error::store_error;
use crate::{PostgresStore, PostgresTx};

pub(crate) mod creation;

settle_store::statements! {
    hot DUE = "
        SELECT due.merchant_id, due.next_due_at FROM unnest($1::smallint[]) AS asked (shard)
        CROSS JOIN LATERAL (
            (SELECT merchant_id, next_due_at FROM payment_queues
             WHERE shard = asked.shard AND next_due_at <= $2
               AND merchant_id NOT IN (SELECT unnest($3::uuid[]))
             ORDER BY next_due_at LIMIT $4)
            UNION ALL
            (SELECT merchant_id, next_due_at FROM payment_queues
             WHERE shard = asked.shard AND next_due_at > $5
               AND merchant_id NOT IN (SELECT unnest($3::uuid[]))
             ORDER BY next_due_at LIMIT $4)
        ) AS due
        LIMIT $4";
    // Starts at the merchant's `next_due_at`: earlier in the index are only entries of rows that have changed
    // since and are not vacuumed yet.
    hot CLAIM = "
        SELECT asked.merchant_id, due.*
        FROM unnest($1::uuid[], $2::bigint[]) AS asked (merchant_id, number)
        CROSS JOIN LATERAL (
            SELECT next_due_at FROM payment_queues WHERE merchant_id = asked.merchant_id LIMIT 1
        ) AS queue
        CROSS JOIN LATERAL (
            (SELECT payment_id, payin_source, payin_reference, state, version, reason, blocked, provider,
                    created_at, changed_at, due_at, request, progress
             FROM payments
             WHERE merchant_id = asked.merchant_id AND is_open AND due_at <= $3 AND due_at >= queue.next_due_at
               AND payment_id NOT IN (SELECT unnest($4::uuid[]))
             ORDER BY due_at, payment_id LIMIT asked.number)
            UNION ALL
            (SELECT payment_id, payin_source, payin_reference, state, version, reason, blocked, provider,
                    created_at, changed_at, due_at, request, progress
             FROM payments
             WHERE merchant_id = asked.merchant_id AND is_open AND due_at > $5
               AND payment_id NOT IN (SELECT unnest($4::uuid[]))
             ORDER BY due_at, payment_id LIMIT asked.number)
            LIMIT asked.number
        ) AS due";
    // Of merchants with payments of providers that have no place for more. A payment that has no provider yet
    // will ask the one that its corridor names now: its currencies are cut out of the request's text, as the
    // request may be no JSON, without a pattern, which would take twenty times as long.
    hot CLAIM_WITHOUT = "
        SELECT asked.merchant_id, due.*
        FROM unnest($1::uuid[], $2::bigint[], $5::text[]) AS asked (merchant_id, number, without)
        CROSS JOIN LATERAL (
            SELECT next_due_at FROM payment_queues WHERE merchant_id = asked.merchant_id LIMIT 1
        ) AS queue
        CROSS JOIN LATERAL (
            SELECT payment_id, payin_source, payin_reference, state, version, reason, blocked, provider,
                   created_at, changed_at, due_at, request, progress
            FROM (
                SELECT * FROM payments
                WHERE merchant_id = asked.merchant_id AND is_open AND due_at <= $3
                  AND due_at >= queue.next_due_at AND payment_id NOT IN (SELECT unnest($4::uuid[]))
                ORDER BY due_at, payment_id LIMIT $6
            ) AS looked_at
            WHERE strpos(asked.without, ',' || coalesce(provider, (
                SELECT c.provider FROM corridors AS c
                WHERE c.merchant_id = asked.merchant_id
                  AND c.incoming = split_part(split_part(request, '\"incoming_currency\"', 2), '\"', 2)
                  AND c.outgoing = split_part(split_part(request, '\"outgoing_currency\"', 2), '\"', 2)
                ORDER BY c.version DESC LIMIT 1
            ), '') || ',') = 0
            ORDER BY due_at, payment_id LIMIT asked.number
        ) AS due";
    hot FIND = "
        SELECT merchant_id, payment_id, payin_source, payin_reference, state, version, reason, blocked,
               provider, created_at, changed_at, due_at, request, progress
        FROM payments WHERE merchant_id = $1 AND payment_id = $2";
    cold "an operator's" STEPS = "
        SELECT p.merchant_id, p.payment_id, s.number, s.at, s.step
        FROM payments AS p
        JOIN payment_steps AS s ON s.merchant_id = p.merchant_id AND s.payment_number = p.number
        WHERE p.merchant_id = $1 AND p.payment_id = $2 ORDER BY s.number";
    hot PRICING_OF_MANY = "
        SELECT asked.payment_id, own.pricing
        FROM unnest($1::uuid[], $2::uuid[]) AS asked (merchant_id, payment_id)
        CROSS JOIN LATERAL (
            SELECT number FROM payments
            WHERE merchant_id = asked.merchant_id AND payment_id = asked.payment_id LIMIT 1
        ) AS p
        CROSS JOIN LATERAL (
            SELECT pricing FROM payment_pricing
            WHERE merchant_id = asked.merchant_id AND payment_number = p.number LIMIT 1
        ) AS own";
    // With what QUEUE does: every step of a payment would pay for another round trip.
    hot CHANGE = "
        WITH changed AS (
            UPDATE payments
            SET version = payments.version + 1, state = row.state, reason = row.reason, blocked = row.blocked,
                provider = row.provider, changed_at = row.changed_at, due_at = row.due_at,
                is_open = row.is_open, progress = row.progress, flag = row.flag
            FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[],
                        $8::timestamptz[], $9::timestamptz[], $10::boolean[], $11::text[], $12::text[])
                AS row (merchant_id, payment_id, seen, state, reason, blocked, provider, changed_at, due_at,
                        is_open, progress, flag)
            WHERE payments.merchant_id = row.merchant_id AND payments.payment_id = row.payment_id
              AND payments.version = row.seen
            RETURNING payments.merchant_id, payments.payment_id, payments.due_at
        ), drawn_forward AS (
            INSERT INTO payment_queues (merchant_id, next_due_at)
            SELECT merchant_id, min(due_at) FROM changed WHERE due_at IS NOT NULL GROUP BY merchant_id
            ON CONFLICT (merchant_id) DO UPDATE SET next_due_at = excluded.next_due_at
            WHERE payment_queues.next_due_at IS NULL OR payment_queues.next_due_at > excluded.next_due_at
        )
        SELECT merchant_id, payment_id FROM changed";
    // A payment that is not there has no number, which no row may lack.
    hot STEP = "
        INSERT INTO payment_steps (merchant_id, payment_number, number, at, step)
        SELECT merchant_id,
               (SELECT p.number FROM payments AS p
                WHERE p.merchant_id = row.merchant_id AND p.payment_id = row.payment_id),
               number, at, step
        FROM unnest($1::uuid[], $2::uuid[], $3::integer[], $4::timestamptz[], $5::text[])
            AS row (merchant_id, payment_id, number, at, step)";
    hot PRICE = "
        INSERT INTO payment_pricing (merchant_id, payment_number, pricing)
        SELECT merchant_id,
               (SELECT p.number FROM payments AS p
                WHERE p.merchant_id = row.merchant_id AND p.payment_id = row.payment_id),
               pricing
        FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS row (merchant_id, payment_id, pricing)
        ON CONFLICT (merchant_id, payment_number) DO UPDATE SET pricing = excluded.pricing";
    hot QUEUE = "
        INSERT INTO payment_queues (merchant_id, next_due_at)
        SELECT * FROM unnest($1::uuid[], $2::timestamptz[])
        ON CONFLICT (merchant_id) DO UPDATE SET next_due_at = excluded.next_due_at
        WHERE payment_queues.next_due_at IS NULL OR payment_queues.next_due_at > excluded.next_due_at";
    hot REFRESH = "
        UPDATE payment_queues SET next_due_at = first.due_at
        FROM unnest($1::uuid[]) AS asked (merchant_id)
        CROSS JOIN LATERAL (
            SELECT next_due_at FROM payment_queues WHERE merchant_id = asked.merchant_id LIMIT 1
        ) AS queue
        LEFT JOIN LATERAL (
            SELECT due_at FROM payments
            WHERE merchant_id = asked.merchant_id AND is_open AND due_at >= queue.next_due_at
            ORDER BY due_at LIMIT 1
        ) AS first ON true
        WHERE payment_queues.merchant_id = asked.merchant_id";
}

#[async_trait]
impl PaymentReads for PostgresStore {
    async fn payment_due(
        &self,
        shards: &[Shard],
        due: DueTime,
        known: &[MerchantId],
        limit: u32,
    ) -> StoreResult<Vec<DueMerchant>> {
        let query = sqlx::query(DUE)
            .bind(array(shards, |shard| shard.0))
            .bind(At(due.by))
            .bind(merchant_array(known))
            .bind(signed(limit))
            .bind(At(due.beyond));
        let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
        let merchant = |row| Ok(DueMerchant { merchant_id: id(row, 0, MerchantId)?, due_at: time(row, 1)? });
        rows.iter().map(merchant).collect()
    }

    async fn payment_claim(
        &self,
        asks: &[PaymentAsk],
        taken: &[(MerchantId, PaymentId)],
        due: DueTime,
    ) -> StoreResult<PaymentClaims> {
        let (whole, without): (Vec<_>, Vec<_>) = asks.iter().partition(|ask| ask.without.is_empty());
        let asked = |statement, asks: &[&PaymentAsk]| {
            sqlx::query(statement)
                .bind(array(asks, |ask| ask.merchant_id.0))
                .bind(array(asks, |ask| signed(ask.number)))
                .bind(At(due.by))
                .bind(array(taken, |(_, payment)| payment.0))
        };
        let mut rows = Vec::new();
        if !whole.is_empty() {
            let query = asked(CLAIM, &whole).bind(At(due.beyond));
            rows.extend(query.fetch_all(&self.pool).await.map_err(store_error)?);
        }
        if !without.is_empty() {
            let query = asked(CLAIM_WITHOUT, &without)
                .bind(array(&without, |ask| ask.without_listed()))
                .bind(signed(LOOKED_AT_MAX));
            rows.extend(query.fetch_all(&self.pool).await.map_err(store_error)?);
        }
        let mut claims = PaymentClaims::default();
        for row in &rows {
            let (merchant, payment_id) = ids(row)?;
            claims.add(merchant, payment_id, payment(row));
        }
        Ok(claims)
    }

    async fn payment_find(
        &self,
        merchant: MerchantId,
        payment_id: PaymentId,
    ) -> StoreResult<Option<PaymentRow>> {
        let query = sqlx::query(FIND).bind(merchant.0).bind(payment_id.0);
        let row = query.fetch_optional(&self.pool).await.map_err(store_error)?;
        row.as_ref().map(payment).transpose()
    }

    async fn payment_steps(&self, merchant: MerchantId, payment: PaymentId) -> StoreResult<Vec<StepRow>> {
        let query = sqlx::query(STEPS).bind(merchant.0).bind(payment.0);
        let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(step).collect()
    }

    async fn payment_pricing_of_many(
        &self,
        payments: &[(MerchantId, PaymentId)],
    ) -> StoreResult<Vec<(PaymentId, String)>> {
        let query = sqlx::query(PRICING_OF_MANY)
            .bind(array(payments, |(merchant, _)| merchant.0))
            .bind(array(payments, |(_, payment)| payment.0));
        let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(|row| Ok((id(row, 0, PaymentId)?, column(row, 1)?))).collect()
    }
}

#[async_trait]
impl PaymentWrites for PostgresTx {
    async fn payment_create_many(
        &mut self,
        lock: &MerchantLock,
        payments: &[NewPayment],
    ) -> StoreResult<Vec<PaymentCreated>> {
        self.number.check(lock, payments.iter().map(|new| new.row.merchant_id))?;
        let created = self.create_payments(payments).await?;
        let fresh = payments.iter().zip(&created).filter(|(_, created)| created.is_new());
        let dues: Vec<_> = fresh.map(|(new, _)| (new.row.merchant_id, new.row.standing.due_at)).collect();
        self.mark(dues.iter().map(|(merchant, _)| *merchant)).await?;
        self.draw_forward(&dues).await?;
        Ok(created)
    }

    async fn payment_change_many(
        &mut self,
        lock: &MerchantLock,
        changes: &[PaymentChange],
    ) -> StoreResult<Vec<bool>> {
        self.number.check(lock, changes.iter().map(|change| change.merchant_id))?;
        // A statement changes a row once, and does not say by which of several changes.
        let key = |change: &PaymentChange| (change.merchant_id, change.payment_id);
        let mut named = HashSet::new();
        let firsts: Vec<&PaymentChange> = changes.iter().filter(|change| named.insert(key(change))).collect();
        let mut written = self.change_firsts(&firsts).await?;
        Ok(changes.iter().map(|change| written.remove(&key(change))).collect())
    }

    async fn payment_step_many(&mut self, lock: &MerchantLock, steps: &[StepRow]) -> StoreResult<()> {
        self.number.check(lock, steps.iter().map(|step| step.merchant_id))?;
        let query = sqlx::query(STEP)
            .bind(array(steps, |step| step.merchant_id.0))
            .bind(array(steps, |step| step.payment_id.0))
            .bind(array(steps, |step| small(step.number)))
            .bind(array(steps, |step| At(step.at)))
            .bind(array(steps, |step| step.step.as_str()));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }

    async fn payment_price_many(
        &mut self,
        lock: &MerchantLock,
        pricing: &[(MerchantId, PaymentId, String)],
    ) -> StoreResult<()> {
        self.number.check(lock, pricing.iter().map(|(merchant, _, _)| *merchant))?;
        let query = sqlx::query(PRICE)
            .bind(array(pricing, |(merchant, _, _)| merchant.0))
            .bind(array(pricing, |(_, payment, _)| payment.0))
            .bind(array(pricing, |(_, _, pricing)| pricing.as_str()));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }

    async fn payment_refresh(&mut self, lock: &MerchantLock, merchants: &[MerchantId]) -> StoreResult<()> {
        self.number.check(lock, merchants.iter().copied())?;
        let query = sqlx::query(REFRESH).bind(merchant_array(merchants));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }
}

impl PostgresTx {
    /// Changes payments, each named once; says which had the version that was seen.
    async fn change_firsts(
        &mut self,
        changes: &[&PaymentChange],
    ) -> StoreResult<HashSet<(MerchantId, PaymentId)>> {
        let query = sqlx::query(CHANGE)
            .bind(array(changes, |change| change.merchant_id.0))
            .bind(array(changes, |change| change.payment_id.0))
            .bind(array(changes, |change| signed(change.seen)))
            .bind(array(changes, |change| change.standing.state.as_str()))
            .bind(array(changes, |change| change.standing.reason.map(Reason::as_str)))
            .bind(array(changes, |change| change.standing.blocked.map(Blocked::as_str)))
            .bind(array(changes, |change| change.standing.provider.as_ref().map(ProviderName::as_str)))
            .bind(array(changes, |change| At(change.standing.changed_at)))
            .bind(array(changes, |change| change.standing.due_at.map(At)))
            .bind(array(changes, |change| change.standing.is_open()))
            .bind(array(changes, |change| change.standing.progress.as_str()))
            .bind(array(changes, |change| change.flag.map(Flag::as_str)));
        let rows = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        rows.iter().map(ids).collect()
    }

    /// Merchants are due no later than their payments.
    async fn draw_forward(&mut self, dues: &[(MerchantId, Option<Timestamp>)]) -> StoreResult<()> {
        let mut first: BTreeMap<MerchantId, Timestamp> = BTreeMap::new();
        for (merchant, due_at) in dues {
            if let Some(due_at) = *due_at {
                first.entry(*merchant).and_modify(|first| *first = (*first).min(due_at)).or_insert(due_at);
            }
        }
        if first.is_empty() {
            return Ok(());
        }
        let (merchants, times): (Vec<Uuid>, Vec<At>) =
            first.into_iter().map(|(merchant, due_at)| (merchant.0, At(due_at))).unzip();
        let query = sqlx::query(QUEUE).bind(merchants).bind(times);
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }
}

fn ids(row: &PgRow) -> StoreResult<(MerchantId, PaymentId)> {
    Ok((id(row, 0, MerchantId)?, id(row, 1, PaymentId)?))
}

pub(crate) fn step(row: &PgRow) -> StoreResult<StepRow> {
    let step_number: i32 = column(row, 2)?;
    Ok(StepRow {
        merchant_id: id(row, 0, MerchantId)?,
        payment_id: id(row, 1, PaymentId)?,
        number: step_number.unsigned_abs(),
        at: time(row, 3)?,
        step: column(row, 4)?,
    })
}

pub(crate) fn payment(row: &PgRow) -> Result<PaymentRow, StoreError> {
    Ok(PaymentRow {
        merchant_id: id(row, 0, MerchantId)?,
        payment_id: id(row, 1, PaymentId)?,
        payin_source: column(row, 2)?,
        payin_reference: column(row, 3)?,
        version: number(row, 5)?,
        created_at: time(row, 9)?,
        request: column(row, 12)?,
        standing: PaymentStanding {
            state: parsed(row, 4)?,
            reason: optional_parsed(row, 6)?,
            blocked: optional_parsed(row, 7)?,
            provider: optional_parsed(row, 8)?,
            changed_at: time(row, 10)?,
            due_at: optional_time(row, 11)?,
            progress: column(row, 13)?,
        },
    })
}
