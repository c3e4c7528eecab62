//! Random operations give the same answers on SQLite, on PostgreSQL and in a plain in-memory model.

use proptest::test_runner::{Config, TestRunner};
use settle_store::conformance::model::{agree, steps};

/// Sequences of up to 25 operations each.
const CASES: u32 = 24;

#[test]
fn sqlite_postgres_and_the_model_agree() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (sqlite, postgres) = runtime.block_on(async {
        let sqlite = settle_store_sqlite::testing::scratch().await.migrated().await;
        (sqlite, settle_store_postgres::testing::scratch().await.migrated().await)
    });
    let config = Config { failure_persistence: None, ..Config::with_cases(CASES) };
    let outcome = TestRunner::new(config).run(&steps(), |steps| {
        runtime.block_on(agree(&[&*sqlite, &*postgres], &steps));
        Ok(())
    });
    outcome.unwrap();
}
