//! Keepers share the shards evenly, also when their number does not divide that of the shards.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::time::Duration;

use settle_domain::ids::KeeperId;
use settle_store::conformance::fixtures::unique_keeper_id;
use settle_store::{Duty, Leases, SHARDS, Store};
use settle_store_postgres::testing::scratch;

const LEASE: Duration = Duration::from_secs(30);
/// If each took as many as the largest share, the last one would get none.
const KEEPERS: usize = 9;

/// Renews, and gives back at once what is more than the share.
async fn renew(store: &dyn Store, keeper: KeeperId) -> Leases {
    let mut tx = store.begin().await.unwrap();
    let mut leases = tx.queue_lease(keeper, Duty::Dispatch, LEASE).await.unwrap();
    let excess = leases.held.split_off(leases.share.min(leases.held.len()));
    tx.queue_release(&excess).await.unwrap();
    tx.commit().await.unwrap();
    leases
}

#[tokio::test]
async fn every_keeper_gets_its_share() {
    let store = scratch().await.migrated().await;
    let keepers: Vec<KeeperId> = (0..KEEPERS).map(|_| unique_keeper_id()).collect();
    let mut presences = Vec::new();
    for keeper in &keepers {
        presences
            .push(store.presence(*keeper, Duty::Dispatch).await.unwrap().expect("there is room for all"));
    }
    let mut held = Vec::new();
    // In the first round each learns of the others, in the second it gives back, in the third it takes.
    for _ in 0..3 {
        held.clear();
        for keeper in &keepers {
            held.push(renew(&*store, *keeper).await.held.len());
        }
    }
    assert_eq!(held.iter().sum::<usize>(), usize::try_from(SHARDS).unwrap(), "{held:?}");
    assert!(held.iter().all(|number| [7, 8].contains(number)), "{held:?}");
}
