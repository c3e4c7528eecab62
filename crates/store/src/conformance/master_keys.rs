//! The master keys used with a database.

use settle_domain::vault::MasterKeyId;

use super::fixtures::at;
use crate::Store;

/// They are listed in the order in which they came into use.
pub async fn a_master_key_is_remembered_once(store: &dyn Store) {
    assert_eq!(store.master_key_list().await.unwrap(), []);
    for (byte, second) in [(2, 1), (1, 2), (2, 3)] {
        let mut tx = store.begin().await.unwrap();
        tx.master_key_record(MasterKeyId([byte; 4]), at(second)).await.unwrap();
        tx.commit().await.unwrap();
    }
    assert_eq!(store.master_key_list().await.unwrap(), [MasterKeyId([2; 4]), MasterKeyId([1; 4])]);
}
