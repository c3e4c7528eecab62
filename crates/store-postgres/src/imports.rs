//! Imports under way, and the rows that they have staged.

use std::collections::HashSet;

use async_trait::async_trait;
use settle_domain::ids::{ImportId, MerchantId, SettlementId};
use settle_domain::money::Decimal;
use settle_domain::pricing::InternalPricing;
use settle_domain::settlement::Record;
use settle_domain::time::Timestamp;
use settle_store::{
    IMPORTS_MAX, Import, ImportReads, ImportState, ImportStep, ImportWrites, ListKey, MerchantLock,
    NewSettlement, SettlementBatch, StagedBatch, StagedRow, StagedVerdict, StoreError, StoreResult,
    rows_by_merchant, stored_origin,
};
use sqlx::Postgres;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;

use crate::convert::{At, array, column, id, number, signed, time};
use crate::error::store_error;
use crate::settlements::{ids, key_arrays, stored_pricing};
use crate::{PostgresStore, PostgresTx};

settle_store::statements! {
    cold "a task's, every second; a row for each import under way" LIST = "
        SELECT import_id, notifies, state, alive_at, waiting, recorded, notified FROM imports
        ORDER BY import_id";
    cold "a command begins an import" BEGIN = "
        INSERT INTO imports (import_id, notifies, state, alive_at)
        SELECT $1, $2, 'staging', $3 WHERE (SELECT count(*) FROM imports) < $4";
    // Whoever records a settlement of a merchant with staged rows waits for it. Imports are few, and each is
    // asked for the row by its whole key: planned on an empty table, a plain join would walk all staged rows
    // instead.
    hot FIND_STAGED = "
        SELECT r.merchant_id, r.settlement_id, r.import_id, unfinished.state, r.record,
               r.provider_rate, r.spread_revenue, r.partner_commission
        FROM unnest($1::uuid[], $2::uuid[]) AS row (merchant_id, settlement_id)
        CROSS JOIN imports AS unfinished
        CROSS JOIN LATERAL (
            SELECT * FROM import_rows
            WHERE import_id = unfinished.import_id AND merchant_id = row.merchant_id
              AND settlement_id = row.settlement_id
            LIMIT 1
        ) AS r
        WHERE unfinished.state IN ('staging', 'accepted')";
    hot INSERT_ROWS = "
        INSERT INTO import_rows (import_id, merchant_id, settlement_id, list_key, record,
                                 provider_rate, spread_revenue, partner_commission, origin, payin_reference)
        SELECT $1, row.* FROM unnest($2::uuid[], $3::uuid[], $4::bytea[], $5::text[], $6::text[], $7::text[],
                                     $8::text[], $9::smallint[], $10::text[]) AS row";
    hot GROW = "
        UPDATE imports SET waiting = waiting + $2, alive_at = $3 WHERE import_id = $1 AND state = 'staging'";
    hot COUNT_STAGED = "
        UPDATE merchant_counts SET settlements_staged = settlements_staged + changed.number
        FROM unnest($1::uuid[], $2::bigint[]) AS changed (merchant_id, number)
        WHERE merchant_counts.merchant_id = changed.merchant_id";
    hot ACCEPT = "
        UPDATE imports SET state = CASE waiting WHEN 0 THEN 'done' ELSE 'accepted' END, alive_at = $3
        WHERE import_id = $1 AND waiting = $2 AND state = 'staging'";
    hot DISCARD = "
        UPDATE imports SET state = 'discarded', alive_at = $2 WHERE import_id = $1 AND state = 'staging'";
    hot ROWS = "
        SELECT merchant_id, settlement_id, list_key, record,
               provider_rate, spread_revenue, partner_commission, origin, payin_reference
        FROM import_rows WHERE import_id = $1 AND (merchant_id, settlement_id) > ($2, $3)
        ORDER BY merchant_id, settlement_id LIMIT $4";
    // Each row is found on its own, in the order of the argument: planned on an empty table, a plain join
    // would walk the whole import instead.
    hot TAKE = "
        DELETE FROM import_rows
        USING unnest($2::uuid[], $3::uuid[]) AS row (merchant_id, settlement_id)
        CROSS JOIN LATERAL (
            SELECT ctid AS place FROM import_rows AS staged
            WHERE staged.import_id = $1 AND staged.merchant_id = row.merchant_id
              AND staged.settlement_id = row.settlement_id
            LIMIT 1
        ) AS found
        WHERE import_rows.ctid = found.place
        RETURNING row.merchant_id, row.settlement_id";
    hot COUNT_STEP = "
        UPDATE imports
        SET waiting = waiting - $2, recorded = recorded + $3, notified = notified + $4, alive_at = $5,
            state = CASE WHEN state = 'accepted' AND waiting = $2 THEN 'done' ELSE state END
        WHERE import_id = $1
        RETURNING import_id, notifies, state, alive_at, waiting, recorded, notified";
    hot ADOPT = "UPDATE imports SET alive_at = $3 WHERE import_id = $1 AND alive_at = $2";
    hot FORGET = "
        DELETE FROM imports WHERE import_id = $1 AND waiting = 0 AND state IN ('done', 'discarded')";
}

#[async_trait]
impl ImportReads for PostgresStore {
    async fn import_list(&self) -> StoreResult<Vec<Import>> {
        let rows = sqlx::query(LIST).fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(import).collect()
    }

    async fn import_rows(
        &self,
        import: ImportId,
        after: Option<(MerchantId, SettlementId)>,
        limit: u32,
    ) -> StoreResult<Vec<NewSettlement>> {
        // No merchant has this id.
        let (merchant, settlement) = after.unwrap_or((MerchantId::NIL, SettlementId::NIL));
        let query = sqlx::query(ROWS).bind(import.0).bind(merchant.0).bind(settlement.0).bind(signed(limit));
        let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(staged_settlement).collect()
    }
}

#[async_trait]
impl ImportWrites for PostgresTx {
    async fn import_begin(&mut self, import: ImportId, notifies: bool, at: Timestamp) -> StoreResult<bool> {
        let query = sqlx::query(BEGIN).bind(import.0).bind(notifies).bind(At(at));
        self.changes(query.bind(signed(IMPORTS_MAX))).await
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
        batch.leave_out_stored(&self.stored(&batch.unique).await?);
        let SettlementBatch { mut unique, mut conflicting } = batch;
        let verdict = self.staged_verdict(&unique, Some(import)).await?;
        conflicting.extend(verdict.conflicting);
        let payments = self.in_the_way_of_payments(&unique).await?;
        conflicting.extend(&payments);
        let reserved = verdict.reserved;
        if !conflicting.is_empty() || !reserved.is_empty() {
            return Ok(Some(StagedBatch { staged: 0, conflicting, payments, reserved }));
        }
        unique.retain(|row| !verdict.own.contains(&(row.merchant_id, row.settlement_id)));
        let grow = sqlx::query(GROW).bind(import.0).bind(signed(unique.len() as u64)).bind(At(at));
        if !self.changes(grow).await? {
            return Ok(None);
        }
        self.insert_staged(import, &unique).await?;
        Ok(Some(StagedBatch { staged: unique.len(), ..StagedBatch::default() }))
    }

    async fn import_accept(&mut self, import: ImportId, waiting: u64, at: Timestamp) -> StoreResult<bool> {
        self.changes(sqlx::query(ACCEPT).bind(import.0).bind(signed(waiting)).bind(At(at))).await
    }

    async fn import_discard(&mut self, import: ImportId, at: Timestamp) -> StoreResult<bool> {
        self.changes(sqlx::query(DISCARD).bind(import.0).bind(At(at))).await
    }

    async fn import_take(
        &mut self,
        lock: &MerchantLock,
        import: ImportId,
        mut rows: Vec<NewSettlement>,
    ) -> StoreResult<Vec<NewSettlement>> {
        self.number.check(lock, rows.iter().map(|row| row.merchant_id))?;
        let (merchants, settlements) = key_arrays(&rows.iter().collect::<Vec<_>>());
        let query = sqlx::query(TAKE).bind(import.0).bind(merchants).bind(settlements);
        let taken = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        let taken = taken.iter().map(ids).collect::<StoreResult<HashSet<_>>>()?;
        rows.retain(|row| taken.contains(&(row.merchant_id, row.settlement_id)));
        let numbers = rows_by_merchant(rows.iter().map(|row| row.merchant_id));
        self.count_staged(numbers.into_iter().map(|(merchant, number)| (merchant, -number))).await?;
        Ok(rows)
    }

    async fn import_count(
        &mut self,
        import_id: ImportId,
        step: ImportStep,
        at: Timestamp,
    ) -> StoreResult<Option<Import>> {
        let ImportStep { taken, recorded, notified } = step;
        let query = sqlx::query(COUNT_STEP).bind(import_id.0).bind(signed(taken)).bind(signed(recorded));
        let query = query.bind(signed(notified)).bind(At(at));
        let row = query.fetch_optional(&mut *self.inner).await.map_err(store_error)?;
        row.as_ref().map(import).transpose()
    }

    async fn import_adopt(
        &mut self,
        import: ImportId,
        alive_at: Timestamp,
        at: Timestamp,
    ) -> StoreResult<bool> {
        self.changes(sqlx::query(ADOPT).bind(import.0).bind(At(alive_at)).bind(At(at))).await
    }

    async fn import_forget(&mut self, import: ImportId) -> StoreResult<()> {
        self.changes(sqlx::query(FORGET).bind(import.0)).await.map(|_| ())
    }
}

impl PostgresTx {
    /// What staged rows mean for these settlements. Asks only for merchants that have any.
    pub(crate) async fn staged_verdict(
        &mut self,
        rows: &[&NewSettlement],
        own: Option<ImportId>,
    ) -> StoreResult<StagedVerdict> {
        let marked = self.imports.marked(rows);
        if marked.is_empty() {
            return Ok(StagedVerdict::default());
        }
        let (merchants, settlements) = key_arrays(&marked);
        let query = sqlx::query(FIND_STAGED).bind(merchants).bind(settlements);
        let staged = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        let staged = staged.iter().map(|row| {
            Ok(StagedRow {
                import_id: id(row, "import_id", ImportId)?,
                state: ImportState::from_stored(column(row, "state")?)?,
                key: ids(row)?,
                content: (Record::from_stored(column(row, "record")?), stored_pricing(row)?),
            })
        });
        Ok(StagedVerdict::of(&marked, &staged.collect::<StoreResult<Vec<_>>>()?, own))
    }

    async fn insert_staged(&mut self, import: ImportId, rows: &[&NewSettlement]) -> StoreResult<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let (merchants, settlements) = key_arrays(rows);
        let amounts = |amount: fn(&InternalPricing) -> Decimal| {
            array(rows, |row| row.pricing.as_ref().map(|pricing| amount(pricing).to_string()))
        };
        let query = sqlx::query(INSERT_ROWS)
            .bind(import.0)
            .bind(merchants)
            .bind(settlements)
            .bind(array(rows, |row| row.list_key.as_bytes().as_slice()))
            .bind(array(rows, |row| row.record.as_str()))
            .bind(amounts(|pricing| pricing.provider_rate))
            .bind(amounts(|pricing| pricing.spread_revenue))
            .bind(amounts(|pricing| pricing.partner_commission))
            .bind(array(rows, |row| row.origin.number()))
            .bind(array(rows, |row| row.payin_reference.as_str()));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        let numbers = rows_by_merchant(rows.iter().map(|row| row.merchant_id));
        self.count_staged(numbers.into_iter()).await
    }

    /// So many more staged rows, by merchant. Whoever takes some has no more use for the merchant's marks:
    /// what it took is in conflict with no other row and no payment.
    async fn count_staged(&mut self, numbers: impl Iterator<Item = (MerchantId, i64)>) -> StoreResult<()> {
        let numbers: Vec<(MerchantId, i64)> = numbers.collect();
        if numbers.is_empty() {
            return Ok(());
        }
        for (merchant, number) in &numbers {
            self.imports.remember(*merchant, *number);
            if *number < 0 {
                self.payments.remember(*merchant, false);
            }
        }
        let query = sqlx::query(COUNT_STAGED)
            .bind(array(&numbers, |(merchant, _)| merchant.0))
            .bind(array(&numbers, |(_, number)| *number));
        let counted = query.execute(&mut *self.inner).await.map_err(store_error)?;
        if counted.rows_affected() != numbers.len() as u64 {
            return Err(StoreError::unexpected("staged rows of a merchant that was not locked"));
        }
        Ok(())
    }

    /// Whether a statement changed a row.
    async fn changes(&mut self, query: Query<'_, Postgres, PgArguments>) -> StoreResult<bool> {
        Ok(query.execute(&mut *self.inner).await.map_err(store_error)?.rows_affected() > 0)
    }
}

fn import(row: &PgRow) -> StoreResult<Import> {
    Ok(Import {
        import_id: id(row, "import_id", ImportId)?,
        notifies: column(row, "notifies")?,
        state: ImportState::from_stored(column(row, "state")?)?,
        alive_at: time(row, "alive_at")?,
        waiting: number(row, "waiting")?,
        recorded: number(row, "recorded")?,
        notified: number(row, "notified")?,
    })
}

fn staged_settlement(row: &PgRow) -> StoreResult<NewSettlement> {
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
