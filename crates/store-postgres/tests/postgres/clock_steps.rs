//! Leases, when the database's clock was ahead and has been put right.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is the message")]

use std::time::Duration;

use settle_domain::ids::KeeperId;
use settle_store::conformance::ScratchStore;
use settle_store::conformance::fixtures::unique_keeper_id;
use settle_store::{Duty, Leases, Presence, SHARDS};
use settle_store_postgres::testing::scratch;

/// Longer than the test.
const LEASE: Duration = Duration::from_mins(5);
/// Over before long.
const SHORT_LEASE: Duration = Duration::from_millis(50);
/// Renewals until the shards of a keeper that hangs are given up. Twice the short lease is over long before.
const RENEWALS_MAX: usize = 10_000;
/// What the clock was ahead while every keeper renewed.
const AHEAD: &str = "UPDATE keepers SET lease_until = lease_until + interval '1 day'";

async fn present(store: &ScratchStore, duty: Duty) -> (KeeperId, Box<dyn Presence>) {
    let keeper = unique_keeper_id();
    (keeper, store.presence(keeper, duty).await.unwrap().expect("there is room for all"))
}

async fn renew(store: &ScratchStore, keeper: KeeperId, duty: Duty, lease: Duration) -> Leases {
    let mut tx = store.begin().await.unwrap();
    let leases = tx.queue_lease(keeper, duty, lease).await.unwrap();
    tx.commit().await.unwrap();
    leases
}

/// Its sign stays, but it renews no more.
#[tokio::test]
async fn a_keeper_that_hangs_loses_its_shards_all_the_same() {
    let store = scratch().await.migrated().await;
    for duty in Duty::ALL {
        let (hung, _sign) = present(&store, duty).await;
        renew(&store, hung, duty, SHORT_LEASE).await;
        store.execute(AHEAD).await;
        let (next, _other_sign) = present(&store, duty).await;
        let mut renewals = 0;
        while renew(&store, next, duty, SHORT_LEASE).await.held.len() < usize::try_from(SHARDS).unwrap() {
            renewals += 1;
            assert!(renewals < RENEWALS_MAX, "{duty:?}: the shards are stranded");
        }
    }
}

#[tokio::test]
async fn a_keeper_that_works_loses_nothing() {
    let store = scratch().await.migrated().await;
    for duty in Duty::ALL {
        let (works, _sign) = present(&store, duty).await;
        let before = renew(&store, works, duty, LEASE).await.held;
        store.execute(AHEAD).await;
        let (next, _other_sign) = present(&store, duty).await;
        assert_eq!(renew(&store, next, duty, LEASE).await.held, [], "{duty:?}");
        let mut tx = store.begin().await.unwrap();
        assert_eq!(tx.queue_fence(&before).await.unwrap().len(), before.len(), "{duty:?}");
    }
}
