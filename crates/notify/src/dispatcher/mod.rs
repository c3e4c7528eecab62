//! The dispatcher: claims what is due, sends it, records what came of it.
//!
//! | module | what it does |
//! |---|---|
//! | `service` | the loop: something happens, then the calls are made that are wanted and due |
//! | `state` | what is remembered, and what each thing that happens changes in it |
//! | `calls` | the calls to the database, one table: when each is wanted, how it is made, what it changes |
//! | `schedule` | when each call is due, and how long a failing database is left alone |
//! | [`queue`] | what these calls are: the seam to the database |
//! | `attempt` | one attempt, from its start to its outcome |
//! | [`lanes`] | who is served next, and how much of it: fairness without I/O |
//! | `unrecorded` | outcomes that are not recorded yet |
//! | `apart` | those of busy merchants, and of merchants of which the database refuses one |
//! | `secrets` | secrets opened a moment ago |
//! | `due_soon` | merchants that become due soon, and merchants that rest |
//! | `drained` | merchants that count as due and may have nothing left |
//!
//! # How a notification is sent
//!
//! **The queue is the table of deliveries.** The transaction that records a settlement inserts its delivery,
//! due at once. A merchant's pending rows, by the time they are due, are its queue; `next_due_at` of its
//! counts says when the first one is due, so that a look finds merchants and not rows. That time is indexed
//! and so not written for every row that is sent: it may be a second early, and stays when the last row is
//! sent, until a claim finds nothing behind it and a refresh clears it. It is never late: whatever is
//! enqueued draws it back.
//!
//! **A claim is a read.** Whoever holds a shard is alone in it and knows what it has in flight or not yet
//! recorded, so it asks for rows that are due and not among those. Nothing is written before an attempt; an
//! attempt cut off by a crash has left no trace, does not count, and is made again. Claims are batches that
//! grow by themselves under load, because the next one starts when the last has ended.
//!
//! **Outcomes are recorded in batches.** An outcome waits up to 50 ms for others, or until there are 256: an
//! attempt that has ended frees its merchant's place at once, so hardly anybody waits for the record. But the
//! delivery keeps its shared place until the record: after a crash no more than `in_flight.total` arrive
//! twice. Two fences hold: the token must still be the shard's, and the row must be as the claim saw it. So
//! an endpoint cleared meanwhile stays cleared, and a node that lost its shard changes nothing. A database
//! that is away costs time and no merchant's attempt. A merchant that others have locked is passed over,
//! twice; then its outcomes wait for its lock, in a transaction of their own (`apart`).
//!
//! **Waking.** Whoever commits something due wakes the dispatcher of its process
//! ([`wake`](settle_outbox::wake)), with the deliveries themselves when they are few: the dispatcher sends
//! them without reading them back when nothing of the merchant waits before them and no claim can have found
//! them. If another process holds the shard, the dispatcher wakes that one, after the commit and not in it,
//! because PostgreSQL lets transactions that notify commit only one after the other. All of these are hints:
//! a look every second finds retries and whatever a hint has missed. Due times are the clock of the node that
//! enqueued: where the clock of the node that sends is behind it, a first attempt waits for as long as it is
//! behind. So nodes keep their clocks together.
//!
//! **Clocks step.** A clock that was a day ahead for a moment leaves deliveries that are due in a day. No
//! wait is so long, so looks and claims take what is due later than [`RetryPolicy::latest`] for due, and a
//! delivery waits no longer than that, whatever the clocks did. Leases are not touched by steps: the keeper
//! measures them with a clock that never steps, and PostgreSQL with its own.

use std::sync::Arc;
use std::time::Duration;

use settle_domain::delivery::RetryPolicy;
use settle_domain::seams::Clock;
use settle_domain::vault::KeyRing;
use settle_outbox::wake::Wake;
use settle_shards::tenancy::Tenancy;

use crate::sender::Transport;

mod apart;
mod attempt;
mod calls;
mod drained;
mod due_soon;
pub mod lanes;
pub mod queue;
mod schedule;
mod secrets;
mod service;
mod state;
mod unrecorded;

use lanes::InFlightLimits;
use queue::DeliveryQueue;

/// How a dispatcher works.
#[derive(Debug, Clone, Copy)]
pub struct DispatchSettings {
    /// How long one attempt may take: the transport's own limit. The keeper's lease is longer.
    pub timeout: Duration,
    /// How often and how far apart a delivery is tried.
    pub retry: RetryPolicy,
    /// The bounds on what is in flight.
    pub in_flight: InFlightLimits,
    /// How long attempts under way may take to finish when the dispatcher is told to stop.
    pub shutdown_timeout: Duration,
}

/// The parts a dispatcher is made from.
#[derive(Clone)]
pub struct Dispatcher {
    /// The queue of deliveries.
    pub queue: Arc<dyn DeliveryQueue>,
    /// Who carries notifications to endpoints.
    pub transport: Arc<dyn Transport>,
    /// The master keys, which open the secrets.
    pub ring: Arc<KeyRing>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Who says that something is due.
    pub wake: Wake,
    /// How it works.
    pub settings: DispatchSettings,
}

impl Dispatcher {
    /// Sends notifications in the shards of its tenancy until told to stop; then finishes what is in flight
    /// and gives up the tenancy.
    pub async fn run(self, tenancy: Tenancy, stop: impl Future<Output = ()> + Send) {
        service::Service::new(self, tenancy).run(stop).await;
    }
}
