//! Imports under way, and the rows that they have staged.

use async_trait::async_trait;
use rusqlite::{Row, params};
use settle_domain::ids::{ImportId, MerchantId, SettlementId};
use settle_domain::money::Decimal;
use settle_domain::settlement::Record;
use settle_domain::time::Timestamp;
use settle_store::{
    IMPORTS_MAX, Import, ImportReads, ImportState, ImportStep, ImportWrites, ListKey, MerchantLock,
    NewSettlement, SettlementBatch, StagedBatch, StagedRow, StagedVerdict, StoreError, StoreResult,
    rows_by_merchant, stored_origin,
};

use crate::convert::{column, hex, id, json_rows, number, signed, time};
use crate::error::store_error;
use crate::query::Query;
use crate::settlements::{ids, stored_pricing};
use crate::{SqliteStore, SqliteTx};

settle_store::statements! {
    cold "a task's, every second; a row for each import under way" LIST = "
        SELECT import_id, notifies, state, alive_at, waiting, recorded, notified FROM imports
        ORDER BY import_id";
    cold "a command begins an import" BEGIN = "
        INSERT INTO imports (import_id, notifies, state, alive_at)
        SELECT ?1, ?2, 'staging', ?3 WHERE (SELECT count(*) FROM imports) < ?4 + 0";
    // Whoever records a settlement of a merchant with staged rows waits for it. Imports are few.
    hot FIND_STAGED = "
        SELECT r.merchant_id, r.settlement_id, r.import_id, unfinished.state, r.record,
               r.provider_rate, r.spread_revenue, r.partner_commission
        FROM jsonb_each(?1) AS row
        CROSS JOIN imports AS unfinished
        CROSS JOIN import_rows AS r
            ON r.import_id = unfinished.import_id AND r.merchant_id = unhex(row.value ->> 0)
           AND r.settlement_id = unhex(row.value ->> 1)
        WHERE unfinished.state IN ('staging', 'accepted')";
    hot INSERT_ROW = "
        INSERT INTO import_rows (import_id, merchant_id, settlement_id, list_key, record,
                                 provider_rate, spread_revenue, partner_commission, origin, payin_reference)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    hot GROW = "
        UPDATE imports SET waiting = waiting + ?2, alive_at = ?3 WHERE import_id = ?1 AND state = 'staging'";
    hot COUNT_STAGED = "
        UPDATE merchant_counts SET settlements_staged = settlements_staged + ?2 WHERE merchant_id = ?1";
    hot ACCEPT = "
        UPDATE imports SET state = iif(waiting = 0, 'done', 'accepted'), alive_at = ?3
        WHERE import_id = ?1 AND waiting = ?2 AND state = 'staging'";
    hot DISCARD = "
        UPDATE imports SET state = 'discarded', alive_at = ?2 WHERE import_id = ?1 AND state = 'staging'";
    hot ROWS = "
        SELECT merchant_id, settlement_id, list_key, record,
               provider_rate, spread_revenue, partner_commission, origin, payin_reference
        FROM import_rows WHERE import_id = ?1 AND (merchant_id, settlement_id) > (?2, ?3)
        ORDER BY merchant_id, settlement_id LIMIT ?4 + 0";
    hot TAKE = "
        DELETE FROM import_rows WHERE import_id = ?1 AND merchant_id = ?2 AND settlement_id = ?3";
    hot COUNT_STEP = "
        UPDATE imports
        SET waiting = waiting - ?2, recorded = recorded + ?3, notified = notified + ?4, alive_at = ?5,
            state = iif(state = 'accepted' AND waiting = ?2, 'done', state)
        WHERE import_id = ?1
        RETURNING import_id, notifies, state, alive_at, waiting, recorded, notified";
    hot ADOPT = "UPDATE imports SET alive_at = ?3 WHERE import_id = ?1 AND alive_at = ?2";
    hot FORGET = "
        DELETE FROM imports WHERE import_id = ?1 AND waiting = 0 AND state IN ('done', 'discarded')";
}

#[async_trait]
impl ImportReads for SqliteStore {
    async fn import_list(&self) -> StoreResult<Vec<Import>> {
        self.connections.read(|connection| connection.rows(LIST, [], import))
    }

    async fn import_rows(
        &self,
        import: ImportId,
        after: Option<(MerchantId, SettlementId)>,
        limit: u32,
    ) -> StoreResult<Vec<NewSettlement>> {
        // No merchant has this id.
        let (merchant, settlement) = after.unwrap_or((MerchantId::NIL, SettlementId::NIL));
        let asked = params![import.0, merchant.0, settlement.0, signed(limit)];
        self.connections.read(|connection| connection.rows(ROWS, asked, staged_settlement))
    }
}

#[async_trait]
impl ImportWrites for SqliteTx {
    async fn import_begin(&mut self, import: ImportId, notifies: bool, at: Timestamp) -> StoreResult<bool> {
        let new = params![import.0, notifies, at.as_micros(), signed(IMPORTS_MAX)];
        self.changes(BEGIN, new)
    }

    async fn import_stage(
        &mut self,
        lock: &MerchantLock,
        import: ImportId,
        settlements: &[NewSettlement],
        at: Timestamp,
    ) -> StoreResult<Option<StagedBatch>> {
        self.number.check(lock, settlements.iter().map(|settlement| settlement.merchant_id))?;
        let mut batch = SettlementBatch::new(settlements);
        batch.leave_out_stored(&self.stored(&batch.unique)?);
        let SettlementBatch { mut unique, mut conflicting } = batch;
        let verdict = self.staged_verdict(&unique, Some(import))?;
        conflicting.extend(verdict.conflicting);
        let payments = self.in_the_way_of_payments(&unique)?;
        conflicting.extend(&payments);
        let reserved = verdict.reserved;
        if !conflicting.is_empty() || !reserved.is_empty() {
            return Ok(Some(StagedBatch { staged: 0, conflicting, payments, reserved }));
        }
        unique.retain(|row| !verdict.own.contains(&(row.merchant_id, row.settlement_id)));
        if !self.changes(GROW, params![import.0, signed(unique.len() as u64), at.as_micros()])? {
            return Ok(None);
        }
        self.insert_staged(import, &unique).await?;
        Ok(Some(StagedBatch { staged: unique.len(), ..StagedBatch::default() }))
    }

    async fn import_accept(&mut self, import: ImportId, waiting: u64, at: Timestamp) -> StoreResult<bool> {
        self.changes(ACCEPT, params![import.0, signed(waiting), at.as_micros()])
    }

    async fn import_discard(&mut self, import: ImportId, at: Timestamp) -> StoreResult<bool> {
        self.changes(DISCARD, params![import.0, at.as_micros()])
    }

    async fn import_take(
        &mut self,
        lock: &MerchantLock,
        import: ImportId,
        rows: Vec<NewSettlement>,
    ) -> StoreResult<Vec<NewSettlement>> {
        self.number.check(lock, rows.iter().map(|row| row.merchant_id))?;
        let keys = rows.iter().map(|row| (import.0, row.merchant_id.0, row.settlement_id.0));
        let was_there = self.writer.change_each(TAKE, keys).await?;
        let taken = rows.into_iter().zip(was_there).filter_map(|(row, was_there)| was_there.then_some(row));
        let taken: Vec<NewSettlement> = taken.collect();
        let numbers = rows_by_merchant(taken.iter().map(|row| row.merchant_id));
        self.count_staged(numbers.into_iter().map(|(merchant, number)| (merchant, -number))).await?;
        Ok(taken)
    }

    async fn import_count(
        &mut self,
        import_id: ImportId,
        step: ImportStep,
        at: Timestamp,
    ) -> StoreResult<Option<Import>> {
        let ImportStep { taken, recorded, notified } = step;
        let step = params![import_id.0, signed(taken), signed(recorded), signed(notified), at.as_micros()];
        self.writer.connection()?.row(COUNT_STEP, step, import)
    }

    async fn import_adopt(
        &mut self,
        import: ImportId,
        alive_at: Timestamp,
        at: Timestamp,
    ) -> StoreResult<bool> {
        self.changes(ADOPT, params![import.0, alive_at.as_micros(), at.as_micros()])
    }

    async fn import_forget(&mut self, import: ImportId) -> StoreResult<()> {
        self.changes(FORGET, [import.0]).map(|_| ())
    }
}

impl SqliteTx {
    /// What staged rows mean for these settlements. Asks only for merchants that have any.
    pub(crate) fn staged_verdict(
        &self,
        rows: &[&NewSettlement],
        own: Option<ImportId>,
    ) -> StoreResult<StagedVerdict> {
        let marked = self.imports.marked(rows);
        if marked.is_empty() {
            return Ok(StagedVerdict::default());
        }
        let keys = json_rows(marked.iter().map(|row| (hex(row.merchant_id.0), hex(row.settlement_id.0))));
        let staged = self.writer.connection()?.rows(FIND_STAGED, [keys], |row| {
            let state: String = column(row, "state")?;
            Ok(StagedRow {
                import_id: id(row, "import_id", ImportId)?,
                state: ImportState::from_stored(&state)?,
                key: ids(row)?,
                content: (Record::from_stored(column(row, "record")?), stored_pricing(row)?),
            })
        })?;
        Ok(StagedVerdict::of(&marked, &staged, own))
    }

    async fn insert_staged(&mut self, import: ImportId, rows: &[&NewSettlement]) -> StoreResult<()> {
        let numbers = rows_by_merchant(rows.iter().map(|row| row.merchant_id));
        let rows = rows.iter().map(|row| {
            let list_key = row.list_key.as_bytes().as_slice();
            let pricing = row.pricing.as_ref();
            let text = |amount: Decimal| amount.to_string();
            (
                import.0,
                row.merchant_id.0,
                row.settlement_id.0,
                list_key,
                row.record.as_str(),
                pricing.map(|pricing| text(pricing.provider_rate)),
                pricing.map(|pricing| text(pricing.spread_revenue)),
                pricing.map(|pricing| text(pricing.partner_commission)),
                row.origin.number(),
                row.payin_reference.as_str(),
            )
        });
        self.writer.change_each(INSERT_ROW, rows).await?;
        self.count_staged(numbers.into_iter()).await
    }

    /// So many more staged rows, by merchant. Whoever takes some has no more use for the merchant's marks:
    /// what it took is in conflict with no other row and no payment.
    async fn count_staged(&mut self, numbers: impl Iterator<Item = (MerchantId, i64)>) -> StoreResult<()> {
        let numbers: Vec<(MerchantId, i64)> = numbers.collect();
        for (merchant, number) in &numbers {
            self.imports.remember(*merchant, *number);
            if *number < 0 {
                self.payments.remember(*merchant, false);
            }
        }
        let rows = numbers.into_iter().map(|(merchant, number)| (merchant.0, number));
        if self.writer.change_each(COUNT_STAGED, rows).await?.contains(&false) {
            return Err(StoreError::unexpected("staged rows of a merchant that was not locked"));
        }
        Ok(())
    }

    /// Whether a statement changed a row.
    fn changes(&self, sql: &str, params: impl rusqlite::Params) -> StoreResult<bool> {
        Ok(self.writer.connection()?.change(sql, params).map_err(store_error)? > 0)
    }
}

fn import(row: &Row<'_>) -> StoreResult<Import> {
    let state: String = column(row, "state")?;
    Ok(Import {
        import_id: id(row, "import_id", ImportId)?,
        notifies: column(row, "notifies")?,
        state: ImportState::from_stored(&state)?,
        alive_at: time(row, "alive_at")?,
        waiting: number(row, "waiting")?,
        recorded: number(row, "recorded")?,
        notified: number(row, "notified")?,
    })
}

fn staged_settlement(row: &Row<'_>) -> StoreResult<NewSettlement> {
    let (merchant_id, settlement_id) = ids(row)?;
    Ok(NewSettlement {
        merchant_id,
        settlement_id,
        list_key: ListKey::from_stored(column(row, "list_key")?),
        record: Record::from_stored(column(row, "record")?),
        pricing: stored_pricing(row)?,
        payin_reference: column(row, "payin_reference")?,
        origin: stored_origin(column(row, "origin")?)?,
    })
}
