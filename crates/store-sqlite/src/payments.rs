//! Payments, their queue and their timeline.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use rusqlite::{Row, params};
use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::payment::{Flag, Likeness};
use settle_domain::provider::ProviderName;
use settle_domain::reason::{Blocked, Reason};
use settle_domain::time::Timestamp;
use settle_store::{
    DueMerchant, DueTime, LOOKED_AT_MAX, MerchantLock, NewPayment, PaymentAsk, PaymentChange, PaymentClaims,
    PaymentCreated, PaymentReads, PaymentRow, PaymentStanding, PaymentWrites, Shard, StepRow, StoreError,
    StoreResult,
};

use crate::convert::{
    column, hex, id, json_merchants, json_rows, number, optional_parsed, optional_time, parsed, signed, time,
};
use crate::error::store_error;
use crate::query::Query;
use crate::{SqliteStore, SqliteTx};

/// Payments after which a claim yields to other tasks.
const CLAIMED_AT_ONCE: u32 = 64;

settle_store::statements! {
    hot DUE = "
        SELECT merchant_id, next_due_at FROM json_each(?1) AS asked
        CROSS JOIN payment_queues ON shard = asked.value AND next_due_at <= ?2
        WHERE merchant_id NOT IN (SELECT unhex(value) FROM json_each(?3))
        UNION ALL
        SELECT merchant_id, next_due_at FROM json_each(?1) AS asked
        CROSS JOIN payment_queues ON shard = asked.value AND next_due_at > ?5
        WHERE merchant_id NOT IN (SELECT unhex(value) FROM json_each(?3))
        LIMIT ?4 + 0";
    // Differs because SQLite has no lateral joins, and its limits cannot come from a row: one statement asks
    // for those merchants of which the same number of payments is wanted.
    hot CLAIM = "
        SELECT due.merchant_id, due.payment_id, payin_source, payin_reference, state, version, reason, blocked,
               provider, created_at, changed_at, due_at, request, progress
        FROM json_each(?1) AS asked
        CROSS JOIN payments AS due
            ON due.merchant_id = unhex(asked.value) AND due.payment_id IN (
                SELECT payment_id FROM (
                    SELECT payment_id FROM payments INDEXED BY payments_open
                    WHERE merchant_id = unhex(asked.value) AND is_open AND due_at <= ?3
                      AND payment_id NOT IN (SELECT unhex(value) FROM json_each(?4))
                    ORDER BY due_at, payment_id LIMIT ?2 + 0
                )
                UNION ALL
                SELECT payment_id FROM (
                    SELECT payment_id FROM payments INDEXED BY payments_open
                    WHERE merchant_id = unhex(asked.value) AND is_open AND due_at > ?5
                      AND payment_id NOT IN (SELECT unhex(value) FROM json_each(?4))
                    ORDER BY due_at, payment_id LIMIT ?2 + 0
                )
                LIMIT ?2 + 0
            )";
    // Of merchants with payments of providers that have no place for more. A payment that has no provider yet
    // will ask the one that its corridor names now.
    hot CLAIM_WITHOUT = "
        SELECT merchant_id, payment_id, payin_source, payin_reference, state, version, reason, blocked,
               provider, created_at, changed_at, due_at, request, progress
        FROM payments
        WHERE merchant_id = ?1 AND payment_id IN (
            SELECT payment_id FROM (
                SELECT payment_id, provider AS served_by, request AS given
                FROM payments INDEXED BY payments_open
                WHERE merchant_id = ?1 AND is_open AND due_at <= ?3
                  AND payment_id NOT IN (SELECT unhex(value) FROM json_each(?4))
                ORDER BY due_at, payment_id LIMIT ?5 + 0
            )
            WHERE instr(?6, ',' || coalesce(served_by, (
                SELECT provider FROM corridors
                WHERE merchant_id = ?1
                  AND incoming = CASE WHEN json_valid(given) THEN given ->> 'incoming_currency' END
                  AND outgoing = CASE WHEN json_valid(given) THEN given ->> 'outgoing_currency' END
                ORDER BY version DESC LIMIT 1
            ), '') || ',') = 0
            LIMIT ?2 + 0
        )";
    hot FIND = "
        SELECT merchant_id, payment_id, payin_source, payin_reference, state, version, reason, blocked,
               provider, created_at, changed_at, due_at, request, progress
        FROM payments WHERE merchant_id = ?1 AND payment_id = ?2";
    cold "an operator's" STEPS = "
        SELECT p.merchant_id, p.payment_id, s.number, s.at, s.step
        FROM payments AS p CROSS JOIN payment_steps AS s ON s.payment_number = p.number
        WHERE p.merchant_id = ?1 AND p.payment_id = ?2 ORDER BY s.number";
    hot PRICING_OF_MANY = "
        SELECT p.payment_id, own.pricing
        FROM json_each(?1) AS asked
        CROSS JOIN payments AS p
            ON p.merchant_id = unhex(asked.value ->> 0) AND p.payment_id = unhex(asked.value ->> 1)
        CROSS JOIN payment_pricing AS own ON own.payment_number = p.number";
    hot CREATE = "
        INSERT INTO payments (merchant_id, payment_id, payin_source, payin_reference, state, version, reason,
                              blocked, provider, created_at, changed_at, due_at, is_open, request, progress,
                              likeness)
        VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
        ON CONFLICT DO NOTHING";
    hot ALIKE = "
        SELECT payment_id FROM payments INDEXED BY payments_alike
        WHERE merchant_id = ?1 AND created_at / 86400000000 IN (?4 / 86400000000, ?4 / 86400000000 - 1)
          AND likeness = ?3 AND created_at > ?4 - ?5 AND payment_id <> ?2
        LIMIT 1";
    hot IS_RECORDED = "
        SELECT 1 FROM settlements WHERE merchant_id = ?1 AND settlement_id = ?2
        UNION ALL
        SELECT 1 FROM settlements
        WHERE merchant_id = ?1 AND coalesce(payin_reference, record ->> 'payin_reference') = ?3 AND origin <> 2
        LIMIT 1";
    hot IS_STAGED = "
        SELECT 1 FROM imports AS unfinished
        CROSS JOIN import_rows AS r
            ON r.import_id = unfinished.import_id AND r.merchant_id = ?1 AND r.settlement_id = ?2
        WHERE unfinished.state IN ('staging', 'accepted')
        UNION ALL
        SELECT 1 FROM import_rows AS r
        CROSS JOIN imports AS unfinished
            ON unfinished.import_id = r.import_id AND unfinished.state IN ('staging', 'accepted')
        WHERE r.merchant_id = ?1 AND r.payin_reference = ?3
        LIMIT 1";
    hot MARK = "UPDATE merchant_counts SET has_payments = 1 WHERE merchant_id = ?1";
    hot SAME = "
        SELECT request = ?5 AND payin_source = ?3 AND payin_reference = ?4 FROM payments
        WHERE merchant_id = ?1 AND payment_id = ?2";
    hot CHANGE = "
        UPDATE payments
        SET version = version + 1, state = ?4, reason = ?5, blocked = ?6, provider = ?7, changed_at = ?8,
            due_at = ?9, is_open = ?10, progress = ?11, flag = ?12
        WHERE merchant_id = ?1 AND payment_id = ?2 AND version = ?3";
    hot STEP = "
        INSERT INTO payment_steps (payment_number, number, at, step)
        VALUES ((SELECT number FROM payments WHERE merchant_id = ?1 AND payment_id = ?2), ?3, ?4, ?5)";
    // Differs because a row without its number would be given one here, which a payment may get later.
    hot PRICE = "
        INSERT INTO payment_pricing (payment_number, pricing)
        SELECT number, ?3 FROM payments WHERE merchant_id = ?1 AND payment_id = ?2
        ON CONFLICT (payment_number) DO UPDATE SET pricing = excluded.pricing";
    hot QUEUE = "
        INSERT INTO payment_queues (merchant_id, next_due_at) VALUES (?1, ?2)
        ON CONFLICT (merchant_id) DO UPDATE SET next_due_at = excluded.next_due_at
        WHERE payment_queues.next_due_at IS NULL OR payment_queues.next_due_at > excluded.next_due_at";
    hot REFRESH = "
        UPDATE payment_queues SET next_due_at = (
            SELECT due_at FROM payments INDEXED BY payments_open
            WHERE merchant_id = ?1 AND is_open AND due_at IS NOT NULL ORDER BY due_at LIMIT 1)
        WHERE merchant_id = ?1";
}

#[async_trait]
impl PaymentReads for SqliteStore {
    async fn payment_due(
        &self,
        shards: &[Shard],
        due: DueTime,
        known: &[MerchantId],
        limit: u32,
    ) -> StoreResult<Vec<DueMerchant>> {
        let (shards, known) = (json_rows(shards.iter().map(|shard| shard.0)), json_merchants(known));
        let due = params![shards, due.by.as_micros(), known, signed(limit), due.beyond.as_micros()];
        let merchant =
            |row: &Row<'_>| Ok(DueMerchant { merchant_id: id(row, 0, MerchantId)?, due_at: time(row, 1)? });
        self.connections.read(|connection| connection.rows(DUE, due, merchant))
    }

    async fn payment_claim(
        &self,
        asks: &[PaymentAsk],
        taken: &[(MerchantId, PaymentId)],
        due: DueTime,
    ) -> StoreResult<PaymentClaims> {
        let mut by_number: BTreeMap<u32, Vec<MerchantId>> = BTreeMap::new();
        let (whole, without): (Vec<_>, Vec<_>) = asks.iter().partition(|ask| ask.without.is_empty());
        for ask in whole {
            by_number.entry(ask.number).or_default().push(ask.merchant_id);
        }
        let mut taken_of: HashMap<MerchantId, Vec<PaymentId>> = HashMap::new();
        for (merchant, payment) in taken {
            taken_of.entry(*merchant).or_default().push(*payment);
        }
        let mut claims = PaymentClaims::default();
        let claimed = |row: &Row<'_>| Ok((id(row, 0, MerchantId)?, id(row, 1, PaymentId)?, payment(row)));
        for (number, merchants) in by_number {
            let at_once = usize::try_from(CLAIMED_AT_ONCE / number.max(1)).unwrap_or(1).max(1);
            for merchants in merchants.chunks(at_once) {
                let (by, beyond) = (due.by.as_micros(), due.beyond.as_micros());
                // Each statement builds a table of what is left out.
                let taken = merchants.iter().filter_map(|merchant| taken_of.get(merchant)).flatten();
                let taken = json_rows(taken.map(|payment| hex(payment.0)));
                let asked = (json_merchants(merchants), signed(number), by, taken, beyond);
                let found = self.connections.read(|connection| connection.rows(CLAIM, asked, claimed))?;
                for (merchant, payment, row) in found {
                    claims.add(merchant, payment, row);
                }
                tokio::task::yield_now().await;
            }
        }
        for ask in without {
            let taken = json_rows(taken_of.get(&ask.merchant_id).into_iter().flatten().map(|id| hex(id.0)));
            let (by, limit) = (due.by.as_micros(), signed(LOOKED_AT_MAX));
            let asked = (ask.merchant_id.0, signed(ask.number), by, taken, limit, ask.without_listed());
            let found = self.connections.read(|connection| connection.rows(CLAIM_WITHOUT, asked, claimed))?;
            for (merchant, payment, row) in found {
                claims.add(merchant, payment, row);
            }
            tokio::task::yield_now().await;
        }
        // SQLite returns the rows of a merchant in the order of their ids, not of their due times.
        claims.found.sort_by_key(|row| (row.standing.due_at, row.payment_id));
        Ok(claims)
    }

    async fn payment_find(
        &self,
        merchant: MerchantId,
        payment_id: PaymentId,
    ) -> StoreResult<Option<PaymentRow>> {
        let asked = [merchant.0, payment_id.0];
        self.connections.read(|connection| connection.row(FIND, asked, payment))
    }

    async fn payment_steps(&self, merchant: MerchantId, payment: PaymentId) -> StoreResult<Vec<StepRow>> {
        self.connections.read(|connection| connection.rows(STEPS, [merchant.0, payment.0], step))
    }

    async fn payment_pricing_of_many(
        &self,
        payments: &[(MerchantId, PaymentId)],
    ) -> StoreResult<Vec<(PaymentId, String)>> {
        let asked = json_rows(payments.iter().map(|(merchant, payment)| (hex(merchant.0), hex(payment.0))));
        let pricing = |row: &Row<'_>| Ok((id(row, 0, PaymentId)?, column(row, 1)?));
        self.connections.read(|connection| connection.rows(PRICING_OF_MANY, [asked], pricing))
    }
}

#[async_trait]
impl PaymentWrites for SqliteTx {
    async fn payment_create_many(
        &mut self,
        lock: &MerchantLock,
        payments: &[NewPayment],
    ) -> StoreResult<Vec<PaymentCreated>> {
        self.number.check(lock, payments.iter().map(|new| new.row.merchant_id))?;
        let mut created = Vec::with_capacity(payments.len());
        for new in payments {
            created.push(self.create(new)?);
        }
        let new = payments.iter().zip(&created).filter(|(_, created)| created.is_new());
        let dues: Vec<_> = new.map(|(new, _)| (new.row.merchant_id, new.row.standing.due_at)).collect();
        self.mark(dues.iter().map(|(merchant, _)| *merchant)).await?;
        self.draw_forward(dues.into_iter()).await?;
        Ok(created)
    }

    async fn payment_change_many(
        &mut self,
        lock: &MerchantLock,
        changes: &[PaymentChange],
    ) -> StoreResult<Vec<bool>> {
        self.number.check(lock, changes.iter().map(|change| change.merchant_id))?;
        let rows = changes.iter().map(|change| {
            let standing = &change.standing;
            (
                change.merchant_id.0,
                change.payment_id.0,
                signed(change.seen),
                standing.state.as_str(),
                standing.reason.map(Reason::as_str),
                standing.blocked.map(Blocked::as_str),
                standing.provider.as_ref().map(ProviderName::as_str),
                standing.changed_at.as_micros(),
                standing.due_at.map(Timestamp::as_micros),
                standing.is_open(),
                &standing.progress,
                change.flag.map(Flag::as_str),
            )
        });
        let applied = self.writer.change_each(CHANGE, rows).await?;
        let due = changes.iter().zip(&applied).filter(|(_, applied)| **applied);
        let dues: Vec<_> = due.map(|(change, _)| (change.merchant_id, change.standing.due_at)).collect();
        self.draw_forward(dues.into_iter()).await?;
        Ok(applied)
    }

    async fn payment_step_many(&mut self, lock: &MerchantLock, steps: &[StepRow]) -> StoreResult<()> {
        self.number.check(lock, steps.iter().map(|step| step.merchant_id))?;
        let rows = steps.iter().map(|step| {
            (step.merchant_id.0, step.payment_id.0, step.number, step.at.as_micros(), &step.step)
        });
        self.writer.change_each(STEP, rows).await?;
        Ok(())
    }

    async fn payment_price_many(
        &mut self,
        lock: &MerchantLock,
        pricing: &[(MerchantId, PaymentId, String)],
    ) -> StoreResult<()> {
        self.number.check(lock, pricing.iter().map(|(merchant, _, _)| *merchant))?;
        let rows = pricing.iter().map(|(merchant, payment, pricing)| (merchant.0, payment.0, pricing));
        if self.writer.change_each(PRICE, rows).await?.contains(&false) {
            return Err(StoreError::unexpected("the pricing of a payment that is not there"));
        }
        Ok(())
    }

    async fn payment_refresh(&mut self, lock: &MerchantLock, merchants: &[MerchantId]) -> StoreResult<()> {
        self.number.check(lock, merchants.iter().copied())?;
        self.writer.change_each(REFRESH, merchants.iter().map(|merchant| [merchant.0])).await?;
        Ok(())
    }
}

impl SqliteTx {
    fn create(&mut self, NewPayment { row, likeness }: &NewPayment) -> StoreResult<PaymentCreated> {
        let connection = self.writer.connection()?;
        let (merchant, payment, standing) = (row.merchant_id.0, row.payment_id.0, &row.standing);
        let given = params![
            merchant,
            payment,
            row.payin_source,
            row.payin_reference,
            standing.state.as_str(),
            standing.reason.map(Reason::as_str),
            standing.blocked.map(Blocked::as_str),
            standing.provider.as_ref().map(ProviderName::as_str),
            row.created_at.as_micros(),
            standing.changed_at.as_micros(),
            standing.due_at.map(Timestamp::as_micros),
            standing.is_open(),
            row.request,
            standing.progress,
            likeness.0
        ];
        if connection.change(CREATE, given).map_err(store_error)? > 0 {
            let asked = params![merchant, payment, row.reference_by_hand()];
            let mut is_recorded = connection.row(IS_RECORDED, asked, |_| Ok(()))?.is_some();
            if !is_recorded && self.imports.has(row.merchant_id) {
                is_recorded = connection.row(IS_STAGED, asked, |_| Ok(()))?.is_some();
            }
            if is_recorded {
                return Ok(PaymentCreated::Conflict);
            }
            let within = i64::try_from(Likeness::WITHIN.as_micros()).unwrap_or(i64::MAX);
            let asked = params![merchant, payment, likeness.0, row.created_at.as_micros(), within];
            let alike = connection.row(ALIKE, asked, |row| id(row, 0, PaymentId))?;
            return Ok(alike.map_or(PaymentCreated::New, PaymentCreated::NewAlike));
        }
        let asked = params![merchant, payment, row.payin_source, row.payin_reference, row.request];
        let same = connection.row(SAME, asked, |row| column(row, 0))?;
        Ok(if same == Some(true) { PaymentCreated::Same } else { PaymentCreated::Conflict })
    }

    /// From now on these merchants have had payments.
    async fn mark(&mut self, merchants: impl Iterator<Item = MerchantId>) -> StoreResult<()> {
        let unmarked = self.payments.unmarked(merchants);
        for merchant in &unmarked {
            self.payments.remember(*merchant, true);
        }
        self.writer.change_each(MARK, unmarked.iter().map(|merchant| [merchant.0])).await?;
        Ok(())
    }

    /// Merchants are due no later than their payments.
    async fn draw_forward(
        &mut self,
        dues: impl Iterator<Item = (MerchantId, Option<Timestamp>)>,
    ) -> StoreResult<()> {
        let mut first: BTreeMap<MerchantId, Timestamp> = BTreeMap::new();
        for (merchant, due_at) in dues {
            if let Some(due_at) = due_at {
                first.entry(merchant).and_modify(|first| *first = (*first).min(due_at)).or_insert(due_at);
            }
        }
        let rows = first.into_iter().map(|(merchant, due_at)| (merchant.0, due_at.as_micros()));
        self.writer.change_each(QUEUE, rows).await?;
        Ok(())
    }
}

pub(crate) fn step(row: &Row<'_>) -> StoreResult<StepRow> {
    Ok(StepRow {
        merchant_id: id(row, 0, MerchantId)?,
        payment_id: id(row, 1, PaymentId)?,
        number: column(row, 2)?,
        at: time(row, 3)?,
        step: column(row, 4)?,
    })
}

pub(crate) fn payment(row: &Row<'_>) -> StoreResult<PaymentRow> {
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
