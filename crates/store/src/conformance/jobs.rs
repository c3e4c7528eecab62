//! Jobs: one process at a time, and a mark that outlives it.

use std::time::Duration;

use settle_domain::time::Timestamp;

use super::fixtures::at;
use crate::{DueTime, JobState, Store, TakenJob};

/// How long the suite holds a job.
const HOLD: Duration = Duration::from_mins(5);

async fn take(store: &dyn Store, name: &str, now: Timestamp) -> Option<TakenJob> {
    take_due(store, name, now, DueTime::by(now)).await
}

async fn take_due(store: &dyn Store, name: &str, now: Timestamp, due: DueTime) -> Option<TakenJob> {
    let mut tx = store.begin().await.unwrap();
    let taken = tx.job_take(name, now, due, HOLD).await.unwrap();
    tx.commit().await.unwrap();
    taken
}

async fn keep(
    store: &dyn Store,
    held_until: Timestamp,
    due_at: Timestamp,
    until: Timestamp,
    mark: &str,
) -> bool {
    let state = JobState { due_at, held_until: until, mark: mark.to_owned() };
    let mut tx = store.begin().await.unwrap();
    let kept = tx.job_keep("books", held_until, &state).await.unwrap();
    tx.commit().await.unwrap();
    kept
}

fn taken(now: u64, mark: &str) -> TakenJob {
    TakenJob { held_until: at(now).plus(HOLD), mark: mark.to_owned() }
}

/// Nobody takes a job that another has; once its time is over, or it was let go and is due, the next goes on
/// from its mark.
pub async fn a_job_is_one_processes_at_a_time(store: &dyn Store) {
    assert_eq!(take(store, "books", at(0)).await, Some(taken(0, "")));
    assert_eq!(take(store, "books", at(299)).await, None, "somebody has it");
    assert_eq!(take(store, "other", at(1)).await, Some(taken(1, "")), "another job");
    assert!(keep(store, at(0).plus(HOLD), at(1_000), at(600), "half").await);
    assert_eq!(take(store, "books", at(599)).await, None, "it is held for longer now");
    assert_eq!(take(store, "books", at(600)).await, None, "free, and not due");
    assert_eq!(take(store, "books", at(1_000)).await, Some(taken(1_000, "half")));
    assert_eq!(take(store, "books", at(1_300)).await, Some(taken(1_300, "half")), "its process died");
    let by_hand = DueTime::by(Timestamp::MAX);
    assert!(keep(store, at(1_300).plus(HOLD), at(9_000), at(1_301), "done").await);
    assert_eq!(take_due(store, "books", at(1_302), by_hand).await, Some(taken(1_302, "done")));
}

/// Who was away for longer than it held the job changes nothing.
pub async fn who_lost_a_job_writes_nothing(store: &dyn Store) {
    let first = take(store, "books", at(0)).await.unwrap();
    let second = take(store, "books", at(300)).await.unwrap();
    assert!(!keep(store, first.held_until, at(9_000), at(301), "late").await);
    assert!(keep(store, second.held_until, at(400), at(301), "right").await);
    assert_eq!(take(store, "books", at(400)).await, Some(taken(400, "right")));
}

/// What a clock put off that was ahead is due and free once it is right again.
pub async fn a_job_put_off_by_a_clock_ahead_is_due(store: &dyn Store) {
    let ahead = take(store, "books", at(1_000_000)).await.unwrap();
    assert_eq!(take(store, "books", at(0)).await, None, "free, and not due");
    let due = DueTime { by: at(0), beyond: at(86_400) };
    assert!(keep(store, ahead.held_until, at(2_000_000), ahead.held_until, "").await);
    assert_eq!(take_due(store, "books", at(0), due).await, Some(taken(0, "")));
}
