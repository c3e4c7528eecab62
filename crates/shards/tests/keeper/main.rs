//! The keeper and its tenants, on a database that the test answers for, under a clock that jumps.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test a panic is the message"
)]

mod database;
mod handing_over;
mod log;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use database::Database;
use settle_domain::ids::MerchantId;
use settle_shards::holdings::Holdings;
use settle_shards::keeper::{RENEW_INTERVAL, Standing};
use settle_shards::tenancy::Tenancy;
use settle_store::{Shard, StoreError};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

/// How long a test waits, in virtual time, before something counts as not happening.
const PATIENCE: Duration = Duration::from_mins(1);

/// The next holdings that a tenant is told.
async fn renewed(tenancy: &Tenancy) -> Arc<Holdings> {
    loop {
        let told = timeout(PATIENCE, tenancy.told()).await.expect("the keeper renews");
        if let Some(holdings) = told.holdings {
            return holdings;
        }
    }
}

/// The first holdings of which this is true.
async fn until(tenancy: &Tenancy, is_so: impl Fn(&Holdings) -> bool) -> Arc<Holdings> {
    loop {
        let holdings = renewed(tenancy).await;
        if is_so(&holdings) {
            return holdings;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_tenant_is_told_what_one_renewal_gave() {
    let (database, _says) = Database::new();
    let mut keeper = database.keeper();
    let (first, second) = (keeper.tenant(), keeper.tenant());
    let running = tokio::spawn(keeper.run());
    for tenant in [&first, &second] {
        assert_eq!(renewed(tenant).await.served().len(), 4);
    }
    let earlier = renewed(&first).await;
    assert!(!renewed(&first).await.has_gained(&earlier), "nothing has changed hands");
    drop((first, second));
    running.await.unwrap();
    assert_eq!(database.released().len(), 4, "the last tenant has gone");
}

#[tokio::test(start_paused = true)]
async fn a_shard_is_given_back_when_every_tenant_has_let_go_of_it() {
    let (database, _says) = Database::new();
    let mut keeper = database.keeper();
    let (first, second) = (keeper.tenant(), keeper.tenant());
    tokio::spawn(keeper.run());
    database.share(2);
    let leaving = until(&first, Holdings::is_leaving).await;
    assert_eq!(leaving.served().len(), 2);
    first.let_go(leaving.departures_outside(&BTreeSet::new()));
    // A few renewals: the second tenant still works in both shards.
    for _ in 0..3 {
        renewed(&second).await;
    }
    assert_eq!(database.released(), []);
    second.let_go(leaving.departures_outside(&BTreeSet::from([Shard(3)])));
    while database.released().is_empty() {
        renewed(&first).await;
    }
    assert_eq!(database.released(), [Shard(2)]);
    drop(second);
    until(&first, |holdings| !holdings.is_leaving()).await;
    assert_eq!(database.released(), [Shard(2), Shard(3)], "a tenant that has gone holds nothing up");
}

#[tokio::test(start_paused = true)]
async fn what_a_tenant_let_go_of_before_the_shard_stayed_does_not_count_later() {
    let (database, _says) = Database::new();
    let mut keeper = database.keeper();
    let tenant = keeper.tenant();
    tokio::spawn(keeper.run());
    database.share(3);
    let leaving = until(&tenant, Holdings::is_leaving).await;
    let said = leaving.departures_outside(&BTreeSet::new());
    // The share grows again before the tenant has said anything.
    database.share(4);
    until(&tenant, |holdings| !holdings.is_leaving()).await;
    tenant.let_go(said);
    database.share(3);
    until(&tenant, Holdings::is_leaving).await;
    for _ in 0..3 {
        renewed(&tenant).await;
    }
    assert_eq!(database.released(), [], "the tenant has started work there again");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_never_answers_is_made_again() {
    let (database, _says) = Database::new();
    let mut keeper = database.keeper();
    let tenant = keeper.tenant();
    tokio::spawn(keeper.run());
    renewed(&tenant).await;
    database.hangs.store(true, Ordering::SeqCst);
    assert!(timeout(2 * RENEW_INTERVAL, tenant.told()).await.is_err());
    database.hangs.store(false, Ordering::SeqCst);
    renewed(&tenant).await;
}

/// As on a connection that is lost without anybody noticing.
#[tokio::test(start_paused = true)]
async fn a_sign_of_life_that_never_gets_an_answer_is_shown_again() {
    let (database, says) = Database::new();
    database.is_silent.store(true, Ordering::SeqCst);
    let mut keeper = database.keeper();
    let tenant = keeper.tenant();
    tokio::spawn(keeper.run());
    assert!(renewed(&tenant).await.serves_any());
    // And when it served before: the sign is lost, and the next one gets no answer.
    database.is_silent.store(true, Ordering::SeqCst);
    says.send(Err(StoreError::Unavailable("the session is gone".into()))).unwrap();
    while database.presences.load(Ordering::SeqCst) < 2 {
        renewed(&tenant).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_renewal_that_hangs() {
    let (database, _says) = Database::new();
    let mut keeper = database.keeper();
    let tenant = keeper.tenant();
    let running = tokio::spawn(keeper.run());
    renewed(&tenant).await;
    database.hangs.store(true, Ordering::SeqCst);
    assert!(timeout(2 * RENEW_INTERVAL, tenant.told()).await.is_err());
    let stopped_at = Instant::now();
    drop(tenant);
    running.await.unwrap();
    assert_eq!((database.released().len(), stopped_at.elapsed()), (4, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_stands_by_serves_when_the_other_process_has_ended() {
    let (database, _says) = Database::new();
    database.is_taken.store(true, Ordering::SeqCst);
    let mut keeper = database.keeper();
    let tenant = keeper.tenant();
    let running = tokio::spawn(keeper.run());
    assert!(timeout(PATIENCE, tenant.told()).await.is_err());
    database.is_taken.store(false, Ordering::SeqCst);
    assert!(renewed(&tenant).await.serves_any());
    drop(tenant);
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lost_sign_of_life_is_shown_again() {
    let (database, says) = Database::new();
    let mut keeper = database.keeper();
    let tenant = keeper.tenant();
    tokio::spawn(keeper.run());
    renewed(&tenant).await;
    renewed(&tenant).await;
    renewed(&tenant).await;
    let lost_at = Instant::now();
    says.send(Err(StoreError::Unavailable("the session is gone".into()))).unwrap();
    while database.presences.load(Ordering::SeqCst) < 2 {
        renewed(&tenant).await;
    }
    assert!(lost_at.elapsed() < RENEW_INTERVAL / 2, "others take the shards of whoever shows no sign");
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_cannot_listen_does_not_go_on_in_silence() {
    let (database, _says) = Database::new();
    database.is_broken.store(true, Ordering::SeqCst);
    let mut keeper = database.keeper();
    let _tenant = keeper.tenant();
    let ended = timeout(PATIENCE, tokio::spawn(keeper.run())).await.expect("the keeper ends");
    assert!(ended.unwrap_err().is_panic());
}

#[tokio::test(start_paused = true)]
async fn what_other_processes_say_reaches_every_tenant() {
    let (database, says) = Database::new();
    let mut keeper = database.keeper();
    let (first, second) = (keeper.tenant(), keeper.tenant());
    tokio::spawn(keeper.run());
    let merchant = MerchantId(Uuid::from_u128(7));
    says.send(Ok(vec![merchant])).unwrap();
    for tenant in [&first, &second] {
        loop {
            let told = timeout(PATIENCE, tenant.told()).await.unwrap();
            if told.heard == BTreeSet::from([merchant]) {
                break;
            }
        }
    }
    // Too many to name.
    says.send(Ok(Vec::new())).unwrap();
    while !timeout(PATIENCE, first.told()).await.unwrap().heard_of_many {}
}

#[tokio::test(start_paused = true)]
async fn a_keeper_says_where_it_stands() {
    let (database, says) = Database::new();
    database.is_taken.store(true, Ordering::SeqCst);
    let mut keeper = database.keeper();
    let (tenant, mut standing) = (keeper.tenant(), keeper.standing());
    assert!(matches!(*standing.borrow_and_update(), Standing::Starting(_)), "it has not begun");
    tokio::spawn(keeper.run());
    standing.changed().await.unwrap();
    assert_eq!(*standing.borrow_and_update(), Standing::StandingBy);
    database.is_taken.store(false, Ordering::SeqCst);
    standing.changed().await.unwrap();
    assert_eq!(*standing.borrow_and_update(), Standing::Present);
    renewed(&tenant).await;
    database.hangs.store(true, Ordering::SeqCst);
    standing.changed().await.unwrap();
    let Standing::Absent(since) = *standing.borrow_and_update() else { panic!("it cannot renew") };
    says.send(Err(StoreError::Unavailable("the session is gone".into()))).unwrap();
    settle_away().await;
    assert_eq!(*standing.borrow(), Standing::Absent(since), "absent since the first time");
    database.hangs.store(false, Ordering::SeqCst);
    standing.changed().await.unwrap();
    assert_eq!(*standing.borrow_and_update(), Standing::Present);
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_fails_when_it_starts_is_absent_since_it_started() {
    let (database, _says) = Database::new();
    database.hangs.store(true, Ordering::SeqCst);
    let mut keeper = database.keeper();
    let (_tenant, mut standing) = (keeper.tenant(), keeper.standing());
    let Standing::Starting(since) = *standing.borrow_and_update() else { panic!("it has not begun") };
    tokio::spawn(keeper.run());
    standing.changed().await.unwrap();
    assert_eq!(*standing.borrow(), Standing::Absent(since));
}

/// Lets a minute of virtual time pass.
async fn settle_away() {
    let _ = timeout(PATIENCE, std::future::pending::<()>()).await;
}
