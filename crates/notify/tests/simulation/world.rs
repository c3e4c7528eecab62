//! The true state of the simulated world, and what must hold in it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use settle_domain::delivery::{Delivery, DeliveryEvent, DeliveryStatus, ENDPOINT_CLEARED, RetryPolicy};
use settle_domain::ids::{DeliveryId, MerchantId};
use settle_domain::seams::Clock;
use settle_domain::signature::{
    DELIVERY_ID_HEADER, EVENT_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, TOLERANCE, verify,
};
use settle_domain::time::Timestamp;
use settle_notify::dispatcher::queue::Outcome;
use settle_notify::notification::Notification;
use settle_store::{Claimed, DueTime};
use settle_testing::chance::Chance;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Lines of the story that a failure shows.
const STORY_LINES: usize = 60;

/// A clock that starts at the same time for every seed and follows the runtime's, until somebody sets it.
pub struct VirtualClock {
    origin: Timestamp,
    started: Instant,
    /// How far it is ahead of the right time.
    ahead_micros: AtomicI64,
}

impl VirtualClock {
    /// Sets the clock this far ahead of the right time, or behind it.
    pub fn step(&self, ahead_micros: i64) {
        self.ahead_micros.store(ahead_micros, Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let right = self.origin.plus(self.started.elapsed());
        Timestamp::from_micros(right.as_micros() + self.ahead_micros.load(Ordering::Relaxed))
    }
}

/// One delivery, as the simulation knows it.
pub struct Tracked {
    pub merchant: MerchantId,
    /// Its state in the database.
    pub state: Delivery,
    /// The bytes that every attempt must send.
    pub body: Vec<u8>,
    /// Whether its endpoint has answered an attempt with 2xx in time.
    pub answered: bool,
    /// Attempts that have ended at its endpoint or on the way to it, and not with us.
    pub reached: i32,
    /// Attempts that were recorded, in all cycles.
    pub spent: i32,
}

/// Everything that the simulation knows.
#[derive(Default)]
pub struct Known {
    pub deliveries: BTreeMap<DeliveryId, Tracked>,
    /// Deliveries that the living dispatcher has claimed and not sent yet, with the secret that the claim
    /// gave.
    claimed: HashMap<DeliveryId, String>,
    /// Deliveries that were handed to a dispatcher, which may send them without a claim, with their secret.
    handed_over: HashMap<DeliveryId, String>,
    /// Deliveries that the living dispatcher has sent and not recorded yet.
    unrecorded: HashSet<DeliveryId>,
    /// Faults of attempts. A panic would not do: the dispatcher takes it for a failure of the sender and goes
    /// on.
    wrong_sends: Vec<String>,
    /// The present secret of each merchant; none if its endpoint is cleared.
    pub secrets: BTreeMap<MerchantId, Option<String>>,
    /// Deliveries whose last attempt failed: operations must hear of each.
    pub deaths: usize,
    pub sends: usize,
    /// Sends of deliveries that no claim had found.
    pub unclaimed_sends: usize,
    pub crashes: usize,
    story: VecDeque<String>,
}

pub struct World {
    pub chance: Chance,
    pub clock: Arc<VirtualClock>,
    pub retry: RetryPolicy,
    /// Whether the clock steps in this world. What is known of times holds only where it does not.
    pub has_steps: bool,
    /// Tells the scenario that the dispatcher dies now.
    pub crash: Notify,
    known: Mutex<Known>,
}

impl World {
    pub fn new(seed: u64, retry: RetryPolicy) -> World {
        let origin = "2026-01-31T09:30:00Z".parse().expect("a time");
        let chance = Chance::new(seed);
        let ahead_micros = AtomicI64::new(0);
        World {
            has_steps: chance.once_in(3),
            chance,
            clock: Arc::new(VirtualClock { origin, started: Instant::now(), ahead_micros }),
            retry,
            crash: Notify::new(),
            known: Mutex::default(),
        }
    }

    pub fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn tell(&self, line: impl std::fmt::Display) {
        let now = self.clock.now();
        let mut known = self.known();
        known.story.push_back(format!("{now} {line}"));
        if known.story.len() > STORY_LINES {
            known.story.pop_front();
        }
    }

    pub fn story(&self) -> String {
        self.known().story.iter().cloned().collect::<Vec<_>>().join("\n")
    }

    /// The dispatcher has died, and its claims with it.
    pub fn crashed(&self) {
        self.tell("the dispatcher dies");
        let mut known = self.known();
        known.claimed.clear();
        known.unrecorded.clear();
        known.crashes += 1;
    }

    /// Checks that only pending deliveries that are due are claimed, and none twice. A claim by a dispatcher
    /// that has died meanwhile does not count.
    pub fn check_claims(&self, life: usize, due: DueTime, found: &[Claimed]) {
        if life != self.known().crashes {
            return;
        }
        for claimed in found {
            let id = claimed.delivery.delivery_id;
            self.tell(format_args!("claimed {id}"));
            let mut known = self.known();
            let tracked = &known.deliveries[&id];
            assert_eq!(tracked.state, claimed.delivery, "a claim gives what is stored");
            assert_eq!(claimed.delivery.status, DeliveryStatus::Pending);
            assert!(due.has_come(claimed.delivery.next_attempt_at), "{id} is claimed before its time");
            assert!(claimed.delivery.attempts < self.retry.attempts_max, "{id}: a 9th attempt");
            assert_eq!(
                claimed.record.notification(claimed.delivery.event_type),
                tracked.body,
                "{id}: the bytes are not frozen"
            );
            let secret = known.secrets[&tracked.merchant].clone();
            assert_eq!(claimed.secret.is_some(), secret.is_some(), "{id}: the present secret");
            if let Some(secret) = secret {
                assert!(known.claimed.insert(id, secret).is_none(), "{id} is claimed twice");
            }
        }
    }

    /// Deliveries are handed to the dispatcher, which may send them or leave them to a claim.
    pub fn handed_over(&self, merchant: MerchantId, deliveries: impl Iterator<Item = DeliveryId>) {
        let mut known = self.known();
        let secret = known.secrets[&merchant].clone().expect("what is enqueued has an endpoint");
        known.handed_over.extend(deliveries.map(|delivery| (delivery, secret.clone())));
    }

    /// We could not make an attempt: the delivery will be claimed again.
    pub fn not_sent(&self, notification: &Notification) {
        let header = notification.headers[DELIVERY_ID_HEADER].to_str().expect("text");
        let id: DeliveryId = header.parse().expect("an id");
        self.tell(format_args!("not sent {id}, for a reason of ours"));
        let mut known = self.known();
        known.claimed.remove(&id);
        known.handed_over.remove(&id);
    }

    /// An attempt has ended, and not with us.
    pub fn reached(&self, id: DeliveryId) {
        self.known().deliveries.get_mut(&id).expect("it was sent").reached += 1;
    }

    /// An attempt reaches the endpoint. Its faults are reported at the end.
    pub fn sent(&self, notification: &Notification) -> Option<DeliveryId> {
        let sent = std::panic::catch_unwind(AssertUnwindSafe(|| self.check_sent(notification)));
        let wrong = |fault: &(dyn std::any::Any + Send)| {
            fault.downcast_ref::<String>().cloned().unwrap_or_else(|| "an attempt is wrong".to_owned())
        };
        sent.inspect_err(|fault| self.known().wrong_sends.push(wrong(&**fault))).ok()
    }

    fn check_sent(&self, notification: &Notification) -> DeliveryId {
        let header = |name: &str| notification.headers[name].to_str().expect("text").to_owned();
        let id: DeliveryId = header(DELIVERY_ID_HEADER).parse().expect("an id");
        self.tell(format_args!("sent {id}"));
        let now = self.clock.now();
        let mut known = self.known();
        known.sends += 1;
        let secrets = [known.claimed.remove(&id), known.handed_over.remove(&id)];
        assert_ne!(secrets, [None, None], "{id} is sent without being claimed or handed over, or twice");
        assert!(known.unrecorded.insert(id), "{id} is sent again before it is recorded");
        known.unclaimed_sends += usize::from(secrets[0].is_none());
        let tracked = &known.deliveries[&id];
        assert_ne!(tracked.state.status, DeliveryStatus::Delivered, "{id} is sent after it was delivered");
        let is_due = tracked.state.next_attempt_at <= now;
        assert!(is_due || self.has_steps, "{id} is sent before its time");
        assert!(tracked.state.attempts < self.retry.attempts_max, "{id}: a 9th attempt");
        assert_eq!(notification.body, tracked.body, "{id}: the bytes are not frozen");
        assert_eq!(header(EVENT_HEADER), "settlement.completed");
        assert_eq!(header(TIMESTAMP_HEADER), now.as_seconds().to_string(), "{id}: signed afresh");
        let signature = header(SIGNATURE_HEADER);
        let (timestamp, body) = (header(TIMESTAMP_HEADER), &notification.body);
        let signed =
            |secret: &String| verify(secret.as_bytes(), &timestamp, &signature, body, now, TOLERANCE).is_ok();
        assert!(secrets.iter().flatten().any(signed), "{id}: a secret that it was not given");
        id
    }

    /// The endpoint has answered with 2xx in time, whether or not the dispatcher lives to see it.
    pub fn answered(&self, id: DeliveryId) {
        self.known().deliveries.get_mut(&id).expect("it was sent").answered = true;
    }

    /// Outcomes are in the database: checks that each is a transition of the state table.
    pub fn recorded(&self, outcomes: &[Outcome], changed: &[DeliveryId]) {
        for outcome in outcomes {
            let after = &outcome.state.delivery;
            let id = after.delivery_id;
            self.known().unrecorded.remove(&id);
            if !changed.contains(&id) {
                self.tell(format_args!("not recorded {id}: it has changed meanwhile"));
                continue;
            }
            self.tell(format_args!("recorded {id}: {} after {} attempts", after.status, after.attempts));
            let mut known = self.known();
            let tracked = known.deliveries.get_mut(&id).expect("it was sent");
            let mut expected = tracked.state.clone();
            let event = event_of(after);
            // The outcome has the time of its attempt, which lies between sending and recording.
            let at = match after.status {
                DeliveryStatus::Delivered => after.delivered_at.expect("a delivered row has its time"),
                DeliveryStatus::Pending => earlier(after.next_attempt_at, &self.retry, after.attempts),
                // An endpoint that is gone cuts a wait short.
                DeliveryStatus::Dead if expected.next_attempt_at > after.next_attempt_at => {
                    after.next_attempt_at
                }
                DeliveryStatus::Dead => Timestamp::MAX,
            };
            expected.apply(event, at, &self.retry).expect("the state table allows it");
            assert_eq!(&expected, after, "{id}: a step that is not in the state table");
            let is_past = at <= self.clock.now() || after.status == DeliveryStatus::Dead;
            assert!(is_past || self.has_steps);
            tracked.spent += after.attempts - tracked.state.attempts;
            assert!(tracked.spent <= tracked.reached, "{id}: we have spent an attempt");
            if after.status == DeliveryStatus::Delivered {
                assert!(tracked.answered, "{id} counts as delivered and was never answered");
            }
            tracked.state = after.clone();
            if outcome.alert {
                assert_eq!((after.status, after.attempts), (DeliveryStatus::Dead, self.retry.attempts_max));
                known.deaths += 1;
            }
        }
    }

    /// Whether every delivery has come to its end.
    pub fn is_over(&self) -> bool {
        self.known().deliveries.values().all(|tracked| tracked.state.status != DeliveryStatus::Pending)
    }

    /// What must hold of every delivery at the end.
    pub fn check_end(&self) {
        let wrong_sends = std::mem::take(&mut self.known().wrong_sends);
        assert!(wrong_sends.is_empty(), "{}", wrong_sends.join("\n"));
        for (id, tracked) in &self.known().deliveries {
            let state = &tracked.state;
            match state.status {
                DeliveryStatus::Pending => panic!("{id} never ends"),
                DeliveryStatus::Delivered => assert!(tracked.answered, "{id}"),
                DeliveryStatus::Dead => {
                    let cleared = state.last_error.as_deref() == Some(ENDPOINT_CLEARED);
                    assert!(cleared || state.attempts == self.retry.attempts_max, "{id} died early");
                }
            }
        }
    }
}

/// The event that led to a state.
fn event_of(after: &Delivery) -> DeliveryEvent {
    let response_status = after.response_status.map(|status| u16::try_from(status).expect("a status"));
    match (after.status, &after.last_error) {
        (DeliveryStatus::Delivered, _) => {
            DeliveryEvent::Answered { response_status: response_status.expect("answered with one") }
        }
        (_, Some(error)) if error == ENDPOINT_CLEARED => DeliveryEvent::EndpointGone,
        (_, error) => {
            DeliveryEvent::Failed { response_status, error: error.clone().expect("a failure says why") }
        }
    }
}

fn earlier(next: Timestamp, retry: &RetryPolicy, attempts: i32) -> Timestamp {
    let delay = i64::try_from(retry.delay_after(attempts).as_micros()).expect("a short time");
    Timestamp::from_micros(next.as_micros() - delay)
}
