//! Alerts to operators.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Row, params};
use settle_domain::ids::{AlertId, MerchantId};
use settle_domain::seams::Entropy;
use settle_domain::time::Timestamp;
use settle_store::{
    ALERT_IDS_MAX, Alert, AlertReads, AlertWrites, DueTime, MerchantLock, Occurrence, PutOff, StoreError,
    StoreResult, by_subject, left_out,
};
use uuid::Uuid;

use crate::convert::{column, hex, id, json_rows, number, parsed, signed, time};
use crate::error::store_error;
use crate::query::Query;
use crate::{SqliteStore, SqliteTx};

/// Separates ids.
const SEPARATOR: char = ',';
/// The length of a hyphenated id and the separator behind it.
const SEPARATED_ID_LENGTH: usize = 37;

settle_store::statements! {
    // Differs because there is one writer: no other transaction can close the alert meanwhile. ?4 characters
    // are as many ids as an alert names at most.
    hot TELL = "
        INSERT INTO alerts (alert_id, merchant_id, kind, subject, occurrences, ids, last_text, first_at, last_at,
                            due_at)
        SELECT unhex(row.value ->> 0), unhex(row.value ->> 1), row.value ->> 2, row.value ->> 3,
               row.value ->> 4, row.value ->> 5, row.value ->> 6, ?2, ?2,
               max(?2, ifnull((SELECT min(closed_at, ?2) + ?3 FROM alerts AS last
                               WHERE last.merchant_id = unhex(row.value ->> 1)
                                 AND last.kind = row.value ->> 2 AND last.subject = row.value ->> 3
                                 AND last.closed_at IS NOT NULL
                               ORDER BY last.closed_at DESC LIMIT 1), ?2))
        FROM jsonb_each(?1) AS row WHERE true
        ON CONFLICT (merchant_id, kind, subject) WHERE closed_at IS NULL DO UPDATE
        SET occurrences = occurrences + excluded.occurrences,
            ids = substr(ids || iif('' IN (ids, excluded.ids), '', ',') || excluded.ids, 1, ?4),
            last_text = excluded.last_text, last_at = excluded.last_at";
    hot ANY_DUE = "
        SELECT EXISTS (
            SELECT 1 FROM alerts AS due
            WHERE due.sent_at IS NULL AND due.due_at <= ?1
              AND (due.closed_at IS NOT NULL OR NOT EXISTS (
                  SELECT 1 FROM alerts AS earlier
                  WHERE earlier.merchant_id = due.merchant_id AND earlier.kind = due.kind
                    AND earlier.subject = due.subject
                    AND earlier.closed_at IS NOT NULL AND earlier.sent_at IS NULL))
        ) OR EXISTS (SELECT 1 FROM alerts WHERE sent_at IS NULL AND due_at > ?2)";
    // What a clock put off that has stepped back since.
    hot HASTEN = "UPDATE alerts SET due_at = ?1 WHERE sent_at IS NULL AND due_at > ?2";
    hot TAKE = "
        UPDATE alerts SET closed_at = ifnull(closed_at, ?1), attempts = attempts + 1, due_at = ?2
        WHERE (merchant_id, alert_id) IN (
            SELECT due.merchant_id, due.alert_id FROM alerts AS due
            WHERE due.sent_at IS NULL AND due.due_at <= ?1
              AND (due.closed_at IS NOT NULL OR NOT EXISTS (
                  SELECT 1 FROM alerts AS earlier
                  WHERE earlier.merchant_id = due.merchant_id AND earlier.kind = due.kind
                    AND earlier.subject = due.subject
                    AND earlier.closed_at IS NOT NULL AND earlier.sent_at IS NULL))
            ORDER BY due.due_at LIMIT ?3 + 0
        )
        RETURNING alert_id, merchant_id, kind, subject, occurrences, ids, last_text, first_at, last_at, attempts";
    hot SENT = "
        UPDATE alerts SET sent_at = ifnull(sent_at, ?2)
        WHERE (merchant_id, alert_id) IN (
            SELECT unhex(row.value ->> 0), unhex(row.value ->> 1) FROM jsonb_each(?1) AS row
        )";
    hot PUT_OFF = "
        UPDATE alerts SET due_at = later.due_at
        FROM (SELECT unhex(row.value ->> 0) AS merchant_id, unhex(row.value ->> 1) AS alert_id,
                     row.value ->> 2 AS due_at
              FROM jsonb_each(?1) AS row) AS later
        WHERE alerts.merchant_id = later.merchant_id AND alerts.alert_id = later.alert_id";
}

#[async_trait]
impl AlertReads for SqliteStore {
    async fn alert_any_due(&self, due: DueTime) -> StoreResult<bool> {
        let times = [due.by.as_micros(), due.beyond.as_micros()];
        let any = self.connections.read(|connection| connection.row(ANY_DUE, times, |row| column(row, 0)))?;
        Ok(any.unwrap_or(false))
    }
}

#[async_trait]
impl AlertWrites for SqliteTx {
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
        let rows = json_rows(subjects.iter().map(|happened| {
            let (alert, merchant) = (hex(happened.alert_id.0), hex(happened.merchant_id.0));
            let (kind, ids) = (happened.kind.as_str(), separated(&happened.ids));
            let number = signed(happened.occurrences);
            (alert, merchant, kind, &happened.subject, number, ids, &happened.last_text)
        }));
        let characters = ALERT_IDS_MAX * SEPARATED_ID_LENGTH - SEPARATOR.len_utf8();
        let characters = i64::try_from(characters).unwrap_or(i64::MAX);
        let quiet = i64::try_from(quiet.as_micros()).unwrap_or(i64::MAX);
        self.writer
            .connection()?
            .change(TELL, params![rows, at.as_micros(), quiet, characters])
            .map_err(store_error)?;
        Ok(())
    }

    async fn alert_take(
        &mut self,
        due: DueTime,
        hold_until: Timestamp,
        limit: u32,
    ) -> StoreResult<Vec<Alert>> {
        let connection = self.writer.connection()?;
        connection.change(HASTEN, [due.by.as_micros(), due.beyond.as_micros()]).map_err(store_error)?;
        let taken = params![due.by.as_micros(), hold_until.as_micros(), signed(limit)];
        // What is left out is held as the others are: it keeps none of them back.
        let alerts = connection.rows(TAKE, taken, |row| left_out("an alert", alert(row)))?;
        Ok(alerts.into_iter().flatten().collect())
    }

    async fn alert_sent(&mut self, alerts: &[(MerchantId, AlertId)], at: Timestamp) -> StoreResult<()> {
        let ids = json_rows(alerts.iter().map(|(merchant, alert)| (hex(merchant.0), hex(alert.0))));
        self.writer.connection()?.change(SENT, params![ids, at.as_micros()]).map_err(store_error)?;
        Ok(())
    }

    async fn alert_put_off(&mut self, alerts: &[PutOff]) -> StoreResult<()> {
        let row =
            |later: &PutOff| (hex(later.merchant_id.0), hex(later.alert_id.0), later.due_at.as_micros());
        self.writer
            .connection()?
            .change(PUT_OFF, [json_rows(alerts.iter().map(row))])
            .map_err(store_error)?;
        Ok(())
    }
}

fn separated(ids: &[Uuid]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    ids.join(SEPARATOR.encode_utf8(&mut [0; 4]))
}

fn alert(row: &Row<'_>) -> StoreResult<Alert> {
    let ids: String = column(row, "ids")?;
    let ids = ids.split(SEPARATOR).filter(|id| !id.is_empty()).map(str::parse).collect::<Result<_, _>>();
    Ok(Alert {
        alert_id: id(row, "alert_id", AlertId)?,
        merchant_id: id(row, "merchant_id", MerchantId)?,
        kind: parsed(row, "kind")?,
        subject: column(row, "subject")?,
        occurrences: number(row, "occurrences")?,
        ids: ids.map_err(|_| StoreError::unexpected("an alert of things without ids"))?,
        last_text: column(row, "last_text")?,
        first_at: time(row, "first_at")?,
        last_at: time(row, "last_at")?,
        attempts: column(row, "attempts")?,
    })
}
