//! What is true in the simulated world: time, chance, the story so far, and what was found to be wrong.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::ledger::SignedAmount;
use settle_domain::money::Asset;
use settle_domain::seams::Clock;
use settle_domain::time::Timestamp;
use settle_engine::books;
use settle_store::Store;
use settle_testing::chance::Chance;
use tokio::sync::Notify;
use tokio::time::Instant;

/// One in so many seeds has its books examined as a whole after every commit: that takes as long as the rest
/// of a seed. Of all others the sums are watched, and the whole is examined at the end.
const EXAMINED: u64 = 4;
/// Lines of the story that a failure shows.
const STORY_LINES: usize = 150;

/// The right time: it starts alike for every seed and follows the runtime's.
#[derive(Debug, Clone, Copy)]
pub struct RightTime {
    origin: Timestamp,
    started: Instant,
}

impl RightTime {
    pub fn now(&self) -> Timestamp {
        self.origin.plus(self.started.elapsed())
    }
}

/// The clock of one machine, which somebody may set.
pub struct MachineClock {
    right: RightTime,
    ahead_micros: AtomicI64,
}

impl MachineClock {
    /// Sets the clock this far ahead of the right time, or behind it.
    pub fn step(&self, ahead_micros: i64) {
        self.ahead_micros.store(ahead_micros, Ordering::Relaxed);
    }
}

impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.right.now().as_micros() + self.ahead_micros.load(Ordering::Relaxed))
    }
}

#[derive(Default)]
struct Known {
    story: Vec<String>,
    wrongs: Vec<String>,
    merchants: BTreeSet<MerchantId>,
    payments: Vec<(MerchantId, PaymentId)>,
}

pub struct World {
    pub chance: Chance,
    pub store: Arc<dyn Store>,
    pub right: RightTime,
    /// How long providers remember a key, as they say.
    pub window: Duration,
    /// How far clocks are set ahead or behind at most.
    pub steps_max: Duration,
    /// Whether the books are examined as a whole after every commit.
    examines_books: bool,
    is_calm: AtomicBool,
    /// Something was committed.
    pub committed: Notify,
    known: Mutex<Known>,
}

impl World {
    pub fn new(seed: u64, store: Arc<dyn Store>) -> World {
        let chance = Chance::new(seed);
        let origin = "2026-01-31T09:30:00Z".parse().expect("a time");
        // Where keys are forgotten soon, clocks must not differ by more than the margin of the window.
        let (window, steps_max) = if chance.once_in(3) {
            (Duration::from_secs(4), Duration::from_millis(150))
        } else {
            (Duration::from_hours(24), Duration::from_hours(if chance.once_in(2) { 0 } else { 24 }))
        };
        World {
            chance,
            store,
            right: RightTime { origin, started: Instant::now() },
            window,
            steps_max,
            examines_books: seed.is_multiple_of(EXAMINED),
            is_calm: AtomicBool::new(false),
            committed: Notify::new(),
            known: Mutex::default(),
        }
    }

    pub fn clock(&self) -> Arc<MachineClock> {
        Arc::new(MachineClock { right: self.right, ahead_micros: AtomicI64::new(0) })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a fault that happens once in so many times happens now.
    pub fn fault(&self, times: u64) -> bool {
        self.chance.once_in(times) && !self.is_calm()
    }

    pub fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::Relaxed)
    }

    /// No fault happens from now on.
    pub fn calm(&self) {
        self.tell("all is calm");
        self.is_calm.store(true, Ordering::Relaxed);
    }

    pub fn tell(&self, line: impl std::fmt::Display) {
        let now = self.right.started.elapsed().as_micros();
        self.known().story.push(format!("{now:>10} {line}"));
    }

    /// Something is wrong. A panic would not do: the engine takes it for a failure of a task and goes on.
    pub fn wrong(&self, what: impl std::fmt::Display) {
        self.tell(format_args!("WRONG: {what}"));
        self.known().wrongs.push(what.to_string());
    }

    pub fn wrongs(&self) -> Vec<String> {
        self.known().wrongs.clone()
    }

    pub fn story(&self) -> Vec<String> {
        self.known().story.clone()
    }

    pub fn last_lines(&self) -> String {
        let known = self.known();
        known.story[known.story.len().saturating_sub(STORY_LINES)..].join("\n")
    }

    pub fn add_merchant(&self, merchant: MerchantId) {
        self.known().merchants.insert(merchant);
    }

    pub fn merchants(&self) -> Vec<MerchantId> {
        self.known().merchants.iter().copied().collect()
    }

    pub fn add_payment(&self, merchant: MerchantId, payment: PaymentId) {
        let mut known = self.known();
        if !known.payments.contains(&(merchant, payment)) {
            known.payments.push((merchant, payment));
        }
    }

    pub fn payments(&self) -> Vec<(MerchantId, PaymentId)> {
        self.known().payments.clone()
    }

    /// After every commit the books agree.
    pub async fn watch_books(&self) {
        loop {
            self.committed.notified().await;
            for merchant in self.merchants() {
                if self.examines_books {
                    self.examine(merchant).await;
                } else {
                    self.add_up(merchant).await;
                }
            }
        }
    }

    /// The whole check: the balances with the timelines, the operations and the settlements.
    async fn examine(&self, merchant: MerchantId) {
        let clock = self.clock();
        let Ok(checked) = books::check_merchant(&*self.store, &*clock, merchant).await else { return };
        for disagreement in checked.disagreements {
            self.wrong(format_args!("the books after a commit: {disagreement}"));
        }
    }

    /// Each asset sums to zero, and nothing is negative that may not be.
    async fn add_up(&self, merchant: MerchantId) {
        let Ok(balances) = self.store.balance_of(merchant).await else { return };
        for asset in Asset::ALL {
            let own = balances.iter().filter(|balance| balance.asset == asset);
            let sum = own.fold(SignedAmount::zero(asset), |sum, balance| {
                sum.plus(balance.amount).expect("few digits")
            });
            if !sum.is_zero() {
                self.wrong(format_args!("the books of {merchant} sum to {sum} {asset}"));
            }
        }
        for row in &balances {
            if row.amount.is_negative() && !row.account.may_be_negative() {
                self.wrong(format_args!("{merchant} has {} on {}", row.amount, row.account));
            }
        }
    }
}
