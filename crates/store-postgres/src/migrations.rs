//! The schema, step by step: the files in `migrations/`, embedded, in the order of their numbers.

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// How many steps there are.
pub(crate) const COUNT: usize = 18;
/// A new step gets the next number and the same name in both backends. A released step never changes, not
/// even in a comment: the database knows its checksum.
const FILES: [(i64, &str, &str); COUNT] = [
    (1, "merchants", include_str!("../migrations/0001_merchants.sql")),
    (2, "settlements", include_str!("../migrations/0002_settlements.sql")),
    (3, "deliveries", include_str!("../migrations/0003_deliveries.sql")),
    (4, "queue", include_str!("../migrations/0004_queue.sql")),
    (5, "alerts", include_str!("../migrations/0005_alerts.sql")),
    (6, "corridors", include_str!("../migrations/0006_corridors.sql")),
    (7, "payments", include_str!("../migrations/0007_payments.sql")),
    (8, "reconciliation", include_str!("../migrations/0008_reconciliation.sql")),
    (9, "origins", include_str!("../migrations/0009_origins.sql")),
    (10, "providers", include_str!("../migrations/0010_providers.sql")),
    (11, "proposals", include_str!("../migrations/0011_proposals.sql")),
    (12, "likenesses", include_str!("../migrations/0012_likenesses.sql")),
    (13, "payment_rows", include_str!("../migrations/0013_payment_rows.sql")),
    (14, "payment_flags", include_str!("../migrations/0014_payment_flags.sql")),
    (15, "operation_times", include_str!("../migrations/0015_operation_times.sql")),
    (16, "refunded_payments", include_str!("../migrations/0016_refunded_payments.sql")),
    (17, "payment_numbers", include_str!("../migrations/0017_payment_numbers.sql")),
    (18, "recorded_payins", include_str!("../migrations/0018_recorded_payins.sql")),
];

/// All steps.
pub(crate) fn migrator() -> Migrator {
    migrator_to(COUNT)
}

/// The first steps.
pub(crate) fn migrator_to(steps: usize) -> Migrator {
    let step = |(version, name, sql): (i64, &'static str, &'static str)| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(FILES.into_iter().take(steps).map(step).collect())
}

/// The tables that the steps make.
pub(crate) fn tables() -> Vec<&'static str> {
    let lines = FILES.iter().flat_map(|(_, _, sql)| sql.lines());
    lines.filter_map(|line| line.strip_prefix("CREATE TABLE ")?.split_whitespace().next()).collect()
}

#[cfg(test)]
mod tests {
    use super::{FILES, tables};

    #[test]
    fn the_tables_are_found_in_the_steps() {
        let tables = tables();
        assert!(tables.len() > 10 && tables.contains(&"settlements"), "{tables:?}");
    }

    #[test]
    fn every_file_is_a_step() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations"));
        assert_eq!(files.expect("the folder is there").count(), FILES.len());
    }
}
