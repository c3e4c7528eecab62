//! The schema, step by step: the files in `migrations/`, embedded, in the order of their numbers.
//!
//! The database counts the steps it has taken in `user_version`; each step is a transaction of its own.
//!
//! `rusqlite_migration` 2.5 fits our rusqlite and could do the same, but it would replace only [`take`]. We
//! would still have to sort its errors into passing and lasting ones, and one more crate beside sqlx would
//! restrict which version of rusqlite we can use.

use rusqlite::{Connection, TransactionBehavior};
use settle_store::{StoreError, StoreResult};

use crate::error::store_error;

/// A new step gets the next number and the same name in both backends; a released step never changes.
const STEPS: [&str; 18] = [
    include_str!("../migrations/0001_merchants.sql"),
    include_str!("../migrations/0002_settlements.sql"),
    include_str!("../migrations/0003_deliveries.sql"),
    include_str!("../migrations/0004_queue.sql"),
    include_str!("../migrations/0005_alerts.sql"),
    include_str!("../migrations/0006_corridors.sql"),
    include_str!("../migrations/0007_payments.sql"),
    include_str!("../migrations/0008_reconciliation.sql"),
    include_str!("../migrations/0009_origins.sql"),
    include_str!("../migrations/0010_providers.sql"),
    include_str!("../migrations/0011_proposals.sql"),
    include_str!("../migrations/0012_likenesses.sql"),
    include_str!("../migrations/0013_payment_rows.sql"),
    include_str!("../migrations/0014_payment_flags.sql"),
    include_str!("../migrations/0015_operation_times.sql"),
    include_str!("../migrations/0016_refunded_payments.sql"),
    include_str!("../migrations/0017_payment_numbers.sql"),
    include_str!("../migrations/0018_recorded_payins.sql"),
];

settle_store::statements! {
    cold "asked at start-up" TAKEN = "SELECT user_version FROM pragma_user_version";
}

/// How many steps the database has not taken yet.
pub(crate) fn pending(connection: &Connection) -> StoreResult<usize> {
    STEPS.len().checked_sub(taken(connection).map_err(store_error)?).ok_or(StoreError::LaterVersion)
}

/// Takes the next step, unless all are taken.
pub(crate) fn take_next(connection: &mut Connection) -> StoreResult<bool> {
    let taken = taken(connection).map_err(store_error)?;
    if taken > STEPS.len() {
        return Err(StoreError::LaterVersion);
    }
    let Some(sql) = STEPS.get(taken) else {
        return Ok(false);
    };
    take(connection, taken + 1, sql).map_err(store_error)?;
    Ok(true)
}

fn take(connection: &mut Connection, step: usize, sql: &str) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(sql)?;
    transaction.pragma_update(None, "user_version", i64::try_from(step).unwrap_or(i64::MAX))?;
    transaction.commit()
}

fn taken(connection: &Connection) -> rusqlite::Result<usize> {
    connection.query_row(TAKEN, [], |row| row.get::<_, u32>(0)).map(|taken| taken as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_step() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations"));
        assert_eq!(files.expect("the folder is there").count(), STEPS.len());
    }

    #[test]
    fn a_file_goes_on_from_the_step_it_has_taken() -> rusqlite::Result<()> {
        let mut file = Connection::open_in_memory()?;
        for left in (0..STEPS.len()).rev() {
            assert!(matches!(take_next(&mut file), Ok(true)));
            assert!(matches!(pending(&file), Ok(pending) if pending == left));
        }
        assert!(matches!(take_next(&mut file), Ok(false)), "nothing is left to do");
        Ok(())
    }

    /// What belongs to payments is found by them, whichever step it was written at.
    #[test]
    fn payments_keep_what_is_theirs_when_they_get_their_numbers() -> rusqlite::Result<()> {
        const BEFORE: usize = 12;
        let mut file = Connection::open_in_memory()?;
        for _ in 0..BEFORE {
            assert!(matches!(take_next(&mut file), Ok(true)));
        }
        file.execute_batch(
            "WITH RECURSIVE made (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM made WHERE n < 9)
             INSERT INTO payments (merchant_id, payment_id, payin_source, payin_reference, state, version,
                                   created_at, changed_at, due_at, is_open, request, progress, likeness)
             SELECT x'01', unhex(printf('%02x', 20 - n)), 'default', 'pix ' || n, 'quoted', 3, n, n, n, 1,
                    '{}', '{}', x'07' FROM made;
             INSERT INTO payment_pricing SELECT merchant_id, payment_id, payin_reference FROM payments;
             INSERT INTO payment_steps SELECT merchant_id, payment_id, 2, 5, payin_reference FROM payments;
             INSERT INTO payment_steps SELECT merchant_id, payment_id, 1, 4, payin_reference FROM payments;
             INSERT INTO operations (merchant_id, payment_id, kind, attempt, operation_id, provider, status,
                                     is_live, prepared_at, request, memory)
             SELECT merchant_id, payment_id, 'payout', 1, payment_id, 'bank', 'unknown', 1, 6,
                    payin_reference, '{}' FROM payments;",
        )?;
        assert!(matches!(take_next(&mut file), Ok(true)));
        let own = "SELECT p.payin_reference, c.pricing, s.step, o.request FROM payments AS p
                   JOIN payment_pricing AS c ON c.payment_number = p.number
                   JOIN payment_steps AS s ON s.payment_number = p.number
                   JOIN operations AS o ON o.payment_number = p.number AND o.operation_id = p.payment_id";
        let mut rows = file.prepare(own)?;
        let rows =
            rows.query_map([], |row| Ok([row.get::<_, String>(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))?;
        let rows: Vec<[String; 4]> = rows.collect::<rusqlite::Result<_>>()?;
        assert_eq!(rows.len(), 18, "two steps of each of nine payments");
        assert!(rows.iter().all(|[payment, own @ ..]| own.iter().all(|own| own == payment)), "{rows:?}");
        Ok(())
    }

    #[test]
    fn a_file_of_a_later_version_is_left_alone() -> rusqlite::Result<()> {
        let mut file = Connection::open_in_memory()?;
        file.pragma_update(None, "user_version", 999)?;
        let refused = take_next(&mut file).expect_err("it has taken steps that we do not know");
        assert!(matches!(refused, StoreError::LaterVersion), "{refused}");
        assert!(matches!(pending(&file), Err(StoreError::LaterVersion)));
        Ok(())
    }
}
