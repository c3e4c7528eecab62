//! The schema, step by step: the files in `migrations/`, embedded, in the order of their numbers.
//!
//! A file knows how many steps it has taken (`user_version`), and takes each in a transaction of its own.

use rusqlite::{Connection, TransactionBehavior};
use settle_store::{StoreError, StoreResult};

use crate::error::store_error;

/// A new step gets the next number and the same name in both backends; a step that was released never
/// changes.
const STEPS: [&str; 6] = [
    include_str!("../migrations/0001_merchants.sql"),
    include_str!("../migrations/0002_settlements.sql"),
    include_str!("../migrations/0003_deliveries.sql"),
    include_str!("../migrations/0004_queue.sql"),
    include_str!("../migrations/0005_alerts.sql"),
    include_str!("../migrations/0006_log_order.sql"),
];

settle_store::statements! {
    cold "asked at start-up" TAKEN = "SELECT user_version FROM pragma_user_version";
    // Files of earlier builds counted their steps in a table.
    cold "asked at start-up" HAS_TABLE = "SELECT count(*) FROM sqlite_master WHERE name = '_sqlx_migrations'";
    cold "asked at start-up" TAKEN_BY_TABLE = "SELECT count(*) FROM _sqlx_migrations WHERE success";
}

/// How many steps are still to be taken.
pub(crate) fn pending(connection: &Connection) -> StoreResult<usize> {
    Ok(STEPS.len().saturating_sub(taken(connection).map_err(store_error)?))
}

/// Takes the next step, unless all are taken.
pub(crate) fn take_next(connection: &mut Connection) -> StoreResult<bool> {
    let taken = taken(connection).map_err(store_error)?;
    if taken > STEPS.len() {
        return Err(StoreError::unexpected("the file was made by a later version of settle"));
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
    let number =
        |sql| connection.query_row(sql, [], |row| row.get::<_, u32>(0)).map(|number| number as usize);
    match number(TAKEN)? {
        0 if number(HAS_TABLE)? > 0 => number(TAKEN_BY_TABLE),
        taken => Ok(taken),
    }
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
    fn a_file_that_counted_its_steps_in_a_table_goes_on_from_there() -> rusqlite::Result<()> {
        let mut file = Connection::open_in_memory()?;
        file.execute_batch(&STEPS[..4].concat())?;
        file.execute_batch(
            "CREATE TABLE _sqlx_migrations (version BIGINT PRIMARY KEY, success BOOLEAN NOT NULL);
             INSERT INTO _sqlx_migrations VALUES (1, true), (2, true), (3, true), (4, true), (5, false)",
        )?;
        assert!(matches!(pending(&file), Ok(2)));
        assert!(matches!(take_next(&mut file), Ok(true)));
        assert!(matches!(pending(&file), Ok(1)));
        assert!(matches!(take_next(&mut file), Ok(true)));
        assert!(matches!(pending(&file), Ok(0)));
        assert!(matches!(take_next(&mut file), Ok(false)), "nothing is left to do");
        Ok(())
    }

    #[test]
    fn a_file_of_a_later_version_is_left_alone() -> rusqlite::Result<()> {
        let mut file = Connection::open_in_memory()?;
        file.pragma_update(None, "user_version", 999)?;
        let refused = take_next(&mut file).expect_err("it has taken steps that we do not know");
        assert!(matches!(refused, StoreError::Unexpected(_)), "{refused}");
        Ok(())
    }
}
