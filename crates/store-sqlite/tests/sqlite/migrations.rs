//! What earlier versions have stored is found after the steps that give it another shape.

use std::path::Path;

use settle_store::Store;
use settle_store::conformance::payments::a_pay_in_that_was_recorded_by_hand_is_no_payment;
use settle_store_sqlite::SqliteStore;
use settle_store_sqlite::testing::scratch_url;

/// A version that does not know the column of the pay-in leaves it empty.
#[tokio::test]
async fn pay_ins_that_an_earlier_version_has_recorded_are_found() {
    let (url, _folder) = scratch_url();
    let store = SqliteStore::new(&url).unwrap();
    store.migrate().await.unwrap();
    let earlier = "
        CREATE TRIGGER earlier AFTER INSERT ON settlements BEGIN
            UPDATE settlements SET payin_reference = NULL WHERE rowid = NEW.rowid;
        END";
    rusqlite::Connection::open(store.path()).unwrap().execute_batch(earlier).unwrap();
    a_pay_in_that_was_recorded_by_hand_is_no_payment(&store).await;
}

/// After a crash there is a journal, which may be large. Who starts must not wait until it is in the file.
#[tokio::test]
async fn a_start_with_nothing_to_do_leaves_the_journal() {
    let (url, _folder) = scratch_url();
    let store = SqliteStore::new(&url).unwrap();
    store.migrate().await.unwrap();
    store.write_probe().await.unwrap();
    let (crashed_url, _crashed_folder) = scratch_url();
    let crashed = SqliteStore::new(&crashed_url).unwrap();
    let journal = |file: &Path| file.with_file_name(format!("{}-wal", file.file_name().unwrap().display()));
    std::fs::copy(store.path(), crashed.path()).unwrap();
    let left = std::fs::copy(journal(store.path()), journal(crashed.path())).unwrap();
    assert!(left > 0);
    crashed.migrate().await.unwrap();
    assert_eq!(std::fs::metadata(journal(crashed.path())).unwrap().len(), left);
    assert_eq!(crashed.migrations_pending().await.unwrap(), 0);
}
