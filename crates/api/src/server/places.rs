//! The places of a listener: how many connections it serves at once, in all and for each source.
//!
//! Nobody holds a place by doing nothing. When a source or the listener is full, a new connection gets the
//! place of one that waits for its client: the client has not sent a whole head or body, or does not read its
//! answer. Handlers read a body before they do anything, so whoever waits for one has done nothing yet.
//! Sources with many connections give first, and of their connections the one that has waited longest.
//! A request that is being worked on is never cut off; when there are only such, a new connection of a full
//! source is refused, and at a full listener it waits.
//!
//! In the same way few connections at once have a large buffer, which a long head needs.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use tokio::sync::Notify;

use crate::http::{Proxies, Source};

/// What a connection does, in the lowest bits of its state; above them, when it began.
const PHASE_BITS: u32 = 3;
const PHASE_MASK: u64 = (1 << PHASE_BITS) - 1;
/// A source is heavier than another by steps of this part of what it may have. Otherwise somebody with two
/// connections would give them before a thousand strangers with one each.
const STEPS: usize = 8;
/// How many connections may have a large buffer.
const LARGE_MAX: usize = 256;
/// How many connections that may give their places are found at a time. Finding them looks at every
/// connection; a crowd that comes again and again would make everybody wait for that, each time.
const FOUND_MAX: usize = 64;

/// What a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u64)]
enum Phase {
    /// It waits for the client to send a head or a body, or the rest of what it refused.
    Waiting = 0,
    /// It waits for the client to read its answer.
    Blocked = 1,
    /// A handler works on a request.
    Working = 2,
    /// The handler has answered; the answer is being written.
    Answering = 3,
    /// Another connection took its place.
    Displaced = 4,
}

impl Phase {
    fn of(state: u64) -> Phase {
        match state & PHASE_MASK {
            0 => Phase::Waiting,
            1 => Phase::Blocked,
            2 => Phase::Working,
            3 => Phase::Answering,
            _ => Phase::Displaced,
        }
    }
}

/// Why a connection gets no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Its source has as many connections as it may have, and a handler works for each.
    Source,
    /// A handler works for each connection of the listener.
    Full,
}

/// The places of a listener. Cheap to clone.
#[derive(Clone)]
pub(super) struct Places(Arc<Shared>);

struct Shared {
    max: usize,
    per_source: usize,
    proxies: Proxies,
    taken: Mutex<Taken>,
    /// Orders what happens to connections.
    turns: AtomicU64,
    /// Whether a connection waits for a place.
    is_awaited: AtomicBool,
    /// Wakes that connection when a place may be free.
    freed: Notify,
}

#[derive(Default)]
struct Taken {
    /// How many connections make a source a step heavier.
    step: usize,
    next: u64,
    /// How many connections have a large buffer.
    large: usize,
    occupants: HashMap<u64, Arc<Occupant>>,
    sources: HashMap<Source, Arc<AtomicUsize>>,
    /// Who gives the next places, unless they went to work or left since they were found; the next one last.
    found: HashMap<Among, Vec<Candidate>>,
}

/// Those among whom a connection is displaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Among {
    Everybody,
    /// The connections of a full source.
    Source(Source),
    /// The connections with a large buffer.
    Large,
}

impl Among {
    fn contains(self, occupant: &Occupant) -> bool {
        match self {
            Among::Everybody => true,
            Among::Source(source) => occupant.source == source && occupant.of_source.is_some(),
            Among::Large => occupant.is_large.load(Ordering::Relaxed),
        }
    }
}

/// A connection that waits for its client; the smallest gives its place first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    phase: Phase,
    /// How heavy its source is.
    weight: Reverse<usize>,
    /// Its state: of two in the same phase the smaller has waited longer.
    state: u64,
    id: u64,
}

/// A connection that has a place.
struct Occupant {
    source: Source,
    /// How many connections its source has; `None` for a proxy, whose connections are many callers'.
    of_source: Option<Arc<AtomicUsize>>,
    state: AtomicU64,
    /// Whether it has a large buffer. It keeps it until it ends.
    is_large: AtomicBool,
    /// Whether the client may still be sending what nobody has read.
    is_sending: AtomicBool,
    /// Whether a handler waits for more of the body.
    is_body_wanted: AtomicBool,
    displaced: AtomicWaker,
}

impl Occupant {
    /// How heavy its source is, in steps of so many connections.
    fn weight(&self, step: usize) -> usize {
        self.of_source.as_ref().map_or(0, |number| number.load(Ordering::Relaxed) / step)
    }
}

impl Places {
    pub(super) fn new(max: usize, per_source: usize, proxies: Proxies) -> Places {
        Places(Arc::new(Shared {
            max,
            per_source,
            proxies,
            taken: Mutex::new(Taken { step: (per_source / STEPS).max(1), ..Taken::default() }),
            turns: AtomicU64::new(1),
            is_awaited: AtomicBool::new(false),
            freed: Notify::new(),
        }))
    }

    /// A place for a connection of this peer. If a handler works for every connection, it waits.
    pub(super) async fn enter(&self, peer: IpAddr) -> Result<Place, Refused> {
        loop {
            let freed = self.0.freed.notified();
            match self.try_enter(peer) {
                Err(Refused::Full) => self.0.is_awaited.store(true, Ordering::SeqCst),
                entered => return entered,
            }
            // A connection that began to wait before it saw that it is awaited would wake nobody.
            match self.try_enter(peer) {
                Err(Refused::Full) => freed.await,
                entered => return entered,
            }
        }
    }

    fn try_enter(&self, peer: IpAddr) -> Result<Place, Refused> {
        let source = Source::of(peer);
        let is_capped = !self.0.proxies.contain(peer);
        let mut taken = self.0.lock();
        let of_source = is_capped.then(|| taken.sources.entry(source).or_default().clone());
        let connections = of_source.as_ref().map_or(0, |number| number.load(Ordering::Relaxed));
        let entered = if connections >= self.0.per_source && !taken.displace(Among::Source(source)) {
            Err(Refused::Source)
        } else if taken.occupants.len() >= self.0.max && !taken.displace(Among::Everybody) {
            Err(Refused::Full)
        } else {
            Ok(())
        };
        if let Err(refused) = entered {
            taken.forget(source, of_source.as_deref());
            return Err(refused);
        }
        self.0.is_awaited.store(false, Ordering::SeqCst);
        // Whoever displaced the last connection of this source removed its counter.
        let of_source = is_capped.then(|| taken.sources.entry(source).or_default().clone());
        if let Some(number) = &of_source {
            let number = number.fetch_add(1, Ordering::Relaxed) + 1;
            if number > connections && number % taken.step == 0 {
                taken.outweigh(number);
            }
        }
        let id = taken.next;
        taken.next += 1;
        let state = AtomicU64::new(self.0.now(Phase::Waiting));
        let occupant = Arc::new(Occupant {
            source,
            of_source,
            state,
            is_large: AtomicBool::new(false),
            is_sending: AtomicBool::new(false),
            is_body_wanted: AtomicBool::new(false),
            displaced: AtomicWaker::new(),
        });
        taken.occupants.insert(id, occupant.clone());
        Ok(Place { places: self.0.clone(), occupant, id })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of a connection that begins this phase now.
    fn now(&self, phase: Phase) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed) << PHASE_BITS | phase as u64
    }

    fn wake(&self) {
        if self.is_awaited.load(Ordering::SeqCst) {
            self.freed.notify_waiters();
        }
    }
}

impl Taken {
    /// Takes the place of a connection that waits for its client; says whether there was one.
    fn displace(&mut self, among: Among) -> bool {
        let mut found = self.found.remove(&among).unwrap_or_default();
        loop {
            while let Some(candidate) = found.pop() {
                if self.displaces(candidate) {
                    if !found.is_empty() {
                        self.found.insert(among, found);
                    }
                    return true;
                }
            }
            found = self.find(among);
            if found.is_empty() {
                return false;
            }
        }
    }

    /// Displaces a connection if nothing has happened to it since it was found, and its source has not become
    /// lighter.
    fn displaces(&mut self, candidate: Candidate) -> bool {
        let Some(occupant) = self.occupants.get(&candidate.id) else { return false };
        let Reverse(weight) = candidate.weight;
        let (displaced, order) = (Phase::Displaced as u64, Ordering::SeqCst);
        let is_displaced = occupant.weight(self.step) >= weight
            && occupant.state.compare_exchange(candidate.state, displaced, order, order).is_ok();
        if is_displaced {
            occupant.displaced.wake();
            self.leave(candidate.id);
        }
        is_displaced
    }

    /// Those who give their places first, whatever others do meanwhile; the next one is the last. Whoever
    /// begins to wait later gives after them if they wait too and nobody's source is heavier. If not, it may
    /// have to give before them: then only the next one is found.
    fn find(&self, among: Among) -> Vec<Candidate> {
        let mut heaviest = 0;
        let mut first = BinaryHeap::with_capacity(FOUND_MAX + 1);
        for (&id, occupant) in self.occupants.iter().filter(|(_, occupant)| among.contains(occupant)) {
            let candidate = self.candidate(id, occupant);
            heaviest = heaviest.max(candidate.weight.0);
            first.extend((candidate.phase <= Phase::Blocked).then_some(candidate));
            if first.len() > FOUND_MAX {
                first.pop();
            }
        }
        let mut found = first.into_sorted_vec();
        let gives_first =
            |each: &&Candidate| (each.phase, each.weight) == (Phase::Waiting, Reverse(heaviest));
        found.truncate(found.iter().take_while(gives_first).count().max(1));
        found.reverse();
        found
    }

    /// A connection as one that may give its place.
    fn candidate(&self, id: u64, occupant: &Occupant) -> Candidate {
        let state = occupant.state.load(Ordering::SeqCst);
        Candidate { phase: Phase::of(state), weight: Reverse(occupant.weight(self.step)), state, id }
    }

    /// A source has become heavier, with so many connections: it may give before those who are not heavier,
    /// who are forgotten. Those of one source are all as heavy.
    fn outweigh(&mut self, connections: usize) {
        let weight = Reverse(connections / self.step);
        self.found.retain(|among, found| {
            let is_heavier = found.iter().all(|each| each.weight < weight);
            matches!(among, Among::Source(_)) || is_heavier
        });
    }

    /// A connection has got a large buffer. When too many have one, the one that gives its place first ends;
    /// it may be this one.
    fn enlarge(&mut self, id: u64) {
        let Some(occupant) = self.occupants.get(&id) else { return };
        if !occupant.is_large.swap(true, Ordering::Relaxed) {
            // It may have waited for longer than those who were found, or be heavier once it waits.
            let joined = self.candidate(id, occupant);
            let gives_later = |found: &Vec<Candidate>| {
                found.iter().all(|each| *each < joined && each.weight <= joined.weight)
            };
            if !self.found.get(&Among::Large).is_none_or(gives_later) {
                self.found.remove(&Among::Large);
            }
            self.large += 1;
            if self.large > LARGE_MAX {
                self.displace(Among::Large);
            }
        }
    }

    fn leave(&mut self, id: u64) {
        let Some(occupant) = self.occupants.remove(&id) else { return };
        if occupant.is_large.load(Ordering::Relaxed) {
            self.large -= 1;
        }
        if let Some(number) = &occupant.of_source {
            number.fetch_sub(1, Ordering::Relaxed);
            self.forget(occupant.source, Some(number));
        }
    }

    /// Removes the counter of a source without connections.
    fn forget(&mut self, source: Source, number: Option<&AtomicUsize>) {
        if number.is_some_and(|number| number.load(Ordering::Relaxed) == 0) {
            self.sources.remove(&source);
            self.found.remove(&Among::Source(source));
        }
    }
}

/// A connection's place, until it leaves or is displaced. Cheap to clone.
#[derive(Clone)]
pub(super) struct Place {
    places: Arc<Shared>,
    occupant: Arc<Occupant>,
    id: u64,
}

impl Place {
    /// A handler begins to work on a request: `false` if another connection has taken the place meanwhile.
    pub(super) fn work(&self) -> bool {
        self.change(|phase| phase != Phase::Displaced, Phase::Working)
    }

    /// Notes whether a handler waits for more of the body.
    pub(super) fn want_body(&self, is_wanted: bool) {
        self.occupant.is_body_wanted.store(is_wanted, Ordering::Relaxed);
    }

    /// The client has sent nothing more: if a handler waits for it, the handler does nothing.
    pub(super) fn starve(&self) {
        if self.occupant.is_body_wanted.load(Ordering::Relaxed)
            && self.change(|phase| phase == Phase::Working, Phase::Waiting)
        {
            self.places.wake();
        }
    }

    /// The handler has answered.
    pub(super) fn answer(&self) {
        self.change(|phase| matches!(phase, Phase::Working | Phase::Waiting), Phase::Answering);
    }

    /// The kernel has no room for the answer: the client does not read.
    pub(super) fn block(&self) {
        self.change(|phase| phase == Phase::Answering, Phase::Blocked);
    }

    /// Everything is written, and the client may send the next request.
    pub(super) fn wait(&self) {
        if self.change(|phase| matches!(phase, Phase::Answering | Phase::Blocked), Phase::Waiting) {
            self.places.wake();
        }
    }

    /// The connection has got a large buffer.
    pub(super) fn enlarge(&self) {
        if !self.is_large() {
            self.places.lock().enlarge(self.id);
        }
    }

    /// Whether the connection has a large buffer.
    pub(super) fn is_large(&self) -> bool {
        self.occupant.is_large.load(Ordering::Relaxed)
    }

    /// Notes whether the client may still be sending what nobody has read.
    pub(super) fn set_sending(&self, is_sending: bool) {
        self.occupant.is_sending.store(is_sending, Ordering::Relaxed);
    }

    pub(super) fn is_sending(&self) -> bool {
        self.occupant.is_sending.load(Ordering::Relaxed)
    }

    /// Ready when another connection has taken the place. The connection's task asks whenever it wakes, so
    /// asking must cost next to nothing; nobody else asks.
    pub(super) fn poll_displaced(&self, context: &Context<'_>) -> Poll<()> {
        self.occupant.displaced.register(context.waker());
        // Whoever displaces sets the state first, and then wakes.
        let phase = Phase::of(self.occupant.state.load(Ordering::SeqCst));
        if phase == Phase::Displaced { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Gives the place back.
    pub(super) fn leave(&self) {
        self.places.lock().leave(self.id);
        self.places.wake();
    }

    /// Begins a phase if the present one allows it.
    fn change(&self, is_allowed: impl Fn(Phase) -> bool, phase: Phase) -> bool {
        let state = &self.occupant.state;
        let mut present = state.load(Ordering::SeqCst);
        while is_allowed(Phase::of(present)) {
            let next = self.places.now(phase);
            match state.compare_exchange(present, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return true,
                Err(changed) => present = changed,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests;
