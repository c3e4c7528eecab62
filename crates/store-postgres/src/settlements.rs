//! Completed settlements, their slices and their internal pricing.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use settle_domain::ids::{MerchantId, PaymentId, SettlementId};
use settle_domain::money::Decimal;
use settle_domain::page::PageRequest;
use settle_domain::pricing::InternalPricing;
use settle_domain::settlement::{Record, RecordPage};
use settle_store::slices::{
    self, SLICE_ROWS_MAX, SLICE_ROWS_MIN, SLICES_WALKED_MAX, SliceMemory, SlicedList, Slices, Start,
};
use settle_store::{
    Content, MerchantLock, NewSettlement, PaymentRow, RecordedBatch, SettlementBatch, SettlementReads,
    SettlementWrites, StoreError, StoreResult,
};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::convert::{array, column, id, number, signed};
use crate::error::store_error;
use crate::{PostgresStore, PostgresTx};

settle_store::statements! {
    // One statement gives one snapshot for the total and the page. Records are JSON, and joined by commas
    // they are the page.
    hot PAGE = "
        SELECT settlements AS total, (
            SELECT string_agg(record, ',') FROM (
                SELECT record::text FROM settlements WHERE merchant_id = $1 AND list_key < $2
                ORDER BY list_key DESC LIMIT $3 OFFSET $4
            ) AS page
        ) AS records
        FROM merchant_counts WHERE merchant_id = $1";
    cold "an operator's" UNCHECKED = "
        SELECT settlement_id FROM settlements
        WHERE merchant_id = $1 AND origin = 1 AND ($2::uuid IS NULL OR settlement_id > $2)
        ORDER BY settlement_id LIMIT $3";
    hot SLICES = "
        SELECT settlements, NULL::bytea AS from_key FROM merchant_counts WHERE merchant_id = $1
        UNION ALL
        SELECT settlements, from_key FROM (
            SELECT settlements, from_key FROM settlement_slices
            WHERE merchant_id = $1 ORDER BY from_key DESC LIMIT $2
        ) AS newest";
    hot INSERT = "
        INSERT INTO settlements (merchant_id, settlement_id, list_key, record, origin, payin_reference)
        SELECT merchant_id, settlement_id, list_key, record::json, origin, payin_reference
        FROM unnest($1::uuid[], $2::uuid[], $3::bytea[], $4::text[], $5::smallint[], $6::text[])
            AS row (merchant_id, settlement_id, list_key, record, origin, payin_reference)
        ON CONFLICT (merchant_id, settlement_id) DO NOTHING
        RETURNING merchant_id, settlement_id";
    hot INSERT_PRICING = "
        INSERT INTO settlement_pricing
            (merchant_id, settlement_id, provider_rate, spread_revenue, partner_commission)
        SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[])
        ON CONFLICT DO NOTHING";
    // Each row is looked up on its own: where the planner expects none, a plain join would walk all
    // settlements.
    hot FIND_STORED = "
        SELECT s.merchant_id, s.settlement_id, s.record::text AS record,
               p.provider_rate, p.spread_revenue, p.partner_commission
        FROM unnest($1::uuid[], $2::uuid[]) AS row (merchant_id, settlement_id)
        CROSS JOIN LATERAL (
            SELECT merchant_id, settlement_id, record FROM settlements
            WHERE merchant_id = row.merchant_id AND settlement_id = row.settlement_id LIMIT 1
        ) AS s
        LEFT JOIN LATERAL (
            SELECT provider_rate, spread_revenue, partner_commission FROM settlement_pricing
            WHERE merchant_id = row.merchant_id AND settlement_id = row.settlement_id LIMIT 1
        ) AS p ON true";
    hot FIND_PAYMENTS = "
        SELECT p.merchant_id, row.settlement_id
        FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS row (merchant_id, settlement_id, payment_id)
        JOIN payments AS p USING (merchant_id, payment_id)";
    hot ARE_RECORDED = "
        SELECT row.merchant_id, row.payment_id
        FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS row (merchant_id, payment_id, reference)
        CROSS JOIN LATERAL (
            (SELECT 1 FROM settlements AS s
             WHERE s.merchant_id = row.merchant_id AND s.settlement_id = row.payment_id LIMIT 1)
            UNION ALL
            (SELECT 1 FROM settlements AS s
             WHERE s.merchant_id = row.merchant_id AND s.origin <> 2
               AND coalesce(s.payin_reference, s.record ->> 'payin_reference') = row.reference LIMIT 1)
        ) AS found";
    // A staged row is found by its own key first: planned on an empty table, a plain join would walk the
    // whole import instead. Only the index of references can find a pair of reference and merchant.
    hot ARE_STAGED = "
        SELECT row.merchant_id, row.payment_id
        FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS row (merchant_id, payment_id, reference)
        CROSS JOIN LATERAL (
            (SELECT 1 FROM imports AS unfinished
             CROSS JOIN LATERAL (
                SELECT 1 FROM import_rows AS r
                WHERE r.import_id = unfinished.import_id AND r.merchant_id = row.merchant_id
                  AND r.settlement_id = row.payment_id
                LIMIT 1
             ) AS staged
             WHERE unfinished.state IN ('staging', 'accepted') LIMIT 1)
            UNION ALL
            (SELECT 1 FROM (
                SELECT r.import_id FROM import_rows AS r
                WHERE (r.payin_reference, r.merchant_id) >= (row.reference, row.merchant_id)
                  AND (r.payin_reference, r.merchant_id) <= (row.reference, row.merchant_id)
                OFFSET 0
             ) AS staged
             JOIN imports AS unfinished ON unfinished.import_id = staged.import_id
             WHERE unfinished.state IN ('staging', 'accepted') LIMIT 1)
        ) AS found";
    hot MARK = "UPDATE merchant_counts SET has_payments = true WHERE merchant_id = ANY ($1)";
    // The merchants are locked: their slices stay in their places.
    hot COUNT_SLICES = "
        UPDATE settlement_slices SET settlements = settlement_slices.settlements + added.number
        FROM (
            SELECT slice.place, count(*) AS number
            FROM unnest($1::uuid[], $2::bytea[]) AS row (merchant_id, list_key)
            CROSS JOIN LATERAL (
                SELECT ctid AS place FROM settlement_slices
                WHERE merchant_id = row.merchant_id AND from_key <= row.list_key
                ORDER BY from_key DESC LIMIT 1
            ) AS slice
            GROUP BY slice.place
        ) AS added
        WHERE settlement_slices.ctid = added.place
        RETURNING settlement_slices.merchant_id, settlement_slices.from_key, settlement_slices.settlements,
                  added.number";
    // Cuts one slice into parts of $3 rows; the last part, number $4, also takes the remainder. Differs
    // because PostgreSQL has no min() of bytea: the statement finds the first row of a part by its position.
    hot CUT_SLICE = "
        INSERT INTO settlement_slices (merchant_id, from_key, settlements)
        SELECT $1, CASE WHEN part = 0 THEN $2 ELSE list_key END, settlements FROM (
            SELECT list_key, position, part, count(*) OVER (PARTITION BY part) AS settlements FROM (
                SELECT list_key, position, least(position / $3, $4) AS part FROM (
                    SELECT list_key, row_number() OVER (ORDER BY list_key) - 1 AS position
                    FROM settlements
                    WHERE merchant_id = $1 AND list_key >= $2 AND list_key < coalesce(
                        (SELECT from_key FROM settlement_slices
                         WHERE merchant_id = $1 AND from_key > $2 ORDER BY from_key LIMIT 1),
                        -- Above every key: no time starts with eight set bits.
                        '\\xffffffffffffffff'::bytea
                    )
                ) AS placed
            ) AS parts
        ) AS counted
        WHERE position = part * $3
        ON CONFLICT (merchant_id, from_key) DO UPDATE SET settlements = excluded.settlements";
}

#[async_trait]
impl SettlementReads for PostgresStore {
    async fn settlement_page(&self, merchant: MerchantId, page: PageRequest) -> StoreResult<RecordPage> {
        slices::page(self, merchant, page).await
    }

    async fn settlement_unchecked(
        &self,
        merchant: MerchantId,
        after: Option<SettlementId>,
        limit: u32,
    ) -> StoreResult<Vec<SettlementId>> {
        let query = sqlx::query(UNCHECKED).bind(merchant.0).bind(after.map(|after| after.0));
        let rows = query.bind(signed(limit)).fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(|row| id(row, 0, SettlementId)).collect()
    }
}

#[async_trait]
impl SlicedList for PostgresStore {
    fn memory(&self) -> &SliceMemory {
        &self.slices
    }

    async fn slices_read(&self, merchant: MerchantId) -> StoreResult<Slices> {
        let query = sqlx::query(SLICES).bind(merchant.0).bind(signed(SLICES_WALKED_MAX));
        let rows = query.fetch_all(self.pool.lists_of(merchant)).await.map_err(store_error)?;
        let (first, slices) = rows.split_first().ok_or(StoreError::UnknownMerchant(merchant))?;
        let slice = |row| Ok((column(row, "from_key")?, number(row, "settlements")?));
        Ok(Slices::new(number(first, "settlements")?, slices.iter().map(slice).collect::<StoreResult<_>>()?))
    }

    async fn page_from(&self, merchant: MerchantId, start: Start<'_>, limit: u32) -> StoreResult<RecordPage> {
        let query =
            sqlx::query(PAGE).bind(merchant.0).bind(start.below).bind(signed(limit)).bind(signed(start.rest));
        let row = query.fetch_optional(self.pool.lists_of(merchant)).await.map_err(store_error)?;
        let row = row.ok_or(StoreError::UnknownMerchant(merchant))?;
        let records: Option<String> = column(&row, "records")?;
        Ok(RecordPage { records: records.unwrap_or_default(), total: number(&row, "total")? })
    }
}

#[async_trait]
impl SettlementWrites for PostgresTx {
    async fn settlement_record_many(
        &mut self,
        lock: &MerchantLock,
        settlements: &[NewSettlement],
    ) -> StoreResult<RecordedBatch> {
        self.number.check(lock, settlements.iter().map(|settlement| settlement.merchant_id))?;
        let batch = SettlementBatch::new(settlements);
        let recorded = self.insert(&batch.unique).await?;
        let (new, known): (Vec<_>, Vec<_>) = batch
            .unique
            .into_iter()
            .partition(|row| recorded.contains(&(row.merchant_id, row.settlement_id)));
        let staged = self.staged_verdict(&new, None).await?;
        self.insert_pricing(&new).await?;
        self.count(&new).await?;
        let mut known = SettlementBatch { unique: known, conflicting: batch.conflicting };
        known.leave_out_stored(&self.stored(&known.unique).await?);
        let mut conflicting = known.conflicting;
        conflicting.extend(staged.conflicting);
        let payments = self.in_the_way_of_payments(&new).await?;
        conflicting.extend(&payments);
        let recorded = new.iter().map(|row| (row.merchant_id, row.settlement_id)).collect();
        Ok(RecordedBatch { recorded, conflicting, payments, reserved: staged.reserved })
    }
}

impl PostgresTx {
    async fn insert(&mut self, rows: &[&NewSettlement]) -> StoreResult<HashSet<(MerchantId, SettlementId)>> {
        let (merchants, settlements) = key_arrays(rows);
        let list_keys: Vec<&[u8]> = rows.iter().map(|row| row.list_key.as_bytes().as_slice()).collect();
        let records: Vec<&str> = rows.iter().map(|row| row.record.as_str()).collect();
        let origins: Vec<i16> = rows.iter().map(|row| row.origin.number()).collect();
        let query = sqlx::query(INSERT).bind(merchants).bind(settlements).bind(list_keys).bind(records);
        let payins: Vec<Option<&str>> = rows.iter().map(|row| row.recorded_payin()).collect();
        let query = query.bind(origins).bind(payins);
        let inserted = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        inserted.iter().map(ids).collect()
    }

    async fn insert_pricing(&mut self, rows: &[&NewSettlement]) -> StoreResult<()> {
        let (rows, pricing): (Vec<&NewSettlement>, Vec<&InternalPricing>) =
            rows.iter().filter_map(|row| Some((*row, row.pricing.as_ref()?))).unzip();
        if rows.is_empty() {
            return Ok(());
        }
        let (merchants, settlements) = key_arrays(&rows);
        let texts = |amount: fn(&InternalPricing) -> Decimal| -> Vec<String> {
            pricing.iter().map(|pricing| amount(pricing).to_string()).collect()
        };
        let query = sqlx::query(INSERT_PRICING)
            .bind(merchants)
            .bind(settlements)
            .bind(texts(|pricing| pricing.provider_rate))
            .bind(texts(|pricing| pricing.spread_revenue))
            .bind(texts(|pricing| pricing.partner_commission));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }

    /// Keeps the totals and the slices in step with the rows just inserted.
    async fn count(&mut self, new: &[&NewSettlement]) -> StoreResult<()> {
        if new.is_empty() {
            return Ok(());
        }
        for row in new {
            self.counts.of(row.merchant_id).settlements += 1;
        }
        let (merchants, _) = key_arrays(new);
        let list_keys: Vec<&[u8]> = new.iter().map(|row| row.list_key.as_bytes().as_slice()).collect();
        let query = sqlx::query(COUNT_SLICES).bind(merchants).bind(list_keys);
        let slices = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        let counted = slices.iter().map(|slice| number(slice, "number")).sum::<StoreResult<u64>>()?;
        if usize::try_from(counted) != Ok(new.len()) {
            return Err(StoreError::unexpected("a settlement is in no slice"));
        }
        for slice in &slices {
            let settlements = number(slice, "settlements")?;
            if settlements > SLICE_ROWS_MAX.into() {
                self.cut_slice(slice, settlements).await?;
            }
        }
        Ok(())
    }

    /// Happens at most once in [`SLICE_ROWS_MIN`] rows, which share its cost.
    async fn cut_slice(&mut self, slice: &PgRow, settlements: u64) -> StoreResult<()> {
        let merchant = id(slice, "merchant_id", MerchantId)?;
        let from_key: Vec<u8> = column(slice, "from_key")?;
        let last_part = signed(settlements / u64::from(SLICE_ROWS_MIN) - 1);
        let query = sqlx::query(CUT_SLICE)
            .bind(merchant.0)
            .bind(from_key)
            .bind(signed(SLICE_ROWS_MIN))
            .bind(last_part);
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }

    /// Those of the given settlements whose id or pay-in is a payment's. Asks only for merchants that have
    /// had payments.
    pub(crate) async fn in_the_way_of_payments(
        &mut self,
        rows: &[&NewSettlement],
    ) -> StoreResult<Vec<(MerchantId, SettlementId)>> {
        let marked = self.payments.marked(rows);
        if marked.is_empty() {
            return Ok(Vec::new());
        }
        let (mut merchants, mut settlements, mut payments) = (Vec::new(), Vec::new(), Vec::new());
        for row in marked {
            for payment in row.payment_ids() {
                merchants.push(row.merchant_id.0);
                settlements.push(row.settlement_id.0);
                payments.push(payment.0);
            }
        }
        let query = sqlx::query(FIND_PAYMENTS).bind(merchants).bind(settlements).bind(payments);
        let found = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        let found: HashSet<_> = found.iter().map(ids).collect::<StoreResult<_>>()?;
        Ok(found.into_iter().collect())
    }

    /// Those of whom a settlement with the same id or pay-in was recorded by hand, or staged by an import.
    /// Asks for staged ones only of merchants that have any.
    pub(crate) async fn recorded_by_hand(
        &mut self,
        payments: &[&PaymentRow],
    ) -> StoreResult<HashSet<(MerchantId, PaymentId)>> {
        let mut found = self.found_by_hand(ARE_RECORDED, payments).await?;
        let marked = |row: &&&PaymentRow| self.imports.has(row.merchant_id);
        let marked: Vec<&PaymentRow> = payments.iter().filter(marked).copied().collect();
        found.extend(self.found_by_hand(ARE_STAGED, &marked).await?);
        Ok(found)
    }

    async fn found_by_hand(
        &mut self,
        sql: &'static str,
        payments: &[&PaymentRow],
    ) -> StoreResult<HashSet<(MerchantId, PaymentId)>> {
        if payments.is_empty() {
            return Ok(HashSet::new());
        }
        let query = sqlx::query(sql)
            .bind(array(payments, |row| row.merchant_id.0))
            .bind(array(payments, |row| row.payment_id.0))
            .bind(array(payments, |row| row.reference_by_hand()));
        let rows = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        rows.iter().map(|row| Ok((id(row, 0, MerchantId)?, id(row, 1, PaymentId)?))).collect()
    }

    /// From now on these merchants have had payments.
    pub(crate) async fn mark(&mut self, merchants: impl Iterator<Item = MerchantId>) -> StoreResult<()> {
        let unmarked = self.payments.unmarked(merchants);
        if unmarked.is_empty() {
            return Ok(());
        }
        for merchant in &unmarked {
            self.payments.remember(*merchant, true);
        }
        let query = sqlx::query(MARK).bind(array(&unmarked, |merchant| merchant.0));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }

    /// Those of the given settlements that are stored, with their content.
    pub(crate) async fn stored(&mut self, rows: &[&NewSettlement]) -> StoreResult<Stored> {
        if rows.is_empty() {
            return Ok(Stored::new());
        }
        let (merchants, settlements) = key_arrays(rows);
        let query = sqlx::query(FIND_STORED).bind(merchants).bind(settlements);
        let stored = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        let stored = stored
            .iter()
            .map(|row| Ok((ids(row)?, (Record::from_stored(column(row, "record")?), stored_pricing(row)?))));
        stored.collect()
    }
}

/// Stored settlements by their keys.
pub(crate) type Stored = HashMap<(MerchantId, SettlementId), Content>;

/// The keys of a batch as two array arguments.
pub(crate) fn key_arrays(rows: &[&NewSettlement]) -> (Vec<Uuid>, Vec<Uuid>) {
    rows.iter().map(|row| (row.merchant_id.0, row.settlement_id.0)).unzip()
}

/// The first two columns.
pub(crate) fn ids(row: &PgRow) -> StoreResult<(MerchantId, SettlementId)> {
    Ok((id(row, 0, MerchantId)?, id(row, 1, SettlementId)?))
}

pub(crate) fn stored_pricing(row: &PgRow) -> StoreResult<Option<InternalPricing>> {
    let decimal = |name: &str| -> StoreResult<Option<Decimal>> {
        let text: Option<String> = row.try_get(name).map_err(store_error)?;
        text.map(|text| text.parse().map_err(|_| StoreError::unexpected(format!("{name} is not a decimal"))))
            .transpose()
    };
    let (provider_rate, spread_revenue) = (decimal("provider_rate")?, decimal("spread_revenue")?);
    let partner_commission = decimal("partner_commission")?;
    Ok(provider_rate.zip(spread_revenue).zip(partner_commission).map(
        |((provider_rate, spread_revenue), partner_commission)| InternalPricing {
            provider_rate,
            spread_revenue,
            partner_commission,
        },
    ))
}
