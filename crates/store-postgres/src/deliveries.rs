//! Notification deliveries.

use std::str::FromStr;

use async_trait::async_trait;
use settle_domain::delivery::{Delivery, DeliveryStatus};
use settle_domain::ids::{DeliveryId, MerchantId, SettlementId};
use settle_domain::page::{Page, PageRequest};
use settle_domain::time::Timestamp;
use settle_store::{
    DeliveryCursor, DeliveryFilter, DeliveryReads, DeliveryState, DeliveryWrites, MerchantLock, NewDelivery,
    StoreError, StoreResult,
};
use sqlx::Postgres;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use uuid::Uuid;

use crate::convert::{At, array, column, id, number, optional_time, signed, time};
use crate::error::store_error;
use crate::{PostgresStore, PostgresTx};

settle_store::statements! {
    // One statement gives one snapshot: the first row is the total, the others are the page.
    hot PAGE = "
        SELECT deliveries_pending + deliveries_delivered + deliveries_dead AS total,
               NULL::uuid AS delivery_id, NULL::uuid AS settlement_id, NULL::text AS event_type,
               NULL::text AS status, NULL::integer AS attempts, NULL::timestamptz AS created_at,
               NULL::timestamptz AS delivered_at, NULL::timestamptz AS next_attempt_at,
               NULL::integer AS response_status, NULL::text AS last_error, NULL::text AS url
        FROM merchant_counts WHERE merchant_id = $1
        UNION ALL
        (SELECT NULL, delivery_id, settlement_id, event_type, status, attempts, created_at,
                delivered_at, next_attempt_at, response_status, last_error, url
         FROM deliveries WHERE merchant_id = $1
         ORDER BY delivery_id DESC LIMIT $2 OFFSET $3)";
    // Only one index fits a status that is a range and part of the order. With `status = $4`, where all rows
    // have the same status, the planner would walk the whole log in search of another.
    hot PAGE_OF_STATUS = "
        SELECT CASE $4 WHEN 'pending' THEN deliveries_pending WHEN 'delivered' THEN deliveries_delivered
                    ELSE deliveries_dead END AS total,
               NULL::uuid AS delivery_id, NULL::uuid AS settlement_id, NULL::text AS event_type,
               NULL::text AS status, NULL::integer AS attempts, NULL::timestamptz AS created_at,
               NULL::timestamptz AS delivered_at, NULL::timestamptz AS next_attempt_at,
               NULL::integer AS response_status, NULL::text AS last_error, NULL::text AS url
        FROM merchant_counts WHERE merchant_id = $1
        UNION ALL
        (SELECT NULL, delivery_id, settlement_id, event_type, status, attempts, created_at,
                delivered_at, next_attempt_at, response_status, last_error, url
         FROM deliveries WHERE merchant_id = $1 AND status BETWEEN $4 AND $4
         ORDER BY status DESC, delivery_id DESC LIMIT $2 OFFSET $3)";
    // Goes from merchant to merchant, because each one's index gives its newest rows first. Without a
    // merchant $1 and $2 span all ids. $3 is the first id that can have been made at the given time; without
    // a time, or without a cursor ($5, $6), the least or the greatest id stands there.
    cold "an operator's; for each merchant that is asked for the rows of a page, with a URL all before them"
    SEARCH = "
        SELECT owner.merchant_id, found.* FROM merchant_counts AS owner
        CROSS JOIN LATERAL (
            SELECT delivery_id, settlement_id, event_type, status, attempts, created_at,
                   delivered_at, next_attempt_at, response_status, last_error, url
            FROM deliveries
            WHERE merchant_id = owner.merchant_id AND delivery_id >= $3 AND ($4 = '' OR starts_with(url, $4))
              AND (delivery_id, merchant_id) < ($5, $6)
            ORDER BY delivery_id DESC LIMIT $7
        ) AS found
        WHERE owner.merchant_id BETWEEN $1 AND $2
        ORDER BY found.delivery_id DESC, owner.merchant_id DESC LIMIT $7";
    cold "an operator's; for each merchant that is asked for the rows of a page, with a URL all before them"
    SEARCH_OF_STATUS = "
        SELECT owner.merchant_id, found.* FROM merchant_counts AS owner
        CROSS JOIN LATERAL (
            SELECT delivery_id, settlement_id, event_type, status, attempts, created_at,
                   delivered_at, next_attempt_at, response_status, last_error, url
            FROM deliveries
            WHERE merchant_id = owner.merchant_id AND status BETWEEN $8 AND $8
              AND delivery_id >= $3 AND ($4 = '' OR starts_with(url, $4))
              AND (delivery_id, merchant_id) < ($5, $6)
            ORDER BY status DESC, delivery_id DESC LIMIT $7
        ) AS found
        WHERE owner.merchant_id BETWEEN $1 AND $2
        ORDER BY found.delivery_id DESC, owner.merchant_id DESC LIMIT $7";
    cold "an operator's; reads every index entry that is counted, with a URL every row"
    COUNT = "
        SELECT owner.merchant_id, found.number FROM merchant_counts AS owner
        CROSS JOIN LATERAL (
            SELECT count(*) AS number FROM deliveries
            WHERE merchant_id = owner.merchant_id AND status = ANY ($5)
              AND delivery_id >= $3 AND ($4 = '' OR starts_with(url, $4))
        ) AS found
        WHERE owner.merchant_id BETWEEN $1 AND $2 AND found.number > 0
        ORDER BY owner.merchant_id";
    cold "an operator's; a look-up for each id and merchant"
    FIND_MANY = "
        SELECT owner.merchant_id, found.* FROM unnest($1::uuid[]) AS asked (delivery_id)
        CROSS JOIN merchant_counts AS owner
        CROSS JOIN LATERAL (
            SELECT delivery_id, settlement_id, event_type, status, attempts, created_at,
                   delivered_at, next_attempt_at, response_status, last_error, url
            FROM deliveries
            WHERE merchant_id = owner.merchant_id AND delivery_id = asked.delivery_id LIMIT 1
        ) AS found";
    hot ENQUEUE = "
        INSERT INTO deliveries (merchant_id, delivery_id, settlement_id, event_type, status, attempts,
                                endpoint_epoch, created_at, next_attempt_at, url)
        SELECT merchant_id, delivery_id, settlement_id, event_type, 'pending', 0,
               endpoint_epoch, created_at, created_at, url
        FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::timestamptz[], $6::text[], $7::integer[])
            AS row (merchant_id, delivery_id, settlement_id, event_type, created_at, url, endpoint_epoch)";
    // The lateral join looks the rows up one by one. A plain join, planned on an empty table, would begin
    // with all pending rows.
    hot RECORD = "
        UPDATE deliveries
        SET status = state.status, attempts = state.attempts, delivered_at = state.delivered_at,
            next_attempt_at = state.next_attempt_at, response_status = state.response_status,
            last_error = state.last_error
        FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::integer[], $5::timestamptz[], $6::timestamptz[],
                    $7::integer[], $8::text[], $9::integer[], $10::timestamptz[], $11::integer[])
            AS state (merchant_id, delivery_id, status, attempts, delivered_at, next_attempt_at,
                      response_status, last_error, seen_attempts, seen_next_attempt_at, endpoint_epoch)
        CROSS JOIN LATERAL (
            SELECT ctid AS place FROM deliveries
            WHERE merchant_id = state.merchant_id AND delivery_id = state.delivery_id
              AND deliveries.status = 'pending' AND deliveries.attempts = state.seen_attempts
              AND deliveries.next_attempt_at = state.seen_next_attempt_at
              AND deliveries.endpoint_epoch = state.endpoint_epoch
            LIMIT 1
        ) AS found
        WHERE deliveries.ctid = found.place
        RETURNING deliveries.delivery_id";
    // Does to many rows what the domain does on `DeliveryEvent::RedeliveryAsked`; the suite's
    // `requeue_is_the_domains_redelivery_asked` compares them.
    hot REQUEUE = "
        UPDATE deliveries
        SET status = 'pending', attempts = 0, next_attempt_at = $3, endpoint_epoch = asked.endpoint_epoch
        FROM unnest($1::uuid[], $2::uuid[], $4::integer[]) AS asked (merchant_id, delivery_id, endpoint_epoch)
        CROSS JOIN LATERAL (
            SELECT ctid AS place FROM deliveries
            WHERE merchant_id = asked.merchant_id AND delivery_id = asked.delivery_id AND status = 'dead'
            LIMIT 1
        ) AS found
        WHERE deliveries.ctid = found.place
        RETURNING deliveries.merchant_id, deliveries.delivery_id, settlement_id, event_type, status, attempts,
                  created_at, delivered_at, next_attempt_at, response_status, last_error, url";
    // Does to many rows what the domain does on `DeliveryEvent::HasteAsked`; the suite's
    // `hasten_is_the_domains_haste_asked` compares them.
    cold "an operator's; a look-up for each row" HASTEN = "
        UPDATE deliveries SET next_attempt_at = $3
        FROM unnest($1::uuid[], $2::uuid[], $4::integer[]) AS asked (merchant_id, delivery_id, endpoint_epoch)
        CROSS JOIN LATERAL (
            SELECT ctid AS place FROM deliveries
            WHERE merchant_id = asked.merchant_id AND delivery_id = asked.delivery_id AND status = 'pending'
              AND deliveries.endpoint_epoch = asked.endpoint_epoch AND next_attempt_at > $3
            LIMIT 1
        ) AS found
        WHERE deliveries.ctid = found.place
        RETURNING deliveries.merchant_id, deliveries.delivery_id, settlement_id, event_type, status, attempts,
                  created_at, delivered_at, next_attempt_at, response_status, last_error, url";
}

#[async_trait]
impl DeliveryReads for PostgresStore {
    async fn delivery_page(
        &self,
        merchant: MerchantId,
        status: Option<DeliveryStatus>,
        page: PageRequest,
    ) -> StoreResult<Page<Delivery>> {
        let statement = if status.is_some() { PAGE_OF_STATUS } else { PAGE };
        let mut query =
            sqlx::query(statement).bind(merchant.0).bind(signed(page.limit())).bind(signed(page.offset()));
        if let Some(status) = status {
            query = query.bind(status.as_str());
        }
        let rows = query.fetch_all(self.pool.lists_of(merchant)).await.map_err(store_error)?;
        let (first, rows) = rows.split_first().ok_or(StoreError::UnknownMerchant(merchant))?;
        Ok(Page {
            rows: rows.iter().map(delivery).collect::<StoreResult<_>>()?,
            total: number(first, "total")?,
        })
    }

    async fn delivery_search(
        &self,
        filter: &DeliveryFilter,
        after: Option<DeliveryCursor>,
        limit: u32,
    ) -> StoreResult<Vec<(MerchantId, Delivery)>> {
        let after = after.unwrap_or(DeliveryCursor::START);
        let statement = if filter.status.is_some() { SEARCH_OF_STATUS } else { SEARCH };
        let mut query = bind_filter(sqlx::query(statement), filter)
            .bind(after.delivery_id.0)
            .bind(after.merchant_id.0)
            .bind(signed(limit));
        if let Some(status) = filter.status {
            query = query.bind(status.as_str());
        }
        let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(owned_delivery).collect()
    }

    async fn delivery_count(&self, filter: &DeliveryFilter) -> StoreResult<Vec<(MerchantId, u64)>> {
        let statuses = filter.status.map_or(DeliveryStatus::ALL.to_vec(), |status| vec![status]);
        let query = bind_filter(sqlx::query(COUNT), filter).bind(array(&statuses, |status| status.as_str()));
        let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(|row| Ok((id(row, "merchant_id", MerchantId)?, number(row, "number")?))).collect()
    }

    async fn delivery_find_many(
        &self,
        deliveries: &[DeliveryId],
    ) -> StoreResult<Vec<(MerchantId, Delivery)>> {
        let query = sqlx::query(FIND_MANY).bind(array(deliveries, |delivery| delivery.0));
        let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(owned_delivery).collect()
    }
}

#[async_trait]
impl DeliveryWrites for PostgresTx {
    async fn delivery_enqueue_many(
        &mut self,
        lock: &MerchantLock,
        deliveries: &[NewDelivery],
    ) -> StoreResult<()> {
        self.number.check(lock, deliveries.iter().map(|new| new.merchant_id))?;
        if deliveries.is_empty() {
            return Ok(());
        }
        let epochs = self.epochs.of_each(deliveries.iter().map(|new| new.merchant_id))?;
        let query = sqlx::query(ENQUEUE)
            .bind(array(deliveries, |new| new.merchant_id.0))
            .bind(array(deliveries, |new| new.delivery_id.0))
            .bind(array(deliveries, |new| new.settlement_id.0))
            .bind(array(deliveries, |new| new.event_type.as_str()))
            .bind(array(deliveries, |new| At(new.created_at)))
            .bind(array(deliveries, |new| new.url.as_str()))
            .bind(epochs);
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        for new in deliveries {
            self.counts.of(new.merchant_id).add_due(new.created_at);
        }
        Ok(())
    }

    async fn delivery_record_many(
        &mut self,
        lock: &MerchantLock,
        states: &[DeliveryState],
        at: Timestamp,
    ) -> StoreResult<Vec<DeliveryId>> {
        self.number.check(lock, states.iter().map(|state| state.merchant_id))?;
        let epochs = self.epochs.of_each(states.iter().map(|state| state.merchant_id))?;
        let query = sqlx::query_scalar(RECORD)
            .bind(array(states, |state| state.merchant_id.0))
            .bind(array(states, |state| state.delivery.delivery_id.0))
            .bind(array(states, |state| state.delivery.status.as_str()))
            .bind(array(states, |state| state.delivery.attempts))
            .bind(array(states, |state| state.delivery.delivered_at.map(At)))
            .bind(array(states, |state| At(state.delivery.next_attempt_at)))
            .bind(array(states, |state| state.delivery.response_status))
            .bind(array(states, |state| state.delivery.last_error.as_deref()))
            .bind(array(states, |state| state.seen.attempts))
            .bind(array(states, |state| At(state.seen.next_attempt_at)))
            .bind(epochs);
        let changed: Vec<Uuid> = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        self.recorded_at = Some(at);
        Ok(self.counts.record(states, changed))
    }

    async fn delivery_hasten_many(
        &mut self,
        lock: &MerchantLock,
        deliveries: &[(MerchantId, DeliveryId)],
        at: Timestamp,
    ) -> StoreResult<Vec<(MerchantId, Delivery)>> {
        let hastened = self.make_due(HASTEN, lock, deliveries, at).await?;
        for (merchant, _) in &hastened {
            self.counts.of(*merchant).hasten(at);
        }
        Ok(hastened)
    }

    async fn delivery_requeue_many(
        &mut self,
        lock: &MerchantLock,
        deliveries: &[(MerchantId, DeliveryId)],
        at: Timestamp,
    ) -> StoreResult<Vec<(MerchantId, Delivery)>> {
        let requeued = self.make_due(REQUEUE, lock, deliveries, at).await?;
        for (merchant, _) in &requeued {
            self.counts.of(*merchant).requeue(at);
        }
        Ok(requeued)
    }
}

impl PostgresTx {
    /// Runs a statement that makes given deliveries due, and gives those that it changed.
    async fn make_due(
        &mut self,
        statement: &'static str,
        lock: &MerchantLock,
        deliveries: &[(MerchantId, DeliveryId)],
        at: Timestamp,
    ) -> StoreResult<Vec<(MerchantId, Delivery)>> {
        self.number.check(lock, deliveries.iter().map(|(merchant, _)| *merchant))?;
        let epochs = self.epochs.of_each(deliveries.iter().map(|(merchant, _)| *merchant))?;
        let query = sqlx::query(statement)
            .bind(array(deliveries, |(merchant, _)| merchant.0))
            .bind(array(deliveries, |(_, delivery)| delivery.0))
            .bind(At(at))
            .bind(epochs);
        let rows = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        rows.iter().map(owned_delivery).collect()
    }
}

/// The first four arguments of a search.
fn bind_filter<'q>(
    query: Query<'q, Postgres, PgArguments>,
    filter: &'q DeliveryFilter,
) -> Query<'q, Postgres, PgArguments> {
    query
        .bind(filter.merchant.map_or(Uuid::nil(), |merchant| merchant.0))
        .bind(filter.merchant.map_or(Uuid::max(), |merchant| merchant.0))
        .bind(filter.since.map_or(DeliveryId::NIL, DeliveryId::first_at).0)
        .bind(filter.url.as_deref().unwrap_or_default())
}

/// A delivery and its merchant, which is the first column.
fn owned_delivery(row: &PgRow) -> StoreResult<(MerchantId, Delivery)> {
    Ok((id(row, 0, MerchantId)?, delivery(row)?))
}

/// A column that holds one of a few words. A word that only another version knows is an error.
fn word<T: FromStr>(row: &PgRow, index: usize, what: &str) -> StoreResult<T> {
    let text: &str = column(row, index)?;
    text.parse().map_err(|_| StoreError::unexpected(format!("a delivery with {what} {text}")))
}

/// Reads a delivery. Every statement names its columns in this order, behind one other column.
pub(crate) fn delivery(row: &PgRow) -> StoreResult<Delivery> {
    Ok(Delivery {
        delivery_id: id(row, 1, DeliveryId)?,
        settlement_id: id(row, 2, SettlementId)?,
        event_type: word(row, 3, "event type")?,
        status: word(row, 4, "status")?,
        attempts: column(row, 5)?,
        created_at: time(row, 6)?,
        delivered_at: optional_time(row, 7)?,
        next_attempt_at: time(row, 8)?,
        response_status: column(row, 9)?,
        last_error: column(row, 10)?,
        url: column(row, 11)?,
    })
}
