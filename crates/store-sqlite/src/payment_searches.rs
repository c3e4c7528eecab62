//! Searches over the payments of all merchants.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Row, params};
use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::payment::{Flag, StateName};
use settle_domain::provider::ProviderName;
use settle_domain::reason::{Blocked, Reason};
use settle_domain::time::Timestamp;
use settle_store::{
    LatePayment, PaymentCount, PaymentFilter, PaymentRow, PaymentSearches, ReadablePage, SearchedBy,
    StoreResult, left_out,
};
use uuid::Uuid;

use crate::SqliteStore;
use crate::convert::{column, id, number, optional_parsed, optional_time, parsed, signed, time};
use crate::payments::payment;
use crate::query::Query;

settle_store::statements! {
    // By merchant, as the index is; sorted anew are the payments of one merchant at a time.
    cold "an operator's; a row for each open payment of the merchants up to the page's end" OPEN = "
        SELECT merchant_id, payment_id, payin_source, payin_reference, state, version, reason, blocked,
               provider, created_at, changed_at, due_at, request, progress
        FROM payments INDEXED BY payments_open
        WHERE is_open AND (merchant_id, payment_id) > (?1, ?2) AND merchant_id >= ?3 AND merchant_id <= ?4
          AND (?5 IS NULL OR state = ?5)
          AND (?6 IS NULL OR blocked = ?6) AND (?7 IS NULL OR reason = ?7)
          AND (?8 IS NULL OR provider = ?8) AND ?9 IS NULL
          AND (?10 IS NULL OR changed_at <= ?10) AND ?12 IS NULL
        ORDER BY merchant_id, payment_id LIMIT ?11 + 0";
    // The index begins with the receiving account: each account is found behind the one before, and asked for
    // the reference.
    cold "an operator's; two look-ups for each receiving account" BY_REFERENCE = "
        WITH RECURSIVE sources (source) AS (
            SELECT min(payin_source) FROM payments
            UNION ALL
            SELECT (SELECT min(payin_source) FROM payments WHERE payin_source > source)
            FROM sources WHERE source IS NOT NULL
        )
        SELECT merchant_id, payment_id, payin_source, payin_reference, state, version, reason, blocked,
               provider, created_at, changed_at, due_at, request, progress
        FROM sources CROSS JOIN payments INDEXED BY payments_payin
            ON payin_source = source AND payin_reference = ?9
        WHERE (merchant_id, payment_id) > (?1, ?2) AND merchant_id >= ?3 AND merchant_id <= ?4
          AND (state = ?5 OR (?5 IS NULL AND is_open))
          AND (?6 IS NULL OR blocked = ?6) AND (?7 IS NULL OR reason = ?7)
          AND (?8 IS NULL OR provider = ?8)
          AND (?10 IS NULL OR changed_at <= ?10) AND ?12 IS NULL
        ORDER BY merchant_id, payment_id LIMIT ?11 + 0";
    cold "an operator's; a row for each refunded payment up to the page's end" REFUNDED = "
        SELECT merchant_id, payment_id, payin_source, payin_reference, state, version, reason, blocked,
               provider, created_at, changed_at, due_at, request, progress
        FROM payments INDEXED BY payments_refunded
        WHERE state = 'refunded' AND state = ?5
          AND (merchant_id, payment_id) > (?1, ?2) AND merchant_id >= ?3 AND merchant_id <= ?4
          AND (?6 IS NULL OR blocked = ?6) AND (?7 IS NULL OR reason = ?7)
          AND (?8 IS NULL OR provider = ?8) AND ?9 IS NULL
          AND (?10 IS NULL OR changed_at <= ?10) AND ?12 IS NULL
        ORDER BY merchant_id, payment_id LIMIT ?11 + 0";
    // Nearly all payments are completed: nothing else is in the way of a page, unless another mark is
    // asked for.
    cold "an operator's; a row for each payment up to the page's end, by a rare mark all of those asked for"
    COMPLETED = "
        SELECT merchant_id, payment_id, payin_source, payin_reference, state, version, reason, blocked,
               provider, created_at, changed_at, due_at, request, progress
        FROM payments
        WHERE state = ?5
          AND (merchant_id, payment_id) > (?1, ?2) AND merchant_id >= ?3 AND merchant_id <= ?4
          AND (?6 IS NULL OR blocked = ?6) AND (?7 IS NULL OR reason = ?7)
          AND (?8 IS NULL OR provider = ?8) AND ?9 IS NULL
          AND (?10 IS NULL OR changed_at <= ?10) AND ?12 IS NULL
        ORDER BY merchant_id, payment_id LIMIT ?11 + 0";
    // By their flag, whatever their state.
    cold "an operator's; a row for each payment with the flag" FLAGGED = "
        SELECT merchant_id, payment_id, payin_source, payin_reference, state, version, reason, blocked,
               provider, created_at, changed_at, due_at, request, progress
        FROM payments INDEXED BY payments_flagged
        WHERE flag IS NOT NULL AND flag = ?12
          AND (merchant_id, payment_id) > (?1, ?2) AND merchant_id >= ?3 AND merchant_id <= ?4
          AND (?5 IS NULL OR state = ?5)
          AND (?6 IS NULL OR blocked = ?6) AND (?7 IS NULL OR reason = ?7)
          AND (?8 IS NULL OR provider = ?8) AND (?9 IS NULL OR payin_reference = ?9)
          AND (?10 IS NULL OR changed_at <= ?10)
        ORDER BY merchant_id, payment_id LIMIT ?11 + 0";
    cold "a gauge's, every few seconds; a row for each open payment" COUNTS = "
        SELECT state, count(*), min(changed_at) FROM payments INDEXED BY payments_open
        WHERE is_open GROUP BY state";
    // On its way it has a time at which it is due. It is late since the first terms as long as the newest.
    // A request that is no JSON has no corridor; it would fail the search.
    cold "a look every minute; a row for each open payment" LATE = "
        SELECT merchant_id, payment_id, state, blocked, provider, changed_at, late_at FROM (
            SELECT p.merchant_id, p.payment_id, p.state, p.blocked, p.provider, p.changed_at,
                   ifnull((
                       SELECT min(max(made_at, p.changed_at + 1000000 * alert_after_seconds)) FROM corridors AS c
                       WHERE c.merchant_id = p.merchant_id
                         AND c.incoming
                             = CASE WHEN json_valid(p.request) THEN p.request ->> 'incoming_currency' END
                         AND c.outgoing
                             = CASE WHEN json_valid(p.request) THEN p.request ->> 'outgoing_currency' END
                         AND c.alert_after_seconds >= (
                             SELECT alert_after_seconds FROM corridors AS newest
                             WHERE (newest.merchant_id, newest.incoming, newest.outgoing)
                                   = (c.merchant_id, c.incoming, c.outgoing) ORDER BY version DESC LIMIT 1)
                   ), p.changed_at + 1000000 * ?2) AS late_at
            FROM payments AS p INDEXED BY payments_open
            WHERE p.is_open AND p.due_at IS NOT NULL
              AND p.state IN ('received', 'quoted', 'converting', 'converted', 'paying_out', 'refunding')
        )
        WHERE late_at <= ?1 AND (late_at, payment_id) > (?3, ?4)
        ORDER BY late_at, payment_id LIMIT ?5 + 0";
    cold "a look every minute; a row for each open payment" BLOCKED = "
        SELECT provider, count(*) FROM payments INDEXED BY payments_open
        WHERE is_open AND due_at IS NOT NULL AND blocked = ?1 AND provider IS NOT NULL
        GROUP BY provider ORDER BY provider";
}

#[async_trait]
impl PaymentSearches for SqliteStore {
    async fn payment_search(
        &self,
        filter: &PaymentFilter,
        after: Option<(MerchantId, PaymentId)>,
        limit: u32,
    ) -> StoreResult<Vec<PaymentRow>> {
        let first = filter.merchant_id.map_or(Uuid::nil(), |merchant| merchant.0);
        let last = filter.merchant_id.map_or(Uuid::max(), |merchant| merchant.0);
        let statement = match filter.searched_by() {
            SearchedBy::Flag => FLAGGED,
            SearchedBy::Reference => BY_REFERENCE,
            SearchedBy::Openness => OPEN,
            SearchedBy::Refund => REFUNDED,
            SearchedBy::Completion => COMPLETED,
        };
        let mut page = ReadablePage::new(after.unwrap_or((MerchantId::NIL, PaymentId::NIL)), limit);
        while let Some((after, number)) = page.wants() {
            let rows = self.connections.read_long(|connection| {
                let asked = params![
                    after.0.0,
                    after.1.0,
                    first.max(after.0.0),
                    last,
                    filter.state.map(StateName::as_str),
                    filter.blocked.map(Blocked::as_str),
                    filter.reason.map(Reason::as_str),
                    filter.provider.as_ref().map(ProviderName::as_str),
                    filter.reference,
                    filter.changed_by.map(Timestamp::as_micros),
                    number,
                    filter.flag.map(Flag::as_str)
                ];
                connection.rows(statement, asked, |row| {
                    let place = (id(row, 0, MerchantId)?, id(row, 1, PaymentId)?);
                    Ok((place, left_out("a payment", payment(row))?))
                })
            });
            page.take(rows.await?);
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
        let late = |row: &Row<'_>| {
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
        let mut page = ReadablePage::new((late_at.as_micros(), after.0), limit);
        while let Some((after, number)) = page.wants() {
            let rows = self.connections.read_long(|connection| {
                let asked = params![now.as_micros(), signed(allowed.as_secs()), after.0, after.1, number];
                connection.rows(LATE, asked, |row| {
                    let place = (column(row, 6)?, column(row, 1)?);
                    Ok((place, left_out("a late payment", late(row))?))
                })
            });
            page.take(rows.await?);
        }
        Ok(page.found())
    }

    async fn payment_blocked(&self, blocked: Blocked) -> StoreResult<Vec<(ProviderName, u64)>> {
        let count = |row: &Row<'_>| Ok((parsed(row, 0)?, number(row, 1)?));
        let counted = |row: &Row<'_>| left_out("a provider", count(row));
        let asked = [blocked.as_str()];
        let found = self.connections.read_long(|connection| connection.rows(BLOCKED, asked, counted)).await?;
        Ok(found.into_iter().flatten().collect())
    }

    async fn payment_counts(&self) -> StoreResult<Vec<PaymentCount>> {
        let count = |row: &Row<'_>| {
            Ok(PaymentCount {
                state: parsed(row, 0)?,
                number: number(row, 1)?,
                oldest_at: optional_time(row, 2)?,
            })
        };
        let counted = |row: &Row<'_>| left_out("a state of payments", count(row));
        let counts = self.connections.read_long(|connection| connection.rows(COUNTS, [], counted)).await?;
        Ok(counts.into_iter().flatten().collect())
    }
}
