//! What earlier versions have stored is found after the steps that give it another shape.

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
