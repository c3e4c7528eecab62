//! Notification deliveries.

use std::str::FromStr;

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use settle_domain::delivery::{Delivery, DeliveryStatus};
use settle_domain::ids::{DeliveryId, MerchantId, SettlementId};
use settle_domain::page::{Page, PageRequest};
use settle_domain::time::Timestamp;
use settle_store::{
    DeliveryCursor, DeliveryFilter, DeliveryReads, DeliveryState, DeliveryWrites, MerchantLock, NewDelivery,
    StoreError, StoreResult,
};
use uuid::Uuid;

use crate::connections::in_snapshot;
use crate::convert::{column, hex, id, json_rows, number, optional_time, signed, text, time};
use crate::query::Query;
use crate::{SqliteStore, SqliteTx};

settle_store::statements! {
    hot TOTALS = "
        SELECT deliveries_pending, deliveries_delivered, deliveries_dead FROM merchant_counts
        WHERE merchant_id = ?1";
    hot PAGE = "
        SELECT delivery_id, settlement_id, event_type, status, attempts, created_at, delivered_at,
               next_attempt_at, response_status, last_error, url
        FROM deliveries WHERE merchant_id = ?1
        ORDER BY delivery_id DESC LIMIT ?2 + 0 OFFSET ?3 + 0";
    // Without the cast SQLite would plan again for every other status, because of the partial index. The
    // index is named in every statement that asks for a status, because without statistics SQLite takes the
    // primary key, and walks the merchant's whole log when nothing in it has that status.
    hot PAGE_OF_STATUS = "
        SELECT delivery_id, settlement_id, event_type, status, attempts, created_at, delivered_at,
               next_attempt_at, response_status, last_error, url
        FROM deliveries INDEXED BY deliveries_listed_by_status
        WHERE merchant_id = ?1 AND status = CAST(?4 AS TEXT)
        ORDER BY delivery_id DESC LIMIT ?2 + 0 OFFSET ?3 + 0";
    // Goes from merchant to merchant, because each one's index gives its newest rows first. Without a
    // merchant ?1 and ?2 span all ids. ?3 is the first id that can have been made at the given time; without
    // a time, or without a cursor (?5, ?6), the least or the greatest id stands there. Differs because SQLite
    // has no lateral joins.
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
                SELECT delivery_id FROM deliveries INDEXED BY deliveries_listed_by_status
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
        CROSS JOIN deliveries AS found INDEXED BY deliveries_listed_by_status
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
                                endpoint_epoch, created_at, next_attempt_at, url)
        VALUES (?1, ?2, ?3, ?4, 'pending', 0, ?7, ?5, ?5, ?6)";
    hot RECORD = "
        UPDATE deliveries
        SET status = ?3, attempts = ?4, delivered_at = ?5, next_attempt_at = ?6, response_status = ?7,
            last_error = ?8
        WHERE merchant_id = ?1 AND delivery_id = ?2 AND status = 'pending' AND attempts = ?9
          AND next_attempt_at = ?10 AND endpoint_epoch = ?11";
    // Does to many rows what the domain does on `DeliveryEvent::RedeliveryAsked`; the suite's
    // `requeue_is_the_domains_redelivery_asked` compares them.
    hot REQUEUE = "
        UPDATE deliveries
        SET status = 'pending', attempts = 0, next_attempt_at = ?2, endpoint_epoch = asked.endpoint_epoch
        FROM (SELECT unhex(row.value ->> 0) AS merchant_id, unhex(row.value ->> 1) AS delivery_id,
                     row.value ->> 2 AS endpoint_epoch
              FROM jsonb_each(?1) AS row) AS asked
        WHERE deliveries.merchant_id = asked.merchant_id AND deliveries.delivery_id = asked.delivery_id
          AND deliveries.status = 'dead'
        RETURNING deliveries.merchant_id, deliveries.delivery_id, settlement_id, event_type, status, attempts,
                  created_at, delivered_at, next_attempt_at, response_status, last_error, url";
    // Does to many rows what the domain does on `DeliveryEvent::HasteAsked`; the suite's
    // `hasten_is_the_domains_haste_asked` compares them.
    cold "an operator's; a look-up for each row" HASTEN = "
        UPDATE deliveries SET next_attempt_at = ?2
        FROM (SELECT unhex(row.value ->> 0) AS merchant_id, unhex(row.value ->> 1) AS delivery_id,
                     row.value ->> 2 AS endpoint_epoch
              FROM jsonb_each(?1) AS row) AS asked
        WHERE deliveries.merchant_id = asked.merchant_id AND deliveries.delivery_id = asked.delivery_id
          AND deliveries.status = 'pending' AND deliveries.endpoint_epoch = asked.endpoint_epoch
          AND deliveries.next_attempt_at > ?2
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
        // One snapshot for the total and the page.
        let read = |snapshot: &Connection| {
            let total = snapshot.row(TOTALS, [merchant.0], |row| total(row, status))?;
            let total = total.ok_or(StoreError::UnknownMerchant(merchant))?;
            let (limit, offset) = (signed(page.limit()), signed(page.offset()));
            let row = |row: &Row<'_>| delivery(row, 0);
            let rows = match status {
                None => snapshot.rows(PAGE, params![merchant.0, limit, offset], row),
                Some(status) => {
                    let asked = params![merchant.0, limit, offset, status.as_str()];
                    snapshot.rows(PAGE_OF_STATUS, asked, row)
                }
            };
            Ok(Page { rows: rows?, total })
        };
        let read = |connection: &Connection| in_snapshot(connection, read);
        self.connections.read_page(page.offset().into(), read).await
    }

    async fn delivery_search(
        &self,
        filter: &DeliveryFilter,
        after: Option<DeliveryCursor>,
        limit: u32,
    ) -> StoreResult<Vec<(MerchantId, Delivery)>> {
        let after = after.unwrap_or(DeliveryCursor::START);
        let (from, to, since, url) = bounds(filter);
        let limit = signed(limit);
        let search = |connection: &Connection| match filter.status {
            None => {
                let asked = params![from, to, since, url, after.delivery_id.0, after.merchant_id.0, limit];
                connection.rows(SEARCH, asked, owned_delivery)
            }
            Some(status) => {
                let (delivery, merchant) = (after.delivery_id.0, after.merchant_id.0);
                let asked = params![from, to, since, url, delivery, merchant, limit, status.as_str()];
                connection.rows(SEARCH_OF_STATUS, asked, owned_delivery)
            }
        };
        self.connections.read_long(search).await
    }

    async fn delivery_count(&self, filter: &DeliveryFilter) -> StoreResult<Vec<(MerchantId, u64)>> {
        let statuses = filter.status.map_or(DeliveryStatus::ALL.to_vec(), |status| vec![status]);
        let statuses = json_rows(statuses.iter().map(|status| status.as_str()));
        let (from, to, since, url) = bounds(filter);
        let count = |connection: &Connection| {
            connection.rows(COUNT, params![from, to, since, url, statuses], |row| {
                Ok((id(row, 0, MerchantId)?, number(row, 1)?))
            })
        };
        self.connections.read_long(count).await
    }

    async fn delivery_find_many(
        &self,
        deliveries: &[DeliveryId],
    ) -> StoreResult<Vec<(MerchantId, Delivery)>> {
        let ids = json_rows(deliveries.iter().map(|delivery| hex(delivery.0)));
        let find = |connection: &Connection| connection.rows(FIND_MANY, [ids], owned_delivery);
        self.connections.read_long(find).await
    }
}

#[async_trait]
impl DeliveryWrites for SqliteTx {
    async fn delivery_enqueue_many(
        &mut self,
        lock: &MerchantLock,
        deliveries: &[NewDelivery],
    ) -> StoreResult<()> {
        self.number.check(lock, deliveries.iter().map(|new| new.merchant_id))?;
        let epochs = self.epochs.of_each(deliveries.iter().map(|new| new.merchant_id))?;
        let rows = deliveries.iter().zip(epochs).map(|(new, epoch)| {
            let (merchant, delivery, settlement) =
                (new.merchant_id.0, new.delivery_id.0, new.settlement_id.0);
            let (event, created_at) = (new.event_type.as_str(), new.created_at.as_micros());
            (merchant, delivery, settlement, event, created_at, &new.url, epoch)
        });
        self.writer.change_each(ENQUEUE, rows).await?;
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
        let rows = states.iter().zip(epochs).map(|(state, epoch)| {
            let DeliveryState { merchant_id, seen, delivery } = state;
            (
                merchant_id.0,
                delivery.delivery_id.0,
                delivery.status.as_str(),
                delivery.attempts,
                delivery.delivered_at.map(Timestamp::as_micros),
                delivery.next_attempt_at.as_micros(),
                delivery.response_status,
                &delivery.last_error,
                seen.attempts,
                seen.next_attempt_at.as_micros(),
                epoch,
            )
        });
        let changed = self.writer.change_each(RECORD, rows).await?;
        let changed = states.iter().zip(changed).filter(|(_, is_changed)| *is_changed);
        let changed = changed.map(|(state, _)| state.delivery.delivery_id.0).collect();
        self.recorded_at = Some(at);
        Ok(self.counts.record(states, changed))
    }

    async fn delivery_hasten_many(
        &mut self,
        lock: &MerchantLock,
        deliveries: &[(MerchantId, DeliveryId)],
        at: Timestamp,
    ) -> StoreResult<Vec<(MerchantId, Delivery)>> {
        let hastened = self.make_due(HASTEN, lock, deliveries, at)?;
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
        let requeued = self.make_due(REQUEUE, lock, deliveries, at)?;
        for (merchant, _) in &requeued {
            self.counts.of(*merchant).requeue(at);
        }
        Ok(requeued)
    }
}

impl SqliteTx {
    /// Runs a statement that makes given deliveries due, and gives those that it changed.
    fn make_due(
        &mut self,
        statement: &'static str,
        lock: &MerchantLock,
        deliveries: &[(MerchantId, DeliveryId)],
        at: Timestamp,
    ) -> StoreResult<Vec<(MerchantId, Delivery)>> {
        self.number.check(lock, deliveries.iter().map(|(merchant, _)| *merchant))?;
        let epochs = self.epochs.of_each(deliveries.iter().map(|(merchant, _)| *merchant))?;
        let row = |((merchant, delivery), epoch): (&(MerchantId, DeliveryId), i32)| {
            (hex(merchant.0), hex(delivery.0), epoch)
        };
        let rows = json_rows(deliveries.iter().zip(epochs).map(row));
        self.writer.connection()?.rows(statement, params![rows, at.as_micros()], owned_delivery)
    }
}

/// The first four arguments of a search.
fn bounds(filter: &DeliveryFilter) -> (Uuid, Uuid, Uuid, &str) {
    (
        filter.merchant.map_or(Uuid::nil(), |merchant| merchant.0),
        filter.merchant.map_or(Uuid::max(), |merchant| merchant.0),
        filter.since.map_or(DeliveryId::NIL, DeliveryId::first_at).0,
        filter.url.as_deref().unwrap_or_default(),
    )
}

/// How many deliveries the merchant has, in all or with the given status.
fn total(row: &Row<'_>, status: Option<DeliveryStatus>) -> StoreResult<u64> {
    let (pending, delivered, dead) = (number(row, 0)?, number(row, 1)?, number(row, 2)?);
    Ok(match status {
        None => pending + delivered + dead,
        Some(DeliveryStatus::Pending) => pending,
        Some(DeliveryStatus::Delivered) => delivered,
        Some(DeliveryStatus::Dead) => dead,
    })
}

/// A delivery and its merchant, which is the first column.
fn owned_delivery(row: &Row<'_>) -> StoreResult<(MerchantId, Delivery)> {
    Ok((id(row, 0, MerchantId)?, delivery(row, 1)?))
}

/// A column that holds one of a few words. A word that only another version knows is an error.
fn word<T: FromStr>(row: &Row<'_>, index: usize, what: &str) -> StoreResult<T> {
    let text = text(row, index)?;
    text.parse().map_err(|_| StoreError::unexpected(format!("a delivery with {what} {text}")))
}

/// Reads a delivery from the given column on. Every statement names its columns in this order: finding a
/// column by its name would cost more than reading it.
pub(crate) fn delivery(row: &Row<'_>, first: usize) -> StoreResult<Delivery> {
    Ok(Delivery {
        delivery_id: id(row, first, DeliveryId)?,
        settlement_id: id(row, first + 1, SettlementId)?,
        event_type: word(row, first + 2, "event type")?,
        status: word(row, first + 3, "status")?,
        attempts: column(row, first + 4)?,
        created_at: time(row, first + 5)?,
        delivered_at: optional_time(row, first + 6)?,
        next_attempt_at: time(row, first + 7)?,
        response_status: column(row, first + 8)?,
        last_error: column(row, first + 9)?,
        url: column(row, first + 10)?,
    })
}
