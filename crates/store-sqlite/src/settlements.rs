//! Completed settlements, their slices and their internal pricing.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use settle_domain::ids::{MerchantId, SettlementId};
use settle_domain::money::Decimal;
use settle_domain::page::PageRequest;
use settle_domain::pricing::InternalPricing;
use settle_domain::settlement::{Record, RecordPage};
use settle_store::slices::{
    self, SLICE_ROWS_MAX, SLICE_ROWS_MIN, SLICES_WALKED_MAX, SliceMemory, SlicedList, Slices, Start,
};
use settle_store::{
    Content, MerchantLock, NewSettlement, RecordedBatch, SettlementBatch, SettlementReads, SettlementWrites,
    StoreError, StoreResult,
};
use uuid::Uuid;

use crate::convert::{column, hex, id, json_rows, number, signed, text};
use crate::error::store_error;
use crate::query::Query;
use crate::{SqliteStore, SqliteTx};

/// Room for a record that is longer than the page's first, and for its comma.
const RECORD_SPREAD: usize = 16;

settle_store::statements! {
    // One statement gives one snapshot: a row with the total, then the page. SQLite skips rows in the index
    // alone. Differs because here a row costs less than joining it to the others in SQL.
    hot PAGE = "
        SELECT settlements AS total, NULL AS record FROM merchant_counts WHERE merchant_id = ?1
        UNION ALL
        SELECT * FROM (
            SELECT NULL, record FROM settlements WHERE merchant_id = ?1 AND list_key < ?2
            ORDER BY list_key DESC LIMIT ?3 + 0 OFFSET ?4 + 0
        )";
    cold "an operator's" UNCHECKED = "
        SELECT settlement_id FROM settlements
        WHERE merchant_id = ?1 AND origin = 1 AND settlement_id > ?2 ORDER BY settlement_id LIMIT ?3 + 0";
    hot SLICES = "
        SELECT settlements, NULL AS from_key FROM merchant_counts WHERE merchant_id = ?1
        UNION ALL
        SELECT * FROM (
            SELECT settlements, from_key FROM settlement_slices
            WHERE merchant_id = ?1 ORDER BY from_key DESC LIMIT ?2 + 0
        )";
    hot INSERT = "
        INSERT INTO settlements (merchant_id, settlement_id, list_key, record, origin, payin_reference)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (merchant_id, settlement_id) DO NOTHING";
    hot INSERT_PRICING = "
        INSERT INTO settlement_pricing
            (merchant_id, settlement_id, provider_rate, spread_revenue, partner_commission)
        VALUES (?1, ?2, ?3, ?4, ?5)
        ON CONFLICT DO NOTHING";
    hot FIND_STORED = "
        SELECT s.merchant_id, s.settlement_id, s.record,
               p.provider_rate, p.spread_revenue, p.partner_commission
        FROM jsonb_each(?1) AS row
        CROSS JOIN settlements AS s
            ON s.merchant_id = unhex(row.value ->> 0) AND s.settlement_id = unhex(row.value ->> 1)
        LEFT JOIN settlement_pricing AS p
            ON p.merchant_id = s.merchant_id AND p.settlement_id = s.settlement_id";
    hot FIND_PAYMENTS = "
        SELECT p.merchant_id, unhex(row.value ->> 1) AS settlement_id
        FROM jsonb_each(?1) AS row
        CROSS JOIN payments AS p
            ON p.merchant_id = unhex(row.value ->> 0) AND p.payment_id = unhex(row.value ->> 2)";
    // Differs because here one statement for all rows would make a temporary table for each group.
    hot FIND_SLICE = "
        SELECT from_key, settlements FROM settlement_slices
        WHERE merchant_id = ?1 AND from_key <= ?2 ORDER BY from_key DESC LIMIT 1";
    hot COUNT_SLICE = "
        UPDATE settlement_slices SET settlements = settlements + ?3 WHERE merchant_id = ?1 AND from_key = ?2";
    // Cuts one slice into parts of ?3 rows; the last part, number ?4, also takes the remainder.
    hot CUT_SLICE = "
        INSERT INTO settlement_slices (merchant_id, from_key, settlements)
        SELECT ?1, CASE WHEN part = 0 THEN ?2 ELSE min(list_key) END, count(*) FROM (
            SELECT list_key, min((row_number() OVER (ORDER BY list_key) - 1) / ?3, ?4) AS part
            FROM settlements
            WHERE merchant_id = ?1 AND list_key >= ?2 AND list_key < coalesce(
                (SELECT min(from_key) FROM settlement_slices WHERE merchant_id = ?1 AND from_key > ?2),
                -- Above every key.
                x'ffffffffffffffff'
            )
        ) GROUP BY part
        ON CONFLICT (merchant_id, from_key) DO UPDATE SET settlements = excluded.settlements";
}

#[async_trait]
impl SettlementReads for SqliteStore {
    async fn settlement_page(&self, merchant: MerchantId, page: PageRequest) -> StoreResult<RecordPage> {
        slices::page(self, merchant, page).await
    }

    async fn settlement_unchecked(
        &self,
        merchant: MerchantId,
        after: Option<SettlementId>,
        limit: u32,
    ) -> StoreResult<Vec<SettlementId>> {
        // No settlement has an empty id.
        let after = after.map_or_else(Vec::new, |after| after.0.as_bytes().to_vec());
        let asked = params![merchant.0, after, signed(limit)];
        self.connections.read(|connection| connection.rows(UNCHECKED, asked, |row| id(row, 0, SettlementId)))
    }
}

#[async_trait]
impl SlicedList for SqliteStore {
    fn memory(&self) -> &SliceMemory {
        &self.slices
    }

    async fn slices_read(&self, merchant: MerchantId) -> StoreResult<Slices> {
        let asked = params![merchant.0, signed(SLICES_WALKED_MAX)];
        let rows = self.connections.read(|connection| {
            connection.rows(SLICES, asked, |row| Ok((column::<Option<_>>(row, 1)?, number(row, 0)?)))
        })?;
        let mut rows = rows.into_iter();
        let (_, total) = rows.next().ok_or(StoreError::UnknownMerchant(merchant))?;
        Ok(Slices::new(total, rows.filter_map(|(from_key, rows)| Some((from_key?, rows))).collect()))
    }

    async fn page_from(&self, merchant: MerchantId, start: Start<'_>, limit: u32) -> StoreResult<RecordPage> {
        let read = |connection: &Connection| {
            let asked = params![merchant.0, start.below, signed(limit), signed(start.rest)];
            let mut page: Option<RecordPage> = None;
            connection.rows(PAGE, asked, |row| {
                match &mut page {
                    None => page = Some(RecordPage { records: String::new(), total: number(row, 0)? }),
                    Some(page) => append(&mut page.records, text(row, 1)?, page.total.min(limit.into())),
                }
                Ok(())
            })?;
            Ok(page)
        };
        let page = self.connections.read_page(start.rest, read).await?;
        page.ok_or(StoreError::UnknownMerchant(merchant))
    }
}

#[async_trait]
impl SettlementWrites for SqliteTx {
    async fn settlement_record_many(
        &mut self,
        lock: &MerchantLock,
        settlements: &[NewSettlement],
    ) -> StoreResult<RecordedBatch> {
        self.number.check(lock, settlements.iter().map(|settlement| settlement.merchant_id))?;
        let batch = SettlementBatch::new(settlements);
        let is_new = self.insert(&batch.unique).await?;
        let (mut new, mut known) = (Vec::with_capacity(batch.unique.len()), Vec::new());
        for (row, is_new) in batch.unique.into_iter().zip(is_new) {
            if is_new { new.push(row) } else { known.push(row) }
        }
        let stored = self.stored(&known)?;
        let staged = self.staged_verdict(&new, None)?;
        self.insert_pricing(&new).await?;
        self.count(&new).await?;
        let mut conflicting = batch.conflicting;
        for row in known {
            let key = (row.merchant_id, row.settlement_id);
            if !stored.get(&key).is_some_and(|content| row.has_content(content)) {
                conflicting.push(key);
            }
        }
        conflicting.extend(staged.conflicting);
        let payments = self.in_the_way_of_payments(&new)?;
        conflicting.extend(&payments);
        let recorded = new.iter().map(|row| (row.merchant_id, row.settlement_id)).collect();
        Ok(RecordedBatch { recorded, conflicting, payments, reserved: staged.reserved })
    }
}

/// Appends a record to the page; the first one makes room for as many as there may be.
fn append(records: &mut String, record: &str, rows: u64) {
    if records.is_empty() {
        let rows = usize::try_from(rows).unwrap_or_default();
        records.reserve(rows.saturating_mul(record.len() + RECORD_SPREAD));
    } else {
        // Records are JSON, and joined by commas they are the page.
        records.push(',');
    }
    records.push_str(record);
}

/// Stored settlements by their keys.
pub(crate) type Stored = HashMap<(MerchantId, SettlementId), Content>;

/// A slice that has grown too long.
struct Slice {
    merchant: Uuid,
    from_key: Vec<u8>,
    settlements: u64,
}

impl SqliteTx {
    /// Inserts the settlements that are not stored yet, and says which those are.
    async fn insert(&mut self, rows: &[&NewSettlement]) -> StoreResult<Vec<bool>> {
        let rows = rows.iter().map(|row| {
            let list_key = row.list_key.as_bytes().as_slice();
            let (merchant, settlement, record) =
                (row.merchant_id.0, row.settlement_id.0, row.record.as_str());
            (merchant, settlement, list_key, record, row.origin.number(), row.recorded_payin())
        });
        self.writer.change_each(INSERT, rows).await
    }

    async fn insert_pricing(&mut self, rows: &[&NewSettlement]) -> StoreResult<()> {
        let priced = rows.iter().filter_map(|row| Some((row, row.pricing.as_ref()?)));
        let rows = priced.map(|(row, pricing)| {
            let InternalPricing { provider_rate, spread_revenue, partner_commission } = pricing;
            let amounts = [provider_rate, spread_revenue, partner_commission].map(Decimal::to_string);
            let [provider_rate, spread_revenue, partner_commission] = amounts;
            (row.merchant_id.0, row.settlement_id.0, provider_rate, spread_revenue, partner_commission)
        });
        self.writer.change_each(INSERT_PRICING, rows).await?;
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
        let keys = new.iter().map(|row| (row.merchant_id.0, row.list_key.as_bytes().as_slice()));
        let slice = |row: &Row<'_>| Ok((column::<Vec<u8>>(row, 0)?, number(row, 1)?));
        let found = self.writer.row_each(FIND_SLICE, keys, slice).await?;
        // How many rows each slice has, and how many more.
        let mut slices: BTreeMap<(Uuid, Vec<u8>), (u64, u32)> = BTreeMap::new();
        for (row, found) in new.iter().zip(found) {
            let missing = || StoreError::unexpected(format!("merchant {} has no slices", row.merchant_id));
            let (from_key, settlements) = found.ok_or_else(missing)?;
            slices.entry((row.merchant_id.0, from_key)).or_insert((settlements, 0)).1 += 1;
        }
        let counted = slices.iter().map(|((merchant, from_key), (_, added))| (merchant, from_key, added));
        self.writer.change_each(COUNT_SLICE, counted).await?;
        let long = slices.into_iter().filter_map(|((merchant, from_key), (settlements, added))| {
            let settlements = settlements + u64::from(added);
            (settlements > SLICE_ROWS_MAX.into()).then_some(Slice { merchant, from_key, settlements })
        });
        let long: Vec<Slice> = long.collect();
        for slice in &long {
            self.cut_slice(slice)?;
            // Every merchant of a batch may have a slice to cut.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Happens at most once in [`SLICE_ROWS_MIN`] rows, which share its cost.
    fn cut_slice(&self, slice: &Slice) -> StoreResult<()> {
        let last_part = signed(slice.settlements / u64::from(SLICE_ROWS_MIN) - 1);
        let cut = params![slice.merchant, slice.from_key, signed(SLICE_ROWS_MIN), last_part];
        self.writer.connection()?.change(CUT_SLICE, cut).map_err(store_error)?;
        Ok(())
    }

    /// Those of the given settlements whose id or pay-in is a payment's. Asks only for merchants that have
    /// had payments.
    pub(crate) fn in_the_way_of_payments(
        &self,
        rows: &[&NewSettlement],
    ) -> StoreResult<Vec<(MerchantId, SettlementId)>> {
        let marked = self.payments.marked(rows);
        if marked.is_empty() {
            return Ok(Vec::new());
        }
        let keys = marked.iter().flat_map(|row| {
            let key = (hex(row.merchant_id.0), hex(row.settlement_id.0));
            row.payment_ids().into_iter().map(move |payment| (key.0, key.1, hex(payment.0)))
        });
        let mut found = self.writer.connection()?.rows(FIND_PAYMENTS, [json_rows(keys)], ids)?;
        found.dedup();
        Ok(found)
    }

    /// Those of the given settlements that are stored, with their content.
    pub(crate) fn stored(&self, rows: &[&NewSettlement]) -> StoreResult<Stored> {
        if rows.is_empty() {
            return Ok(Stored::new());
        }
        let keys = json_rows(rows.iter().map(|row| (hex(row.merchant_id.0), hex(row.settlement_id.0))));
        let stored = self.writer.connection()?.rows(FIND_STORED, [keys], |row| {
            Ok((ids(row)?, (Record::from_stored(column(row, "record")?), stored_pricing(row)?)))
        })?;
        Ok(stored.into_iter().collect())
    }
}

pub(crate) fn ids(row: &Row<'_>) -> StoreResult<(MerchantId, SettlementId)> {
    Ok((id(row, "merchant_id", MerchantId)?, id(row, "settlement_id", SettlementId)?))
}

pub(crate) fn stored_pricing(row: &Row<'_>) -> StoreResult<Option<InternalPricing>> {
    let decimal = |name: &str| -> StoreResult<Option<Decimal>> {
        let text: Option<String> = column(row, name)?;
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
