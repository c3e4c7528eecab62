//! Alerts to operators about deliveries that died.

use std::time::Duration;

use async_trait::async_trait;
use settle_domain::ids::{AlertId, DeliveryId, MerchantId};
use settle_domain::seams::Entropy;
use settle_domain::time::Timestamp;
use settle_store::{
    ALERT_DELIVERIES_MAX, Alert, AlertReads, AlertWrites, Death, DueTime, MerchantLock, PutOff, StoreResult,
    by_endpoint,
};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::convert::{At, array, column, id, number, signed, time};
use crate::error::store_error;
use crate::{PostgresStore, PostgresTx};

settle_store::statements! {
    // An alerter takes alerts without locking their merchants. After this statement nobody can close an open
    // alert until we commit, and the next statement sees when an alert was closed just before.
    hot LOCK_OPEN = "
        SELECT FROM unnest($1::uuid[], $2::text[]) AS asked (merchant_id, url)
        CROSS JOIN LATERAL (
            SELECT FROM alerts
            WHERE merchant_id = asked.merchant_id AND url = asked.url AND closed_at IS NULL
            LIMIT 1 FOR UPDATE
        ) AS open";
    hot RAISE = "
        INSERT INTO alerts (alert_id, merchant_id, url, deaths, delivery_ids, last_error, first_at, last_at,
                            due_at)
        SELECT given.alert_id, given.merchant_id, given.url, given.deaths, given.delivery_ids::uuid[],
               given.last_error, $7, $7, greatest($7, last.closed_at + $8 * interval '1 second')
        FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bigint[], $5::text[], $6::text[])
            AS given (alert_id, merchant_id, url, deaths, delivery_ids, last_error)
        LEFT JOIN LATERAL (
            SELECT least(closed_at, $7) AS closed_at FROM alerts
            WHERE merchant_id = given.merchant_id AND url = given.url AND closed_at IS NOT NULL
            ORDER BY alerts.closed_at DESC LIMIT 1
        ) AS last ON true
        ON CONFLICT (merchant_id, url) WHERE closed_at IS NULL DO UPDATE
        SET deaths = alerts.deaths + excluded.deaths,
            delivery_ids = (alerts.delivery_ids || excluded.delivery_ids)[1:$9],
            last_error = excluded.last_error, last_at = excluded.last_at";
    // A subquery does one look-up per row: for NOT EXISTS the planner would read all alerts being sent.
    hot ANY_DUE = "
        SELECT EXISTS (
            SELECT FROM alerts AS due
            WHERE due.sent_at IS NULL AND due.due_at <= $1
              AND (due.closed_at IS NOT NULL OR (
                  SELECT earlier.alert_id FROM alerts AS earlier
                  WHERE earlier.merchant_id = due.merchant_id AND earlier.url = due.url
                    AND earlier.closed_at IS NOT NULL AND earlier.sent_at IS NULL
                  LIMIT 1) IS NULL)
            LIMIT 1
        ) OR EXISTS (SELECT FROM alerts WHERE sent_at IS NULL AND due_at > $2 LIMIT 1)";
    // What a clock put off that has stepped back since.
    hot HASTEN = "UPDATE alerts SET due_at = $1 WHERE sent_at IS NULL AND due_at > $2";
    // Arrays, because for a limit that it does not know the planner would read the whole table. Alerts that
    // another transaction takes, or adds deaths to, are left for the next look.
    hot TAKE = "
        WITH due AS MATERIALIZED (
            SELECT due.merchant_id, due.alert_id FROM alerts AS due
            WHERE due.sent_at IS NULL AND due.due_at <= $1
              AND (due.closed_at IS NOT NULL OR (
                  SELECT earlier.alert_id FROM alerts AS earlier
                  WHERE earlier.merchant_id = due.merchant_id AND earlier.url = due.url
                    AND earlier.closed_at IS NOT NULL AND earlier.sent_at IS NULL
                  LIMIT 1) IS NULL)
            ORDER BY due.due_at LIMIT $3 FOR UPDATE SKIP LOCKED
        )
        UPDATE alerts SET closed_at = coalesce(closed_at, $1), attempts = attempts + 1, due_at = $2
        FROM unnest(ARRAY(SELECT merchant_id FROM due), ARRAY(SELECT alert_id FROM due))
            AS taken (merchant_id, alert_id)
        WHERE alerts.merchant_id = taken.merchant_id AND alerts.alert_id = taken.alert_id
        RETURNING alerts.alert_id, alerts.merchant_id, url, deaths, delivery_ids, last_error, first_at, last_at, attempts";
    hot SENT = "
        UPDATE alerts SET sent_at = coalesce(sent_at, $3)
        FROM unnest($1::uuid[], $2::uuid[]) AS told (merchant_id, alert_id)
        WHERE alerts.merchant_id = told.merchant_id AND alerts.alert_id = told.alert_id";
    hot PUT_OFF = "
        UPDATE alerts SET due_at = later.due_at
        FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) AS later (merchant_id, alert_id, due_at)
        WHERE alerts.merchant_id = later.merchant_id AND alerts.alert_id = later.alert_id";
}

#[async_trait]
impl AlertReads for PostgresStore {
    async fn alert_any_due(&self, due: DueTime) -> StoreResult<bool> {
        let query = sqlx::query_scalar(ANY_DUE).bind(At(due.by)).bind(At(due.beyond));
        query.fetch_one(&self.pool).await.map_err(store_error)
    }
}

#[async_trait]
impl AlertWrites for PostgresTx {
    async fn alert_raise_many(
        &mut self,
        lock: &MerchantLock,
        deaths: &[Death],
        at: Timestamp,
        quiet: Duration,
        entropy: &dyn Entropy,
    ) -> StoreResult<()> {
        self.number.check(lock, deaths.iter().map(|death| death.merchant_id))?;
        let endpoints = by_endpoint(deaths, at, entropy);
        let lock = sqlx::query(LOCK_OPEN)
            .bind(array(&endpoints, |endpoint| endpoint.merchant_id.0))
            .bind(array(&endpoints, |endpoint| endpoint.url.as_str()));
        lock.execute(&mut *self.inner).await.map_err(store_error)?;
        let raise = sqlx::query(RAISE)
            .bind(array(&endpoints, |endpoint| endpoint.alert_id.0))
            .bind(array(&endpoints, |endpoint| endpoint.merchant_id.0))
            .bind(array(&endpoints, |endpoint| endpoint.url.as_str()))
            .bind(array(&endpoints, |endpoint| signed(endpoint.deaths)))
            .bind(array(&endpoints, |endpoint| array_text(&endpoint.delivery_ids)))
            .bind(array(&endpoints, |endpoint| endpoint.last_error.as_str()))
            .bind(At(at))
            .bind(quiet.as_secs_f64())
            .bind(i32::try_from(ALERT_DELIVERIES_MAX).unwrap_or(i32::MAX));
        raise.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }

    async fn alert_take(
        &mut self,
        due: DueTime,
        hold_until: Timestamp,
        limit: u32,
    ) -> StoreResult<Vec<Alert>> {
        let query = sqlx::query(HASTEN).bind(At(due.by)).bind(At(due.beyond));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        let query = sqlx::query(TAKE).bind(At(due.by)).bind(At(hold_until)).bind(signed(limit));
        let rows = query.fetch_all(&mut *self.inner).await.map_err(store_error)?;
        rows.iter().map(alert).collect()
    }

    async fn alert_sent(&mut self, alerts: &[(MerchantId, AlertId)], at: Timestamp) -> StoreResult<()> {
        let query = sqlx::query(SENT)
            .bind(array(alerts, |(merchant, _)| merchant.0))
            .bind(array(alerts, |(_, alert)| alert.0))
            .bind(At(at));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }

    async fn alert_put_off(&mut self, alerts: &[PutOff]) -> StoreResult<()> {
        let query = sqlx::query(PUT_OFF)
            .bind(array(alerts, |later| later.merchant_id.0))
            .bind(array(alerts, |later| later.alert_id.0))
            .bind(array(alerts, |later| At(later.due_at)));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }
}

/// Ids as the text of an array: `unnest` would take arrays of arrays apart.
fn array_text(deliveries: &[DeliveryId]) -> String {
    let ids: Vec<String> = deliveries.iter().map(ToString::to_string).collect();
    format!("{{{}}}", ids.join(","))
}

fn alert(row: &PgRow) -> StoreResult<Alert> {
    let delivery_ids: Vec<Uuid> = column(row, "delivery_ids")?;
    Ok(Alert {
        alert_id: id(row, "alert_id", AlertId)?,
        merchant_id: id(row, "merchant_id", MerchantId)?,
        url: column(row, "url")?,
        deaths: number(row, "deaths")?,
        delivery_ids: delivery_ids.into_iter().map(DeliveryId).collect(),
        last_error: column(row, "last_error")?,
        first_at: time(row, "first_at")?,
        last_at: time(row, "last_at")?,
        attempts: column(row, "attempts")?,
    })
}
