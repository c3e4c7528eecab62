//! Notification deliveries.

use async_trait::async_trait;
use serde_json::json;
use settle_domain::delivery::{Delivery, DeliveryStatus};
use settle_domain::ids::{DeliveryId, MerchantId, SettlementId};
use settle_domain::page::{Page, PageRequest};
use settle_domain::settlement::EVENT_TYPE;
use settle_domain::time::Timestamp;
use settle_store::{
    CountChanges, DUE_LAG, DeliveryCursor, DeliveryFilter, DeliveryReads, DeliveryState, DeliveryWrites,
    NewDelivery, StoreError, StoreResult,
};
use sqlx::Sqlite;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use uuid::Uuid;

use crate::convert::{column, hex, id, json_rows, optional_time, time};
use crate::error::store_error;
use crate::{SqliteStore, SqliteTx};

settle_store::statements! {
    // Total and page in one statement, and so in one snapshot: the first row is the total, the others are the
    // page.
    hot PAGE = "
        SELECT deliveries_pending + deliveries_delivered + deliveries_dead AS total,
               NULL AS delivery_id, NULL AS settlement_id, NULL AS event_type, NULL AS status, NULL AS attempts,
               NULL AS created_at, NULL AS delivered_at, NULL AS next_attempt_at, NULL AS response_status,
               NULL AS last_error, NULL AS url
        FROM merchant_counts WHERE merchant_id = ?1
        UNION ALL
        SELECT * FROM (
            SELECT NULL, delivery_id, settlement_id, event_type, status, attempts, created_at,
                   delivered_at, next_attempt_at, response_status, last_error, url
            FROM deliveries WHERE merchant_id = ?1
            ORDER BY created_at DESC, delivery_id DESC LIMIT ?2 OFFSET ?3
        )";
    hot PAGE_OF_STATUS = "
        SELECT CASE ?4 WHEN 'pending' THEN deliveries_pending WHEN 'delivered' THEN deliveries_delivered
                    ELSE deliveries_dead END AS total,
               NULL AS delivery_id, NULL AS settlement_id, NULL AS event_type, NULL AS status, NULL AS attempts,
               NULL AS created_at, NULL AS delivered_at, NULL AS next_attempt_at, NULL AS response_status,
               NULL AS last_error, NULL AS url
        FROM merchant_counts WHERE merchant_id = ?1
        UNION ALL
        SELECT * FROM (
            SELECT NULL, delivery_id, settlement_id, event_type, status, attempts, created_at,
                   delivered_at, next_attempt_at, response_status, last_error, url
            -- A cast, or else SQLite thinks anew about the partial index whenever another status is bound.
            FROM deliveries WHERE merchant_id = ?1 AND status = CAST(?4 AS TEXT)
            ORDER BY created_at DESC, delivery_id DESC LIMIT ?2 OFFSET ?3
        )";
    // From merchant to merchant, so that each one's index gives its newest first. A merchant that is not
    // named is the range of all ids, a time or a place that is not named is the end of theirs. Differs
    // because SQLite has no lateral joins.
    cold "an operator's; for each merchant that is asked for the rows of a page, with a URL all before them"
    SEARCH = "
        SELECT found.merchant_id, found.delivery_id, found.settlement_id, found.event_type, found.status,
               found.attempts, found.created_at, found.delivered_at, found.next_attempt_at,
               found.response_status, found.last_error, found.url
        FROM merchant_counts AS owner
        CROSS JOIN deliveries AS found ON found.rowid IN (
            SELECT rowid FROM deliveries
            WHERE merchant_id = owner.merchant_id
              AND created_at >= ?3 AND (?4 = '' OR substr(url, 1, length(?4)) = ?4)
              AND (created_at, delivery_id, merchant_id) < (?5, ?6, ?7)
            ORDER BY created_at DESC, delivery_id DESC LIMIT ?8
        )
        WHERE owner.merchant_id BETWEEN ?1 AND ?2
        ORDER BY found.created_at DESC, found.delivery_id DESC, found.merchant_id DESC LIMIT ?8";
    cold "an operator's; for each merchant that is asked for the rows of a page, with a URL all before them"
    SEARCH_OF_STATUS = "
        SELECT found.merchant_id, found.delivery_id, found.settlement_id, found.event_type, found.status,
               found.attempts, found.created_at, found.delivered_at, found.next_attempt_at,
               found.response_status, found.last_error, found.url
        FROM merchant_counts AS owner
        CROSS JOIN deliveries AS found ON found.rowid IN (
            SELECT rowid FROM deliveries
            WHERE merchant_id = owner.merchant_id AND status = ?9
              AND created_at >= ?3 AND (?4 = '' OR substr(url, 1, length(?4)) = ?4)
              AND (created_at, delivery_id, merchant_id) < (?5, ?6, ?7)
            ORDER BY created_at DESC, delivery_id DESC LIMIT ?8
        )
        WHERE owner.merchant_id BETWEEN ?1 AND ?2
        ORDER BY found.created_at DESC, found.delivery_id DESC, found.merchant_id DESC LIMIT ?8";
    cold "an operator's; reads every index entry that is counted and its row"
    COUNT = "
        SELECT owner.merchant_id, count(*) AS number FROM merchant_counts AS owner
        CROSS JOIN json_each(?5) AS asked
        CROSS JOIN deliveries AS found
            ON found.merchant_id = owner.merchant_id AND found.status = asked.value AND found.created_at >= ?3
        WHERE owner.merchant_id BETWEEN ?1 AND ?2 AND (?4 = '' OR substr(found.url, 1, length(?4)) = ?4)
        GROUP BY owner.merchant_id ORDER BY owner.merchant_id";
    cold "an operator's; a look-up for each id and merchant"
    FIND_MANY = "
        SELECT found.merchant_id, found.delivery_id, found.settlement_id, found.event_type, found.status,
               found.attempts, found.created_at, found.delivered_at, found.next_attempt_at,
               found.response_status, found.last_error, found.url
        FROM json_each(?1) AS asked
        CROSS JOIN merchant_counts AS owner
        CROSS JOIN deliveries AS found
            ON found.merchant_id = owner.merchant_id AND found.delivery_id = unhex(asked.value)";
    hot ENQUEUE = "
        INSERT INTO deliveries (merchant_id, delivery_id, settlement_id, event_type, status, attempts,
                                created_at, next_attempt_at, url)
        SELECT unhex(row.value ->> 0), unhex(row.value ->> 1), unhex(row.value ->> 2), ?2, 'pending', 0,
               row.value ->> 3, row.value ->> 3, row.value ->> 4
        FROM json_each(?1) AS row";
    hot RECORD = "
        UPDATE deliveries
        SET status = state.status, attempts = state.attempts, delivered_at = state.delivered_at,
            next_attempt_at = state.next_attempt_at, response_status = state.response_status,
            last_error = state.last_error
        FROM (
            SELECT unhex(row.value ->> 0) AS merchant_id, unhex(row.value ->> 1) AS delivery_id,
                   row.value ->> 2 AS status, row.value ->> 3 AS attempts, row.value ->> 4 AS delivered_at,
                   row.value ->> 5 AS next_attempt_at, row.value ->> 6 AS response_status,
                   row.value ->> 7 AS last_error, row.value ->> 8 AS seen_attempts,
                   row.value ->> 9 AS seen_next_attempt_at
            FROM json_each(?1) AS row
        ) AS state
        WHERE deliveries.merchant_id = state.merchant_id AND deliveries.delivery_id = state.delivery_id
          AND deliveries.status = 'pending' AND deliveries.attempts = state.seen_attempts
          AND deliveries.next_attempt_at = state.seen_next_attempt_at
        RETURNING deliveries.merchant_id, deliveries.delivery_id, deliveries.status";
    hot REQUEUE = "
        UPDATE deliveries SET status = 'pending', attempts = 0, next_attempt_at = ?2
        FROM (SELECT unhex(row.value ->> 0) AS merchant_id, unhex(row.value ->> 1) AS delivery_id
              FROM json_each(?1) AS row) AS asked
        WHERE deliveries.merchant_id = asked.merchant_id AND deliveries.delivery_id = asked.delivery_id
          AND deliveries.status = 'dead'
        RETURNING deliveries.merchant_id, deliveries.delivery_id, settlement_id, event_type, status, attempts,
                  created_at, delivered_at, next_attempt_at, response_status, last_error, url";
    // Rows that are due at ?2 have come.
    hot COUNT_ENQUEUED = "
        UPDATE merchant_counts
        SET deliveries_pending = deliveries_pending + changed.pending,
            deliveries_delivered = deliveries_delivered + changed.delivered,
            deliveries_dead = deliveries_dead + changed.dead,
            next_due_at = min(ifnull(next_due_at, ?2), ?2)
        FROM (SELECT unhex(row.value ->> 0) AS merchant_id, row.value ->> 1 AS pending,
                     row.value ->> 2 AS delivered, row.value ->> 3 AS dead
              FROM json_each(?1) AS row) AS changed
        WHERE merchant_counts.merchant_id = changed.merchant_id";
    // Rows have gone, or wait for longer. The time at which the merchant is due is written when nothing is
    // due any more at ?2, or when it lags behind by more than ?3 microseconds: not for every row that is
    // sent.
    hot COUNT_RECORDED = "
        UPDATE merchant_counts
        SET deliveries_pending = deliveries_pending + changed.pending,
            deliveries_delivered = deliveries_delivered + changed.delivered,
            deliveries_dead = deliveries_dead + changed.dead,
            next_due_at = CASE WHEN changed.due_at <= ?2 AND changed.due_at <= next_due_at + ?3
                               THEN next_due_at ELSE changed.due_at END
        FROM (SELECT unhex(row.value ->> 0) AS merchant_id, row.value ->> 1 AS pending,
                     row.value ->> 2 AS delivered, row.value ->> 3 AS dead,
                     (SELECT next_attempt_at FROM deliveries
                      WHERE merchant_id = unhex(row.value ->> 0) AND status = 'pending'
                      ORDER BY next_attempt_at LIMIT 1) AS due_at
              FROM json_each(?1) AS row) AS changed
        WHERE merchant_counts.merchant_id = changed.merchant_id";
}

#[async_trait]
impl DeliveryReads for SqliteStore {
    async fn delivery_page(
        &self,
        merchant: MerchantId,
        status: Option<DeliveryStatus>,
        page: PageRequest,
    ) -> StoreResult<Page<Delivery>> {
        let statement = if status.is_some() { PAGE_OF_STATUS } else { PAGE };
        let mut query = sqlx::query(statement).bind(merchant.0).bind(page.limit()).bind(page.offset());
        if let Some(status) = status {
            query = query.bind(status.as_str());
        }
        let rows = query.fetch_all(&self.readers).await.map_err(store_error)?;
        let (first, rows) = rows.split_first().ok_or(StoreError::UnknownMerchant(merchant))?;
        Ok(Page {
            rows: rows.iter().map(delivery).collect::<StoreResult<_>>()?,
            total: column(first, "total")?,
        })
    }

    async fn delivery_search(
        &self,
        filter: &DeliveryFilter,
        after: Option<DeliveryCursor>,
        limit: i64,
    ) -> StoreResult<Vec<(MerchantId, Delivery)>> {
        let after = after.unwrap_or(DeliveryCursor::START);
        let statement = if filter.status.is_some() { SEARCH_OF_STATUS } else { SEARCH };
        let mut query = bind_filter(sqlx::query(statement), filter)
            .bind(after.created_at.as_micros())
            .bind(after.delivery_id.0)
            .bind(after.merchant_id.0)
            .bind(limit);
        if let Some(status) = filter.status {
            query = query.bind(status.as_str());
        }
        let rows = query.fetch_all(&self.readers).await.map_err(store_error)?;
        rows.iter().map(owned_delivery).collect()
    }

    async fn delivery_count(&self, filter: &DeliveryFilter) -> StoreResult<Vec<(MerchantId, i64)>> {
        let statuses = filter.status.map_or(DeliveryStatus::ALL.to_vec(), |status| vec![status]);
        let statuses = json_rows(statuses.iter().map(|status| json!(status)));
        let query = bind_filter(sqlx::query(COUNT), filter).bind(statuses);
        let rows = query.fetch_all(&self.readers).await.map_err(store_error)?;
        rows.iter().map(|row| Ok((id(row, "merchant_id", MerchantId)?, column(row, "number")?))).collect()
    }

    async fn delivery_find_many(
        &self,
        deliveries: &[DeliveryId],
    ) -> StoreResult<Vec<(MerchantId, Delivery)>> {
        let ids = json_rows(deliveries.iter().map(|delivery| hex(delivery.0.as_bytes())));
        let query = sqlx::query(FIND_MANY).bind(ids);
        let rows = query.fetch_all(&self.readers).await.map_err(store_error)?;
        rows.iter().map(owned_delivery).collect()
    }
}

#[async_trait]
impl DeliveryWrites for SqliteTx {
    async fn delivery_enqueue_many(&mut self, deliveries: &[NewDelivery]) -> StoreResult<()> {
        let Some(due_at) = deliveries.iter().map(|new| new.created_at).min() else {
            return Ok(());
        };
        let rows = json_rows(deliveries.iter().map(|new| {
            json!([
                hex(new.merchant_id.0.as_bytes()),
                hex(new.delivery_id.0.as_bytes()),
                hex(new.settlement_id.0.as_bytes()),
                new.created_at.as_micros(),
                new.url,
            ])
        }));
        let query = sqlx::query(ENQUEUE).bind(rows).bind(EVENT_TYPE);
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        let mut changes = CountChanges::default();
        for new in deliveries {
            changes.add(new.merchant_id, DeliveryStatus::Pending, 1);
        }
        self.count_enqueued(changes, due_at).await
    }

    async fn delivery_record_many(
        &mut self,
        states: &[DeliveryState],
        at: Timestamp,
    ) -> StoreResult<Vec<DeliveryId>> {
        let rows = json_rows(states.iter().map(|DeliveryState { merchant_id, seen, delivery }| {
            json!([
                hex(merchant_id.0.as_bytes()),
                hex(delivery.delivery_id.0.as_bytes()),
                delivery.status.as_str(),
                delivery.attempts,
                delivery.delivered_at.map(Timestamp::as_micros),
                delivery.next_attempt_at.as_micros(),
                delivery.response_status,
                delivery.last_error,
                seen.attempts,
                seen.next_attempt_at.as_micros(),
            ])
        }));
        let updated =
            sqlx::query(RECORD).bind(rows).fetch_all(&mut *self.inner).await.map_err(store_error)?;
        let mut changes = CountChanges::default();
        for row in &updated {
            let merchant = id(row, "merchant_id", MerchantId)?;
            changes.add(merchant, DeliveryStatus::Pending, -1);
            changes.add(merchant, status(row)?, 1);
        }
        self.count_recorded(changes, at).await?;
        updated.iter().map(|row| id(row, "delivery_id", DeliveryId)).collect()
    }

    async fn delivery_requeue_many(
        &mut self,
        deliveries: &[(MerchantId, DeliveryId)],
        at: Timestamp,
    ) -> StoreResult<Vec<(MerchantId, Delivery)>> {
        let rows = json_rows(
            deliveries
                .iter()
                .map(|(merchant, delivery)| json!([hex(merchant.0.as_bytes()), hex(delivery.0.as_bytes())])),
        );
        let query = sqlx::query(REQUEUE).bind(rows).bind(at.as_micros());
        let rows = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        let requeued = rows.iter().map(owned_delivery).collect::<StoreResult<Vec<_>>>()?;
        let mut changes = CountChanges::default();
        for (merchant, _) in &requeued {
            changes.add(*merchant, DeliveryStatus::Dead, -1);
            changes.add(*merchant, DeliveryStatus::Pending, 1);
        }
        self.count_enqueued(changes, at).await?;
        Ok(requeued)
    }
}

impl SqliteTx {
    async fn count_enqueued(&mut self, changes: CountChanges, due_at: Timestamp) -> StoreResult<()> {
        let changes = changes.into_rows();
        let query = sqlx::query(COUNT_ENQUEUED).bind(json_changes(&changes)).bind(due_at.as_micros());
        let counted = query.execute(&mut *self.inner).await.map_err(store_error)?;
        if counted.rows_affected() != changes.len() as u64 {
            return Err(StoreError::unexpected("a delivery of a merchant that was not locked"));
        }
        Ok(())
    }

    async fn count_recorded(&mut self, changes: CountChanges, at: Timestamp) -> StoreResult<()> {
        let changes = changes.into_rows();
        let lag = i64::try_from(DUE_LAG.as_micros()).unwrap_or(i64::MAX);
        let query = sqlx::query(COUNT_RECORDED).bind(json_changes(&changes)).bind(at.as_micros()).bind(lag);
        let counted = query.execute(&mut *self.inner).await.map_err(store_error)?;
        if counted.rows_affected() != changes.len() as u64 {
            return Err(StoreError::unexpected("a delivery of a merchant that was not locked"));
        }
        Ok(())
    }
}

/// The first four arguments of a search.
fn bind_filter<'q>(
    query: Query<'q, Sqlite, SqliteArguments>,
    filter: &'q DeliveryFilter,
) -> Query<'q, Sqlite, SqliteArguments> {
    query
        .bind(filter.merchant.map_or(Uuid::nil(), |merchant| merchant.0))
        .bind(filter.merchant.map_or(Uuid::max(), |merchant| merchant.0))
        .bind(filter.since.unwrap_or(Timestamp::MIN).as_micros())
        .bind(filter.url.as_deref().unwrap_or_default())
}

/// The first argument of both ways to count.
fn json_changes(changes: &[(MerchantId, [i64; 3])]) -> String {
    json_rows(changes.iter().map(|(merchant, [pending, delivered, dead])| {
        json!([hex(merchant.0.as_bytes()), pending, delivered, dead])
    }))
}

fn status(row: &SqliteRow) -> StoreResult<DeliveryStatus> {
    let text: String = column(row, "status")?;
    text.parse().map_err(|_| StoreError::unexpected(format!("a delivery with status {text}")))
}

/// A delivery and whose it is.
fn owned_delivery(row: &SqliteRow) -> StoreResult<(MerchantId, Delivery)> {
    Ok((id(row, "merchant_id", MerchantId)?, delivery(row)?))
}

pub(crate) fn delivery(row: &SqliteRow) -> StoreResult<Delivery> {
    Ok(Delivery {
        delivery_id: id(row, "delivery_id", DeliveryId)?,
        settlement_id: id(row, "settlement_id", SettlementId)?,
        event_type: column(row, "event_type")?,
        status: status(row)?,
        attempts: column(row, "attempts")?,
        created_at: time(row, "created_at")?,
        delivered_at: optional_time(row, "delivered_at")?,
        next_attempt_at: time(row, "next_attempt_at")?,
        response_status: column(row, "response_status")?,
        last_error: column(row, "last_error")?,
        url: column(row, "url")?,
    })
}
