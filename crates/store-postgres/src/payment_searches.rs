//! Searches over the payments of all merchants.

use std::time::Duration;

use async_trait::async_trait;
use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::payment::{Flag, StateName};
use settle_domain::provider::ProviderName;
use settle_domain::reason::{Blocked, Reason};
use settle_domain::time::Timestamp;
use settle_store::{
    LatePayment, PaymentCount, PaymentFilter, PaymentRow, PaymentSearches, ReadablePage, SearchedBy,
    StoreResult, left_out,
};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::PostgresStore;
use crate::convert::{At, id, number, optional_parsed, optional_time, parsed, signed, time};
use crate::error::store_error;
use crate::payments::payment;

settle_store::statements! {
    // By merchant, as the index is; sorted anew are the payments of one merchant at a time. The inner
    // order is one that no other index has, so that the planner has no other way, and the offset keeps it.
    cold "an operator's; a row for each open payment of the merchants up to the page's end" OPEN = "
        SELECT * FROM (
            SELECT merchant_id, payment_id, payin_source, payin_reference, state, version, reason, blocked,
                   provider, created_at, changed_at, due_at, request, progress
            FROM payments
            WHERE is_open AND (merchant_id, payment_id) > ($1, $2) AND merchant_id >= $3 AND merchant_id <= $4
              AND ($5::text IS NULL OR state = $5)
              AND ($6::text IS NULL OR blocked = $6) AND ($7::text IS NULL OR reason = $7)
              AND ($8::text IS NULL OR provider = $8) AND $9::text IS NULL
              AND ($10::timestamptz IS NULL OR changed_at <= $10) AND $12::text IS NULL
            ORDER BY merchant_id, due_at, payment_id OFFSET 0
        ) AS open
        ORDER BY merchant_id, payment_id LIMIT $11";
    // The index begins with the receiving account: each account is found behind the one before, and asked for
    // the reference.
    cold "an operator's; two look-ups for each receiving account" BY_REFERENCE = "
        WITH RECURSIVE sources (source) AS (
            (SELECT payin_source FROM payments ORDER BY payin_source LIMIT 1)
            UNION ALL
            SELECT next.payin_source FROM sources CROSS JOIN LATERAL (
                SELECT payin_source FROM payments WHERE payin_source > source ORDER BY payin_source LIMIT 1
            ) AS next
        )
        SELECT found.* FROM sources CROSS JOIN LATERAL (
            SELECT merchant_id, payment_id, payin_source, payin_reference, state, version, reason, blocked,
                   provider, created_at, changed_at, due_at, request, progress, is_open
            FROM payments WHERE payin_source = source AND payin_reference = $9 LIMIT 1
        ) AS found
        WHERE (merchant_id, payment_id) > ($1, $2) AND merchant_id >= $3 AND merchant_id <= $4
          AND (state = $5 OR ($5 IS NULL AND is_open))
          AND ($6::text IS NULL OR blocked = $6) AND ($7::text IS NULL OR reason = $7)
          AND ($8::text IS NULL OR provider = $8)
          AND ($10::timestamptz IS NULL OR changed_at <= $10) AND $12::text IS NULL
        ORDER BY merchant_id, payment_id LIMIT $11";
    cold "an operator's; a row for each refunded payment up to the page's end" REFUNDED = "
        SELECT merchant_id, payment_id, payin_source, payin_reference, state, version, reason, blocked,
               provider, created_at, changed_at, due_at, request, progress
        FROM payments
        WHERE is_refunded AND state = $5
          AND (merchant_id, payment_id) > ($1, $2) AND merchant_id >= $3 AND merchant_id <= $4
          AND ($6::text IS NULL OR blocked = $6) AND ($7::text IS NULL OR reason = $7)
          AND ($8::text IS NULL OR provider = $8) AND $9::text IS NULL
          AND ($10::timestamptz IS NULL OR changed_at <= $10) AND $12::text IS NULL
        ORDER BY merchant_id, payment_id LIMIT $11";
    // Nearly all payments are completed: nothing else is in the way of a page, unless another mark is
    // asked for.
    cold "an operator's; a row for each payment up to the page's end, by a rare mark all of those asked for"
    COMPLETED = "
        SELECT merchant_id, payment_id, payin_source, payin_reference, state, version, reason, blocked,
               provider, created_at, changed_at, due_at, request, progress
        FROM payments
        WHERE state = $5
          AND (merchant_id, payment_id) > ($1, $2) AND merchant_id >= $3 AND merchant_id <= $4
          AND ($6::text IS NULL OR blocked = $6) AND ($7::text IS NULL OR reason = $7)
          AND ($8::text IS NULL OR provider = $8) AND $9::text IS NULL
          AND ($10::timestamptz IS NULL OR changed_at <= $10) AND $12::text IS NULL
        ORDER BY merchant_id, payment_id LIMIT $11";
    // By their flag, whatever their state.
    cold "an operator's; a row for each payment with the flag" FLAGGED = "
        SELECT merchant_id, payment_id, payin_source, payin_reference, state, version, reason, blocked,
               provider, created_at, changed_at, due_at, request, progress
        FROM payments
        WHERE flag IS NOT NULL AND flag = $12
          AND (merchant_id, payment_id) > ($1, $2) AND merchant_id >= $3 AND merchant_id <= $4
          AND ($5::text IS NULL OR state = $5)
          AND ($6::text IS NULL OR blocked = $6) AND ($7::text IS NULL OR reason = $7)
          AND ($8::text IS NULL OR provider = $8) AND ($9::text IS NULL OR payin_reference = $9)
          AND ($10::timestamptz IS NULL OR changed_at <= $10)
        ORDER BY merchant_id, payment_id LIMIT $11";
    cold "a gauge's, every few seconds; a row for each open payment" COUNTS = "
        SELECT state, count(*), min(changed_at) FROM payments WHERE is_open GROUP BY state";
    // On its way it has a time at which it is due. It is late since the first terms as long as the newest.
    // The currencies are cut out of the request's text: a request that is no JSON would fail the search.
    cold "a look every minute; a row for each open payment" LATE = "
        SELECT merchant_id, payment_id, state, blocked, provider, changed_at, late_at FROM (
            SELECT p.merchant_id, p.payment_id, p.state, p.blocked, p.provider, p.changed_at,
                   coalesce(agreed.late_at, p.changed_at + $2 * interval '1 second') AS late_at
            FROM payments AS p
            LEFT JOIN LATERAL (
                SELECT min(greatest(c.made_at, p.changed_at + c.alert_after_seconds * interval '1 second'))
                       AS late_at
                FROM corridors AS c
                WHERE c.merchant_id = p.merchant_id AND c.incoming = substring(
                      p.request FROM '\"incoming_currency\" *: *\"([^\"]*)\"')
                  AND c.outgoing = substring(p.request FROM '\"outgoing_currency\" *: *\"([^\"]*)\"')
                  AND c.alert_after_seconds >= (
                      SELECT n.alert_after_seconds FROM corridors AS n
                      WHERE n.merchant_id = c.merchant_id AND n.incoming = c.incoming
                        AND n.outgoing = c.outgoing ORDER BY n.version DESC LIMIT 1)
            ) AS agreed ON true
            WHERE p.is_open AND p.due_at IS NOT NULL
              AND p.state IN ('received', 'quoted', 'converting', 'converted', 'paying_out', 'refunding')
        ) AS late
        WHERE late_at <= $1 AND (late_at, payment_id) > ($3, $4)
        ORDER BY late_at, payment_id LIMIT $5";
    cold "a look every minute; a row for each open payment" BLOCKED = "
        SELECT provider, count(*) FROM payments
        WHERE is_open AND due_at IS NOT NULL AND blocked = $1 AND provider IS NOT NULL
        GROUP BY provider ORDER BY provider";
}

#[async_trait]
impl PaymentSearches for PostgresStore {
    async fn payment_search(
        &self,
        filter: &PaymentFilter,
        after: Option<(MerchantId, PaymentId)>,
        limit: u32,
    ) -> StoreResult<Vec<PaymentRow>> {
        let statement = match filter.searched_by() {
            SearchedBy::Flag => FLAGGED,
            SearchedBy::Reference => BY_REFERENCE,
            SearchedBy::Openness => OPEN,
            SearchedBy::Refund => REFUNDED,
            SearchedBy::Completion => COMPLETED,
        };
        let first = filter.merchant_id.map_or(Uuid::nil(), |merchant| merchant.0);
        let last = filter.merchant_id.map_or(Uuid::max(), |merchant| merchant.0);
        let mut page = ReadablePage::new(after.unwrap_or((MerchantId::NIL, PaymentId::NIL)), limit);
        while let Some((after, number)) = page.wants() {
            let query = sqlx::query(statement)
                .bind(after.0.0)
                .bind(after.1.0)
                .bind(first.max(after.0.0))
                .bind(last)
                .bind(filter.state.map(StateName::as_str))
                .bind(filter.blocked.map(Blocked::as_str))
                .bind(filter.reason.map(Reason::as_str))
                .bind(filter.provider.as_ref().map(ProviderName::as_str))
                .bind(&filter.reference)
                .bind(filter.changed_by.map(At))
                .bind(number)
                .bind(filter.flag.map(Flag::as_str));
            let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
            let placed = |row: &PgRow| {
                let place = (id(row, 0, MerchantId)?, id(row, 1, PaymentId)?);
                Ok((place, left_out("a payment", payment(row))?))
            };
            page.take(rows.iter().map(placed).collect::<StoreResult<_>>()?);
        }
        Ok(page.found())
    }

    async fn payment_late(
        &self,
        now: Timestamp,
        (late_at, after): (Timestamp, PaymentId),
        allowed: Duration,
        limit: u32,
    ) -> StoreResult<Vec<LatePayment>> {
        let late = |row: &PgRow| {
            Ok(LatePayment {
                merchant_id: id(row, 0, MerchantId)?,
                payment_id: id(row, 1, PaymentId)?,
                state: parsed(row, 2)?,
                blocked: optional_parsed(row, 3)?,
                provider: optional_parsed(row, 4)?,
                changed_at: time(row, 5)?,
                late_at: time(row, 6)?,
            })
        };
        let mut page = ReadablePage::new((late_at, after), limit);
        while let Some((after, number)) = page.wants() {
            let query = sqlx::query(LATE)
                .bind(At(now))
                .bind(signed(allowed.as_secs()))
                .bind(At(after.0))
                .bind(after.1.0)
                .bind(number);
            let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
            let placed = |row: &PgRow| {
                let place = (time(row, 6)?, id(row, 1, PaymentId)?);
                Ok((place, left_out("a late payment", late(row))?))
            };
            page.take(rows.iter().map(placed).collect::<StoreResult<_>>()?);
        }
        Ok(page.found())
    }

    async fn payment_blocked(&self, blocked: Blocked) -> StoreResult<Vec<(ProviderName, u64)>> {
        let query = sqlx::query(BLOCKED).bind(blocked.as_str());
        let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
        let count = |row: &PgRow| Ok((parsed(row, 0)?, number(row, 1)?));
        let counts = rows.iter().map(|row| left_out("a provider", count(row)));
        counts.filter_map(StoreResult::transpose).collect()
    }

    async fn payment_counts(&self) -> StoreResult<Vec<PaymentCount>> {
        let rows = sqlx::query(COUNTS).fetch_all(&self.pool).await.map_err(store_error)?;
        let count = |row: &PgRow| {
            Ok(PaymentCount {
                state: parsed(row, 0)?,
                number: number(row, 1)?,
                oldest_at: optional_time(row, 2)?,
            })
        };
        let counts = rows.iter().map(|row| left_out("a state of payments", count(row)));
        counts.filter_map(StoreResult::transpose).collect()
    }
}
