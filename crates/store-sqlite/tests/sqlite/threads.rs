//! A call that waits for the file holds up its caller and no other task.

use std::sync::Arc;

use rusqlite::Connection;
use settle_domain::ids::SettlementId;
use settle_store::conformance::fixtures::{at, merchant, record, settlement, settlements, unique_uuid};
use settle_store::{QueueReads, Store, StoreError};
use settle_store_sqlite::SqliteStore;
use settle_store_sqlite::testing::scratch_url;

const TASKS: usize = 8;
const EACH: usize = 25;

#[tokio::test]
async fn a_transaction_waits_for_another_process_and_the_task_goes_on() {
    let (url, _folder) = scratch_url();
    let store = SqliteStore::new(&url).unwrap();
    store.migrate().await.unwrap();
    let other = Connection::open(store.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut begun = store.begin();
    for _ in 0..3 {
        tokio::select! {
            biased;
            tx = &mut begun => panic!("another process writes: {}", tx.is_ok()),
            () = tokio::task::yield_now() => {}
        }
    }
    // Readers do not wait.
    store.ping().await.unwrap();
    other.execute_batch("COMMIT").unwrap();
    begun.await.unwrap().commit().await.unwrap();
}

#[tokio::test]
async fn nothing_is_left_of_a_transaction_that_is_dropped() {
    let (url, _folder) = scratch_url();
    let store = SqliteStore::new(&url).unwrap();
    store.migrate().await.unwrap();
    let merchant = merchant(&store).await;
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[merchant]).await.unwrap();
    let new = settlement(merchant, SettlementId(unique_uuid()), at(0));
    assert_eq!(tx.settlement_record_many(&lock, std::slice::from_ref(&new)).await.unwrap().recorded.len(), 1);
    drop(tx);
    assert_eq!(settlements(&store, merchant, 1, 0).await.total, 0);
    assert_eq!(record(&store, &[new]).await.recorded.len(), 1, "the next one begins anew");
}

/// The runtime has other threads to go on with while one writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_and_writers_of_many_tasks_see_whole_transactions() {
    let (url, _folder) = scratch_url();
    let store = Arc::new(SqliteStore::new(&url).unwrap());
    store.migrate().await.unwrap();
    let merchant = merchant(&*store).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..TASKS {
        let store = store.clone();
        tasks.spawn(async move {
            for round in 0..EACH {
                // Two at a time: a page with an odd total would have seen half of a transaction.
                let pair =
                    [0, 1].map(|_| settlement(merchant, SettlementId(unique_uuid()), at(round as u64)));
                assert_eq!(record(&*store, &pair).await.recorded.len(), 2);
                let page = settlements(&*store, merchant, 10, 300).await;
                assert_eq!(page.total % 2, 0);
                store.queue_depth().await.unwrap();
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    let all = u64::try_from(TASKS * EACH * 2).unwrap();
    assert_eq!(settlements(&*store, merchant, 1, 0).await.total, all);
    store.close().await;
    let late = store.ping().await;
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    assert!(matches!(store.begin().await.err(), Some(StoreError::Unavailable(_))));
}
