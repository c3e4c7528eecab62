//! The tally of what was posted, acknowledged and received: the one state that a proof waits for and judges.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use settle_testing::serving::PATIENCE;

/// The longest pause between two tries.
const PACE: Duration = Duration::from_millis(20);

/// A notification, and each of its arrivals.
#[derive(Debug, Clone)]
pub struct Notified {
    /// The number of its settlement.
    pub settlement: u64,
    /// For each arrival, the life of the service in which it arrived.
    pub lives: Vec<usize>,
}

/// Everything that a proof counts.
#[derive(Debug, Default)]
pub struct Tally {
    /// Where settlements are posted to.
    pub operators: Vec<SocketAddr>,
    /// Whether new settlements are posted.
    pub loading: bool,
    /// Settlements posted at least once; they are numbered from 0.
    pub posted: u64,
    /// Settlements whose batch was answered with 200.
    pub acknowledged: u64,
    /// How often the service has been killed, stopped or disturbed so far.
    pub life: usize,
    /// Arrivals in this life.
    pub arrivals_in_life: usize,
    /// Arrivals in all lives.
    pub arrivals: usize,
    /// Connections to the receiver that are open.
    pub connections: usize,
    /// The notifications that arrived, by delivery id.
    pub notified: HashMap<String, Notified>,
    /// The delivery id of each settlement that arrived.
    pub settlements: HashMap<u64, String>,
    /// Settlements whose notifications the receiver holds: it answers them only when the test says so.
    pub to_hold: HashSet<u64>,
    /// The held deliveries, and the peer that waits or waited for each answer.
    pub held: Vec<(String, SocketAddr)>,
    /// Things that must not happen, and did.
    pub faults: Vec<String>,
}

impl Tally {
    /// Counts an arrival whose signature is good; returns whether it is the first of its delivery.
    pub fn arrived(&mut self, delivery: &str, settlement: u64) -> bool {
        self.arrivals += 1;
        self.arrivals_in_life += 1;
        let notified = self.notified.entry(delivery.to_owned());
        let notified = notified.or_insert_with(|| Notified { settlement, lives: Vec::new() });
        notified.lives.push(self.life);
        let is_first = notified.lives.len() == 1;
        if notified.settlement != settlement {
            self.faults.push(format!("{delivery} told of {} and {settlement}", notified.settlement));
        }
        let known = self.settlements.entry(settlement).or_insert_with(|| delivery.to_owned());
        if known != delivery {
            self.faults.push(format!("{settlement} was told of in {known} and in {delivery}"));
        }
        if settlement >= self.posted {
            self.faults.push(format!("{settlement} was never posted"));
        }
        is_first
    }

    /// Whether everything that was posted is acknowledged and has arrived.
    pub fn is_complete(&self) -> bool {
        self.acknowledged == self.posted
            && (0..self.posted).all(|number| self.settlements.contains_key(&number))
    }

    /// Repeated arrivals, by the life of the arrival before them: these deliveries were in flight at the end
    /// of that life, and so were sent again.
    pub fn repeated_after(&self) -> BTreeMap<usize, usize> {
        let mut repeated = BTreeMap::new();
        for notified in self.notified.values() {
            for pair in notified.lives.windows(2) {
                *repeated.entry(pair[0]).or_default() += 1;
            }
        }
        repeated
    }

    /// Deliveries that arrived twice in one life.
    pub fn repeated_within(&self) -> Vec<(&str, &Notified)> {
        let repeated = |notified: &Notified| notified.lives.windows(2).any(|pair| pair[0] >= pair[1]);
        let all = self.notified.iter().filter(|(_, notified)| repeated(notified));
        all.map(|(delivery, notified)| (delivery.as_str(), notified)).collect()
    }
}

/// The tally, shared by all threads of a proof. Every change wakes the threads that wait.
#[derive(Debug, Default)]
pub struct SharedTally {
    tally: Mutex<Tally>,
    changed: Condvar,
}

impl SharedTally {
    /// Reads the tally.
    pub fn read(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the tally.
    pub fn change<T>(&self, change: impl FnOnce(&mut Tally) -> T) -> T {
        let changed = change(&mut self.read());
        self.changed.notify_all();
        changed
    }

    /// Waits until the condition holds.
    #[track_caller]
    pub fn wait(&self, what: &str, is_so: impl Fn(&Tally) -> bool) {
        let waiting = self.changed.wait_timeout_while(self.read(), PATIENCE, |tally| !is_so(tally));
        let (tally, waited) = waiting.unwrap_or_else(PoisonError::into_inner);
        let (posted, acknowledged) = (tally.posted, tally.acknowledged);
        let (arrivals, told) = (tally.arrivals, tally.settlements.len());
        assert!(
            !waited.timed_out(),
            "waited too long until {what}: {posted} posted, {acknowledged} acknowledged, {arrivals} arrivals, \
             {told} settlements told of, life {}, {} connections, faults {:?}",
            tally.life,
            tally.connections,
            tally.faults,
        );
    }

    /// Waits for the next change, but not long.
    pub fn pace(&self) {
        let waiting = self.changed.wait_timeout(self.read(), PACE);
        drop(waiting.unwrap_or_else(PoisonError::into_inner));
    }

    /// Repeats an attempt until it succeeds.
    #[track_caller]
    pub fn retry<T>(&self, what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(done) = attempt() {
                return done;
            }
            assert!(started.elapsed() < PATIENCE, "tried too long until {what}");
            self.pace();
        }
    }

    /// Begins a new life of the service.
    pub fn next_life(&self) {
        self.change(|tally| {
            tally.life += 1;
            tally.arrivals_in_life = 0;
        });
    }
}
