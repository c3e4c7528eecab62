//! Jobs: work that is done now and then, by one process of all.
//!
//! Whoever finds a job due takes it for a while and is alone with it; if its process dies, another one takes
//! it when that time is over, and goes on from the mark. A process that was away for longer than it held the
//! job writes nothing: what it holds by is the fence.

use std::time::Duration;

use async_trait::async_trait;
use settle_domain::time::Timestamp;

use crate::{DueTime, StoreResult};

/// A job that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenJob {
    /// Until when nobody else takes it: the fence.
    pub held_until: Timestamp,
    /// How far it is, in its own words; empty if it was never done.
    pub mark: String,
}

/// How a job stands after some of its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobState {
    /// When it is due again.
    pub due_at: Timestamp,
    /// Until when nobody else takes it; the past to let it go.
    pub held_until: Timestamp,
    /// How far it is, in its own words.
    pub mark: String,
}

/// Changes to jobs.
#[async_trait]
pub trait JobWrites {
    /// Takes a job that is due and that nobody has, or that was never done. What is held for longer than
    /// twice the given time, a clock that has stepped since has said: it counts as free.
    async fn job_take(
        &mut self,
        name: &str,
        now: Timestamp,
        due: DueTime,
        hold: Duration,
    ) -> StoreResult<Option<TakenJob>>;

    /// Writes how a job stands, if it is still held until the given time. Says whether it is.
    async fn job_keep(&mut self, name: &str, held_until: Timestamp, state: &JobState) -> StoreResult<bool>;
}
