//! The providers: how many calls each gets at once, when it is left alone, and what it can do.
//!
//! A provider that does not answer takes its own places and nobody else's. After some failures in a row its
//! circuit opens: nothing is sent to it until a look-up or a question for its capabilities has been answered
//! again. Look-ups never stop: they are how the outcome of what was sent becomes known.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::metrics::Histogram;
use bytes::Bytes;
use settle_domain::ids::OperationId;
use settle_domain::operation::{OperationKind, Window};
use settle_domain::provider::ProviderName;
use settle_domain::seams::Clock;
use settle_domain::time::Timestamp;
use settle_provider::provider::Provider;
use settle_provider::seen::{NotSentFault, Seen};
use settle_provider::wire::{self, Capabilities, Operation, OperationPage, Quote, QuoteRequest};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// Calls to one provider at once.
const CALLS_MAX: usize = 64;
/// How long a call waits for a place before it counts as not sent.
const PLACE_WAIT: Duration = Duration::from_secs(5);
/// Failures in a row that open a circuit.
const FAILURES_MAX: u32 = 5;
/// How long an open circuit lets nothing through, at first and at most.
const OPEN_FIRST: Duration = Duration::from_secs(5);
const OPEN_MAX: Duration = Duration::from_mins(5);
/// How long a provider may take to say which memory it has, before something that depends on it.
const MEMORY_WAIT: Duration = Duration::from_secs(5);
/// How long what a provider can do is believed.
const CAPABILITIES_AGE_MAX: Duration = Duration::from_mins(1);

/// The providers of the settings, by name.
#[derive(Clone, Default)]
pub struct Providers(Arc<BTreeMap<ProviderName, Arc<Station>>>);

impl Providers {
    /// These providers.
    #[must_use]
    pub fn new(stations: impl IntoIterator<Item = Station>) -> Providers {
        let named = stations.into_iter().map(|station| (station.name.clone(), Arc::new(station)));
        Providers(Arc::new(named.collect()))
    }

    /// The provider with this name.
    #[must_use]
    pub fn find(&self, name: &ProviderName) -> Option<&Arc<Station>> {
        self.0.get(name)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Station>> {
        self.0.values()
    }
}

/// One provider.
pub struct Station {
    name: ProviderName,
    provider: Arc<dyn Provider>,
    clock: Arc<dyn Clock>,
    /// How long the same key is sent again at most, as the settings say.
    window: Duration,
    places: Semaphore,
    circuit: Mutex<Circuit>,
    /// Shared: every step of every payment asks for it.
    capabilities: Mutex<Option<(Instant, Arc<Capabilities>)>>,
    /// Held by who asks for them.
    asking: tokio::sync::Mutex<()>,
    durations: [Histogram; Call::ALL.len()],
}

/// What is asked of a provider.
#[derive(Debug, Clone, Copy)]
enum Call {
    Capabilities,
    Quote,
    Send,
    LookUp,
    Void,
    Changes,
}

impl Call {
    /// All of them, each at its place.
    const ALL: [Call; 6] =
        [Call::Capabilities, Call::Quote, Call::Send, Call::LookUp, Call::Void, Call::Changes];

    fn as_str(self) -> &'static str {
        match self {
            Call::Capabilities => "capabilities",
            Call::Quote => "quote",
            Call::Send => "send",
            Call::LookUp => "look_up",
            Call::Void => "void",
            Call::Changes => "changes",
        }
    }
}

/// A histogram of how long each call took. All of them are there before the first call.
fn durations(provider: &ProviderName) -> [Histogram; Call::ALL.len()] {
    Call::ALL.map(|call| {
        let labels = [("provider", provider.to_string()), ("call", call.as_str().to_owned())];
        ::metrics::histogram!("settle_provider_call_duration_seconds", &labels)
    })
}

/// Whether a provider answers.
#[derive(Debug, Default)]
struct Circuit {
    /// Calls without an answer in a row.
    failures: u32,
    /// When the last call was answered, by our clock.
    answered_at: Option<Timestamp>,
    /// How often it has opened since the last answer.
    openings: u32,
    /// Until when nothing is sent.
    open_until: Option<Instant>,
    is_paused: bool,
    /// With which status it turned us away when it was last asked each thing.
    turned_away: [Option<u16>; Call::ALL.len()],
}

impl Circuit {
    /// A call was answered. Says whether the circuit was open.
    fn answered(&mut self, at: Timestamp) -> bool {
        (self.failures, self.openings) = (0, 0);
        self.answered_at = Some(at);
        self.open_until.take().is_some()
    }

    /// A call was not answered. Gives for how long the circuit opens, if it does.
    fn failed(&mut self, now: Instant) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        if self.failures < FAILURES_MAX || self.open_until.is_some_and(|until| until > now) {
            return None;
        }
        // Many calls may fail at once: only what fails after an opening makes the next one longer.
        let longer = 2_u32.saturating_pow(self.openings.min(16));
        let pause = OPEN_FIRST.saturating_mul(longer).min(OPEN_MAX);
        self.openings = self.openings.saturating_add(1);
        self.open_until = Some(now + pause);
        Some(pause)
    }
}

impl Station {
    /// A provider.
    #[must_use]
    pub fn new(
        name: ProviderName,
        provider: Arc<dyn Provider>,
        clock: Arc<dyn Clock>,
        window: Duration,
    ) -> Station {
        Station {
            durations: durations(&name),
            name,
            provider,
            clock,
            window,
            places: Semaphore::new(CALLS_MAX),
            circuit: Mutex::default(),
            capabilities: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &ProviderName {
        &self.name
    }

    /// Whether something may be sent to it now.
    #[must_use]
    pub fn may_send(&self) -> bool {
        let circuit = self.circuit();
        !circuit.is_paused && circuit.open_until.is_none_or(|until| until <= Instant::now())
    }

    /// Whether its circuit is open: it did not answer lately, and nothing is sent to it for a while.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.circuit().open_until.is_some_and(|until| until > Instant::now())
    }

    /// When it last answered this process, if it has.
    #[must_use]
    pub fn answered_at(&self) -> Option<Timestamp> {
        self.circuit().answered_at
    }

    /// How many calls in a row it has not answered.
    #[must_use]
    pub fn unanswered(&self) -> u32 {
        self.circuit().failures
    }

    /// Whether it says that it moves no real money, if it has been asked.
    #[must_use]
    pub fn is_sandbox(&self) -> Option<bool> {
        self.known().map(|known| known.sandbox)
    }

    /// With which status it turns us away from what a payment needs to go on, if it does: it does not accept
    /// our credentials.
    #[must_use]
    pub fn turns_away(&self) -> Option<u16> {
        let turned_away = self.circuit().turned_away;
        [Call::Capabilities, Call::Quote, Call::Send].into_iter().find_map(|call| turned_away[call as usize])
    }

    /// Whether an operator has paused it.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.circuit().is_paused
    }

    /// An operator pauses it, or lets it go on.
    pub fn pause(&self, is_paused: bool) {
        self.circuit().is_paused = is_paused;
    }

    /// How many calls are under way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        CALLS_MAX - self.places.available_permits()
    }

    /// Whether the provider still remembers the key of an operation of this age.
    #[must_use]
    pub fn window(&self, age: Duration) -> Window {
        let promised = self.known().map(|known| Duration::from_secs(known.idempotency_window_seconds));
        Window::after(age, self.window, promised.unwrap_or(self.window))
    }

    /// The memory that the provider has now, as far as it is known.
    #[must_use]
    pub fn instance(&self) -> Option<String> {
        self.known().map(|known| known.instance.clone())
    }

    /// What it can do, asked now and then: by one caller, while the others go on with what is known, or wait
    /// for the one if that is nothing.
    pub async fn capabilities(&self) -> Option<Arc<Capabilities>> {
        let fresh = self.capabilities_guard().clone().filter(|(at, _)| at.elapsed() < CAPABILITIES_AGE_MAX);
        if let Some((_, known)) = fresh {
            return Some(known);
        }
        let Ok(_asking) = self.asking.try_lock() else {
            let known = self.known();
            if known.is_none() {
                drop(self.asking.lock().await);
            }
            return known.or_else(|| self.known());
        };
        self.ask().await.or_else(|| self.known())
    }

    /// Asks what it can do, and remembers the answer, if there is one.
    async fn ask(&self) -> Option<Arc<Capabilities>> {
        let seen = self.called(Call::Capabilities, self.provider.capabilities(self.clock.now())).await;
        let Seen::Answered(now) = seen else { return None };
        let now = Arc::new(now);
        let before = self.capabilities_guard().replace((Instant::now(), now.clone()));
        if let Some((_, before)) = before.filter(|(_, before)| before.instance != now.instance) {
            let (provider, before, now) = (&self.name, &before.instance, &now.instance);
            tracing::warn!(%provider, before, now, "the provider has another memory than before");
        }
        Some(now)
    }

    /// The memory that the provider has now, if it says so.
    pub async fn present_instance(&self) -> Option<String> {
        self.capabilities().await;
        let fresh = self.capabilities_guard().clone().filter(|(at, _)| at.elapsed() < CAPABILITIES_AGE_MAX);
        fresh.map(|(_, known)| known.instance.clone())
    }

    /// Whether the provider may still have this memory. It is asked now, however lately it said so.
    pub async fn may_have(&self, instance: &str) -> bool {
        let present = match timeout(MEMORY_WAIT, self.ask()).await {
            Ok(Some(now)) => Some(now.instance.clone()),
            Ok(None) | Err(_) => self.instance(),
        };
        present.is_none_or(|present| present == instance)
    }

    /// Asks for a quote.
    pub async fn quote(&self, request: &QuoteRequest) -> Seen<Quote> {
        if !self.may_send() {
            return Seen::NotSent(NotSentFault::Timeout(Duration::ZERO));
        }
        let Ok(Ok(_place)) = timeout(PLACE_WAIT, self.places.acquire()).await else {
            return Seen::NotSent(NotSentFault::Timeout(PLACE_WAIT));
        };
        self.called(Call::Quote, self.provider.quote(request, self.clock.now())).await
    }

    /// Sends an operation. The caller has committed that it does, and `stamped_at` is when its lease was last
    /// checked: from a process that slept since, the provider turns the request away.
    pub async fn send(
        &self,
        kind: OperationKind,
        id: OperationId,
        body: Bytes,
        stamped_at: Timestamp,
    ) -> Seen<Operation> {
        if !self.may_send() {
            return Seen::NotSent(NotSentFault::Timeout(Duration::ZERO));
        }
        let Ok(Ok(_place)) = timeout(PLACE_WAIT, self.places.acquire()).await else {
            return Seen::NotSent(NotSentFault::Timeout(PLACE_WAIT));
        };
        let kind = match kind {
            OperationKind::Conversion => wire::OperationKind::Conversion,
            OperationKind::Payout => wire::OperationKind::Payout,
            OperationKind::Refund => wire::OperationKind::Refund,
        };
        let sent = self.provider.send(kind, id.0, body, stamped_at);
        self.called(Call::Send, sent).await
    }

    /// Looks an operation up.
    pub async fn look_up(&self, id: OperationId) -> Seen<Operation> {
        self.called(Call::LookUp, self.provider.look_up(id.0, self.clock.now())).await
    }

    /// Asks that an operation is never begun.
    pub async fn void(&self, id: OperationId) -> Seen<Operation> {
        self.called(Call::Void, self.provider.void(id.0, self.clock.now())).await
    }

    /// A page of what has changed there since then.
    pub async fn changes(&self, since: Timestamp, after: Option<&str>) -> Seen<OperationPage> {
        self.called(Call::Changes, self.provider.changes(since, after, self.clock.now())).await
    }

    /// Makes a call, measures it, and counts what it has seen.
    async fn called<T>(&self, call: Call, made: impl Future<Output = Seen<T>>) -> Seen<T> {
        let started = Instant::now();
        let seen = made.await;
        self.durations[call as usize].record(started.elapsed().as_secs_f64());
        self.note(&seen);
        self.note_credentials(call, &seen);
        seen
    }

    /// Says in the log when the provider begins to turn us away, and when it no longer does.
    fn note_credentials<T>(&self, call: Call, seen: &Seen<T>) {
        let now = match seen {
            Seen::TurnedAway { status, .. } => Some(*status),
            // This says nothing of our credentials.
            Seen::NotSent(_) | Seen::NoAnswer(_) | Seen::Unusable { .. } => return,
            _ => None,
        };
        let before = std::mem::replace(&mut self.circuit().turned_away[call as usize], now);
        let (provider, call) = (&self.name, call.as_str());
        match now {
            Some(status) if before != now => tracing::warn!(
                %provider,
                call,
                "the provider turns us away: it does not accept our credentials ({status})"
            ),
            None if before.is_some() => {
                tracing::info!(%provider, call, "the provider accepts our credentials again");
            }
            Some(_) | None => {}
        }
    }

    /// Counts what a call has seen: whoever answers, in whatever words, is there.
    fn note<T>(&self, seen: &Seen<T>) {
        let has_answered = match seen {
            Seen::NotSent(_) | Seen::NoAnswer(_) => false,
            Seen::Unusable { status, .. } => *status < 500,
            _ => true,
        };
        if has_answered {
            let now = self.clock.now();
            if self.circuit().answered(now) {
                tracing::info!(provider = %self.name, "the provider answers again");
            }
        } else if let Some(pause) = self.circuit().failed(Instant::now()) {
            tracing::warn!(provider = %self.name, ?pause, "the provider does not answer: nothing is sent to it");
        }
    }

    fn circuit(&self) -> MutexGuard<'_, Circuit> {
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn capabilities_guard(&self) -> MutexGuard<'_, Option<(Instant, Arc<Capabilities>)>> {
        self.capabilities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> Option<Arc<Capabilities>> {
        self.capabilities_guard().as_ref().map(|(_, known)| known.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_circuit_opens_for_longer_each_time_however_many_calls_fail_at_once() {
        let mut circuit = Circuit::default();
        let mut now = Instant::now();
        let burst = |circuit: &mut Circuit, now: Instant| -> Vec<Duration> {
            (0..64).filter_map(|_| circuit.failed(now)).collect()
        };
        for seconds in [5, 10, 20, 40, 80, 160, 300, 300] {
            assert_eq!(burst(&mut circuit, now), [Duration::from_secs(seconds)]);
            now += Duration::from_secs(seconds);
        }
        let at = Timestamp::from_micros(0);
        assert!(circuit.answered(at) && !circuit.answered(at));
        assert_eq!((0..4).find_map(|_| circuit.failed(now)), None, "a few failures are no sign");
        assert_eq!(circuit.failed(now), Some(OPEN_FIRST));
    }
}
