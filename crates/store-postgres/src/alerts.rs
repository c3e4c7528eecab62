//! Alerts to operators.

use std::time::Duration;

use async_trait::async_trait;
use settle_domain::ids::{AlertId, MerchantId};
use settle_domain::seams::Entropy;
use settle_domain::time::Timestamp;
use settle_store::{
    ALERT_IDS_MAX, Alert, AlertReads, AlertWrites, DueTime, MerchantLock, Occurrence, PutOff, StoreResult,
    by_subject, left_out,
};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::convert::{At, array, column, id, number, parsed, signed, time};
use crate::error::store_error;
use crate::{PostgresStore, PostgresTx};

settle_store::statements! {
    // An alerter takes alerts without locking their merchants. After this statement nobody can close an open
    // alert until we commit, and the next statement sees when an alert was closed just before.
    hot LOCK_OPEN = "
        SELECT FROM unnest($1::uuid[], $2::text[], $3::text[]) AS asked (merchant_id, kind, subject)
        CROSS JOIN LATERAL (
            SELECT FROM alerts
            WHERE merchant_id = asked.merchant_id AND kind = asked.kind AND subject = asked.subject
              AND closed_at IS NULL
            LIMIT 1 FOR UPDATE
        ) AS open";
    hot TELL = "
        INSERT INTO alerts (alert_id, merchant_id, kind, subject, occurrences, ids, last_text, first_at, last_at,
                            due_at)
        SELECT given.alert_id, given.merchant_id, given.kind, given.subject, given.occurrences,
               given.ids::uuid[], given.last_text, $8, $8,
               greatest($8, last.closed_at + $9 * interval '1 second')
        FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[])
            AS given (alert_id, merchant_id, kind, subject, occurrences, ids, last_text)
        LEFT JOIN LATERAL (
            SELECT least(closed_at, $8) AS closed_at FROM alerts
            WHERE merchant_id = given.merchant_id AND kind = given.kind AND subject = given.subject
              AND closed_at IS NOT NULL
            ORDER BY alerts.closed_at DESC LIMIT 1
        ) AS last ON true
        ON CONFLICT (merchant_id, kind, subject) WHERE closed_at IS NULL DO UPDATE
        SET occurrences = alerts.occurrences + excluded.occurrences,
            ids = (alerts.ids || excluded.ids)[1:$10],
            last_text = excluded.last_text, last_at = excluded.last_at";
    // A subquery does one look-up per row: for NOT EXISTS the planner would read all alerts being sent.
    hot ANY_DUE = "
        SELECT EXISTS (
            SELECT FROM alerts AS due
            WHERE due.sent_at IS NULL AND due.due_at <= $1
              AND (due.closed_at IS NOT NULL OR (
                  SELECT earlier.alert_id FROM alerts AS earlier
                  WHERE earlier.merchant_id = due.merchant_id AND earlier.kind = due.kind
                    AND earlier.subject = due.subject
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
                  WHERE earlier.merchant_id = due.merchant_id AND earlier.kind = due.kind
                    AND earlier.subject = due.subject
                    AND earlier.closed_at IS NOT NULL AND earlier.sent_at IS NULL
                  LIMIT 1) IS NULL)
            ORDER BY due.due_at LIMIT $3 FOR UPDATE SKIP LOCKED
        )
        UPDATE alerts SET closed_at = coalesce(closed_at, $1), attempts = attempts + 1, due_at = $2
        FROM unnest(ARRAY(SELECT merchant_id FROM due), ARRAY(SELECT alert_id FROM due))
            AS taken (merchant_id, alert_id)
        WHERE alerts.merchant_id = taken.merchant_id AND alerts.alert_id = taken.alert_id
        RETURNING alerts.alert_id, alerts.merchant_id, kind, subject, occurrences, ids, last_text, first_at,
                  last_at, attempts";
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
    async fn alert_tell_many(
        &mut self,
        lock: Option<&MerchantLock>,
        occurrences: &[Occurrence],
        at: Timestamp,
        quiet: Duration,
        entropy: &dyn Entropy,
    ) -> StoreResult<()> {
        self.number.check_any(lock, occurrences.iter().filter_map(|occurrence| occurrence.merchant_id))?;
        let subjects = by_subject(occurrences, at, entropy);
        let lock = sqlx::query(LOCK_OPEN)
            .bind(array(&subjects, |happened| happened.merchant_id.0))
            .bind(array(&subjects, |happened| happened.kind.as_str()))
            .bind(array(&subjects, |happened| happened.subject.as_str()));
        lock.execute(&mut *self.inner).await.map_err(store_error)?;
        let tell = sqlx::query(TELL)
            .bind(array(&subjects, |happened| happened.alert_id.0))
            .bind(array(&subjects, |happened| happened.merchant_id.0))
            .bind(array(&subjects, |happened| happened.kind.as_str()))
            .bind(array(&subjects, |happened| happened.subject.as_str()))
            .bind(array(&subjects, |happened| signed(happened.occurrences)))
            .bind(array(&subjects, |happened| array_text(&happened.ids)))
            .bind(array(&subjects, |happened| happened.last_text.as_str()))
            .bind(At(at))
            .bind(quiet.as_secs_f64())
            .bind(i32::try_from(ALERT_IDS_MAX).unwrap_or(i32::MAX));
        tell.execute(&mut *self.inner).await.map_err(store_error)?;
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
        // What is left out is held as the others are: it keeps none of them back.
        let alerts = rows.iter().map(|row| left_out("an alert", alert(row)));
        alerts.filter_map(StoreResult::transpose).collect()
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
fn array_text(ids: &[Uuid]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    format!("{{{}}}", ids.join(","))
}

fn alert(row: &PgRow) -> StoreResult<Alert> {
    Ok(Alert {
        alert_id: id(row, "alert_id", AlertId)?,
        merchant_id: id(row, "merchant_id", MerchantId)?,
        kind: parsed(row, "kind")?,
        subject: column(row, "subject")?,
        occurrences: number(row, "occurrences")?,
        ids: column(row, "ids")?,
        last_text: column(row, "last_text")?,
        first_at: time(row, "first_at")?,
        last_at: time(row, "last_at")?,
        attempts: column(row, "attempts")?,
    })
}
