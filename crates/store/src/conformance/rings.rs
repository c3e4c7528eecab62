//! Which master keys the database has been used with.

use settle_domain::vault::RingKeyId;

use super::fixtures::at;
use crate::Store;

/// In the order they came into use.
pub async fn a_master_key_is_remembered_once(store: &dyn Store) {
    assert_eq!(store.ring_list().await.unwrap(), []);
    for (byte, second) in [(2, 1), (1, 2), (2, 3)] {
        let mut tx = store.begin().await.unwrap();
        tx.ring_record(RingKeyId([byte; 4]), at(second)).await.unwrap();
        tx.commit().await.unwrap();
    }
    assert_eq!(store.ring_list().await.unwrap(), [RingKeyId([2; 4]), RingKeyId([1; 4])]);
}
