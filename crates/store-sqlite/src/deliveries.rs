//! Notification deliveries.

use async_trait::async_trait;
use serde::Deserialize;
use settle_domain::delivery::{Delivery, DeliveryStatus};
use settle_domain::ids::{DeliveryId, MerchantId, SettlementId};
use settle_domain::page::{Page, PageRequest};
use settle_domain::settlement::EVENT_TYPE;
use settle_domain::time::Timestamp;
use settle_store::{
    DeliveryCursor, DeliveryFilter, DeliveryReads, DeliveryState, DeliveryWrites, NewDelivery, StoreError,
    StoreResult,
};
use sqlx::Sqlite;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use uuid::Uuid;

use crate::convert::{HexId, column, from_json, hex, id, json_rows, optional_time, time};
use crate::error::store_error;
use crate::{SqliteStore, SqliteTx};

settle_store::statements! {
    // Total and page in one statement, and so in one snapshot.
    hot PAGE = "
        SELECT deliveries_pending + deliveries_delivered + deliveries_dead AS total, (
            SELECT json_group_array(json_array(
                hex(delivery_id), hex(settlement_id), event_type, status, attempts, created_at,
                delivered_at, next_attempt_at, response_status, last_error, url
            )) FROM (
                SELECT * FROM deliveries WHERE merchant_id = ?1
                ORDER BY delivery_id DESC LIMIT ?2 + 0 OFFSET ?3 + 0
            )
        ) AS page
        FROM merchant_counts WHERE merchant_id = ?1";
    hot PAGE_OF_STATUS = "
        SELECT CASE ?4 WHEN 'pending' THEN deliveries_pending WHEN 'delivered' THEN deliveries_delivered
                    ELSE deliveries_dead END AS total, (
            SELECT json_group_array(json_array(
                hex(delivery_id), hex(settlement_id), event_type, status, attempts, created_at,
                delivered_at, next_attempt_at, response_status, last_error, url
            )) FROM (
                -- A cast, or else SQLite thinks anew about the partial index whenever another status is bound.
                SELECT * FROM deliveries WHERE merchant_id = ?1 AND status = CAST(?4 AS TEXT)
                ORDER BY delivery_id DESC LIMIT ?2 + 0 OFFSET ?3 + 0
            )
        ) AS page
        FROM merchant_counts WHERE merchant_id = ?1";
    // From merchant to merchant, so that each one's index gives its newest first. A merchant that is not
    // named is the range of all ids, a time or a place that is not named is the end of theirs. A time is the
    // first id that can have been made then. Differs because SQLite has no lateral joins.
    cold "an operator's; for each merchant that is asked for the rows of a page, with a URL all before them"
    SEARCH = "
        SELECT found.merchant_id, found.delivery_id, found.settlement_id, found.event_type, found.status,
               found.attempts, found.created_at, found.delivered_at, found.next_attempt_at,
               found.response_status, found.last_error, found.url
        FROM merchant_counts AS owner
        CROSS JOIN deliveries AS found
            ON found.merchant_id = owner.merchant_id AND found.delivery_id IN (
                SELECT delivery_id FROM deliveries
                WHERE merchant_id = owner.merchant_id
                  AND delivery_id >= ?3 AND (?4 = '' OR substr(url, 1, length(?4)) = ?4)
                  AND (delivery_id, merchant_id) < (?5, ?6)
                ORDER BY delivery_id DESC LIMIT ?7 + 0
            )
        WHERE owner.merchant_id BETWEEN ?1 AND ?2
        ORDER BY found.delivery_id DESC, found.merchant_id DESC LIMIT ?7 + 0";
    cold "an operator's; for each merchant that is asked for the rows of a page, with a URL all before them"
    SEARCH_OF_STATUS = "
        SELECT found.merchant_id, found.delivery_id, found.settlement_id, found.event_type, found.status,
               found.attempts, found.created_at, found.delivered_at, found.next_attempt_at,
               found.response_status, found.last_error, found.url
        FROM merchant_counts AS owner
        CROSS JOIN deliveries AS found
            ON found.merchant_id = owner.merchant_id AND found.delivery_id IN (
                SELECT delivery_id FROM deliveries
                WHERE merchant_id = owner.merchant_id AND status = ?8
                  AND delivery_id >= ?3 AND (?4 = '' OR substr(url, 1, length(?4)) = ?4)
                  AND (delivery_id, merchant_id) < (?5, ?6)
                ORDER BY delivery_id DESC LIMIT ?7 + 0
            )
        WHERE owner.merchant_id BETWEEN ?1 AND ?2
        ORDER BY found.delivery_id DESC, found.merchant_id DESC LIMIT ?7 + 0";
    cold "an operator's; reads every index entry that is counted and its row"
    COUNT = "
        SELECT owner.merchant_id, count(*) AS number FROM merchant_counts AS owner
        CROSS JOIN json_each(?5) AS asked
        CROSS JOIN deliveries AS found
            ON found.merchant_id = owner.merchant_id AND found.status = asked.value AND found.delivery_id >= ?3
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
        FROM jsonb_each(?1) AS row";
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
            FROM jsonb_each(?1) AS row
        ) AS state
        WHERE deliveries.merchant_id = state.merchant_id AND deliveries.delivery_id = state.delivery_id
          AND deliveries.status = 'pending' AND deliveries.attempts = state.seen_attempts
          AND deliveries.next_attempt_at = state.seen_next_attempt_at
        RETURNING deliveries.delivery_id";
    hot REQUEUE = "
        UPDATE deliveries SET status = 'pending', attempts = 0, next_attempt_at = ?2
        FROM (SELECT unhex(row.value ->> 0) AS merchant_id, unhex(row.value ->> 1) AS delivery_id
              FROM jsonb_each(?1) AS row) AS asked
        WHERE deliveries.merchant_id = asked.merchant_id AND deliveries.delivery_id = asked.delivery_id
          AND deliveries.status = 'dead'
        RETURNING deliveries.merchant_id, deliveries.delivery_id, settlement_id, event_type, status, attempts,
                  created_at, delivered_at, next_attempt_at, response_status, last_error, url";
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
        let row = query.fetch_optional(&self.readers).await.map_err(store_error)?;
        let row = row.ok_or(StoreError::UnknownMerchant(merchant))?;
        let rows: Vec<DeliveryRow> = from_json(column(&row, "page")?)?;
        let rows = rows.into_iter().map(Delivery::try_from).collect::<StoreResult<_>>()?;
        Ok(Page { rows, total: column(&row, "total")? })
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
        let statuses = json_rows(statuses.iter().map(|status| status.as_str()));
        let query = bind_filter(sqlx::query(COUNT), filter).bind(statuses);
        let rows = query.fetch_all(&self.readers).await.map_err(store_error)?;
        rows.iter().map(|row| Ok((id(row, "merchant_id", MerchantId)?, column(row, "number")?))).collect()
    }

    async fn delivery_find_many(
        &self,
        deliveries: &[DeliveryId],
    ) -> StoreResult<Vec<(MerchantId, Delivery)>> {
        let ids = json_rows(deliveries.iter().map(|delivery| hex(delivery.0)));
        let query = sqlx::query(FIND_MANY).bind(ids);
        let rows = query.fetch_all(&self.readers).await.map_err(store_error)?;
        rows.iter().map(owned_delivery).collect()
    }
}

#[async_trait]
impl DeliveryWrites for SqliteTx {
    async fn delivery_enqueue_many(&mut self, deliveries: &[NewDelivery]) -> StoreResult<()> {
        if deliveries.is_empty() {
            return Ok(());
        }
        let rows = json_rows(deliveries.iter().map(|new| {
            let (delivery, settlement) = (hex(new.delivery_id.0), hex(new.settlement_id.0));
            (hex(new.merchant_id.0), delivery, settlement, new.created_at.as_micros(), &new.url)
        }));
        let query = sqlx::query(ENQUEUE).bind(rows).bind(EVENT_TYPE);
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        for new in deliveries {
            self.counts.of(new.merchant_id).add_due(new.created_at);
        }
        Ok(())
    }

    async fn delivery_record_many(
        &mut self,
        states: &[DeliveryState],
        at: Timestamp,
    ) -> StoreResult<Vec<DeliveryId>> {
        let rows = json_rows(states.iter().map(|DeliveryState { merchant_id, seen, delivery }| {
            (
                hex(merchant_id.0),
                hex(delivery.delivery_id.0),
                delivery.status.as_str(),
                delivery.attempts,
                delivery.delivered_at.map(Timestamp::as_micros),
                delivery.next_attempt_at.as_micros(),
                delivery.response_status,
                &delivery.last_error,
                seen.attempts,
                seen.next_attempt_at.as_micros(),
            )
        }));
        let query = sqlx::query_scalar(RECORD).bind(rows);
        let changed: Vec<Uuid> = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        self.recorded_at = Some(at);
        Ok(self.counts.record(states, changed))
    }

    async fn delivery_requeue_many(
        &mut self,
        deliveries: &[(MerchantId, DeliveryId)],
        at: Timestamp,
    ) -> StoreResult<Vec<(MerchantId, Delivery)>> {
        let rows =
            json_rows(deliveries.iter().map(|(merchant, delivery)| (hex(merchant.0), hex(delivery.0))));
        let query = sqlx::query(REQUEUE).bind(rows).bind(at.as_micros());
        let rows = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        let requeued = rows.iter().map(owned_delivery).collect::<StoreResult<Vec<_>>>()?;
        for (merchant, _) in &requeued {
            self.counts.of(*merchant).requeue(at);
        }
        Ok(requeued)
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
        .bind(filter.since.map_or(DeliveryId::NIL, DeliveryId::first_at).0)
        .bind(filter.url.as_deref().unwrap_or_default())
}

fn status(text: &str) -> StoreResult<DeliveryStatus> {
    text.parse().map_err(|_| StoreError::unexpected(format!("a delivery with status {text}")))
}

/// A delivery and whose it is.
fn owned_delivery(row: &SqliteRow) -> StoreResult<(MerchantId, Delivery)> {
    Ok((id(row, "merchant_id", MerchantId)?, delivery(row)?))
}

fn delivery(row: &SqliteRow) -> StoreResult<Delivery> {
    Ok(Delivery {
        delivery_id: id(row, "delivery_id", DeliveryId)?,
        settlement_id: id(row, "settlement_id", SettlementId)?,
        event_type: column(row, "event_type")?,
        status: status(column(row, "status")?)?,
        attempts: column(row, "attempts")?,
        created_at: time(row, "created_at")?,
        delivered_at: optional_time(row, "delivered_at")?,
        next_attempt_at: time(row, "next_attempt_at")?,
        response_status: column(row, "response_status")?,
        last_error: column(row, "last_error")?,
        url: column(row, "url")?,
    })
}

/// A delivery as JSON: its columns, in this order.
#[derive(Deserialize)]
pub(crate) struct DeliveryRow {
    delivery_id: HexId,
    settlement_id: HexId,
    event_type: String,
    status: String,
    attempts: i32,
    created_at: i64,
    delivered_at: Option<i64>,
    next_attempt_at: i64,
    response_status: Option<i32>,
    last_error: Option<String>,
    url: String,
}

impl TryFrom<DeliveryRow> for Delivery {
    type Error = StoreError;

    fn try_from(row: DeliveryRow) -> StoreResult<Delivery> {
        Ok(Delivery {
            delivery_id: DeliveryId(row.delivery_id.0),
            settlement_id: SettlementId(row.settlement_id.0),
            event_type: row.event_type,
            status: status(&row.status)?,
            attempts: row.attempts,
            created_at: Timestamp::from_micros(row.created_at),
            delivered_at: row.delivered_at.map(Timestamp::from_micros),
            next_attempt_at: Timestamp::from_micros(row.next_attempt_at),
            response_status: row.response_status,
            last_error: row.last_error,
            url: row.url,
        })
    }
}
