//! When a keeper gives shards back, and what it does if it cannot.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use settle_shards::holdings::Holdings;
use settle_shards::keeper::{Keeper, RENEW_INTERVAL};
use settle_shards::tenancy::Tenancy;
use settle_store::Shard;
use tokio::time::Instant;

use crate::database::Database;
use crate::{renewed, until};

/// How long a shard is kept at least after it was told to leave.
const RELEASE_WAIT: Duration = Duration::from_millis(200);

/// Two of the four shards leave. Gives the tenant with what it was told then.
async fn leaving() -> (Arc<Database>, Tenancy, Arc<Holdings>) {
    let (database, _says) = Database::new();
    let mut keeper = database.keeper();
    let tenant = keeper.tenant();
    tokio::spawn(keeper.run());
    database.share(2);
    let leaving = until(&tenant, Holdings::is_leaving).await;
    (database, tenant, leaving)
}

/// Waits until somebody has tried so often to give shards back, and gives the times.
async fn given_back(database: &Database, tenant: &Tenancy, times: usize) -> Vec<Instant> {
    while database.given_back().len() < times {
        renewed(tenant).await;
    }
    database.given_back()
}

/// Those with work leave together with those that have none.
#[tokio::test(start_paused = true)]
async fn shards_that_are_free_at_once_wait_a_moment_for_the_others() {
    let (database, tenant, leaving) = leaving().await;
    let told_at = Instant::now();
    tenant.let_go(leaving.departures_outside(&BTreeSet::new()));
    let waited = given_back(&database, &tenant, 1).await[0] - told_at;
    assert!((RELEASE_WAIT..RELEASE_WAIT * 2).contains(&waited), "{waited:?}");
    assert_eq!(database.released(), [Shard(2), Shard(3)]);
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_becomes_free_later_is_given_back_at_once() {
    let (database, tenant, leaving) = leaving().await;
    for _ in 0..3 {
        renewed(&tenant).await;
    }
    assert_eq!(database.given_back(), [], "the tenant still works there");
    let free_at = Instant::now();
    tenant.let_go(leaving.departures_outside(&BTreeSet::new()));
    let waited = given_back(&database, &tenant, 1).await[0] - free_at;
    assert!(waited < RELEASE_WAIT, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn shards_that_cannot_be_given_back_are_kept_and_tried_again_after_a_rest() {
    let (database, tenant, leaving) = leaving().await;
    database.keeps_all.store(true, Ordering::SeqCst);
    tenant.let_go(leaving.departures_outside(&BTreeSet::new()));
    let tried = given_back(&database, &tenant, 2).await;
    let rested = tried[1] - tried[0];
    assert!((RENEW_INTERVAL..RENEW_INTERVAL * 2).contains(&rested), "{rested:?}");
    assert!(renewed(&tenant).await.is_leaving());
    database.keeps_all.store(false, Ordering::SeqCst);
    until(&tenant, |holdings| !holdings.is_leaving()).await;
    assert_eq!(database.released(), [Shard(2), Shard(3)]);
}

#[test]
fn a_lease_outlasts_its_work_by_a_few_renewals() {
    assert_eq!(Keeper::lease_min(Duration::from_secs(10)), Duration::from_secs(10) + 5 * RENEW_INTERVAL);
}
