//! Claims payments that are due in the shards that this process holds, and gives each a life of its own.
//!
//! The table of payments is the queue, as the table of deliveries is the dispatcher's: a claim is a read, and
//! whoever holds a shard is alone in it and knows what it has in hand.

use std::collections::{BTreeSet, HashMap};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::provider::ProviderName;
use settle_shards::holdings::Holdings;
use settle_shards::tenancy::{Tenancy, Told};
use settle_shards::unreadable::Unreadable;
use settle_store::{CALL_TIMEOUT, DueTime, PaymentAsk, ShardLease, StoreError, StoreResult, within};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use crate::case::Case;
use crate::hands::{Hands, MERCHANTS_MAX, Taken};
use crate::life::{Means, live};
use crate::wake::EngineWake;

mod claims;

use claims::Claimed;

/// How often the engine looks for payments that nobody signalled.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the engine asks nothing of a database that has failed.
const BACKOFF: Duration = Duration::from_secs(1);
/// Merchants that one round of looks finds at most.
const LOOKED_MAX: usize = 65_536;
/// Later than anybody waits: what is due then counts as due, because a clock has stepped.
const WAIT_MAX: Duration = Duration::from_hours(2);
/// How long lives may take to end when the engine is told to stop, at most: a call to a provider ends within
/// it. What is cut off is looked up by the next.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(35);

/// The parts an engine is made from.
pub struct Engine {
    /// What its lives work with.
    pub means: Means,
    /// Who says that payments have come.
    pub wake: EngineWake,
    /// How long it may take to stop, if that is less than [`SHUTDOWN_TIMEOUT`].
    pub shutdown_timeout: Duration,
}

impl Engine {
    /// Settles payments in the shards of its tenancy until told to stop; then lets what it has in hand end.
    pub async fn run(self, tenancy: Tenancy, stop: impl Future<Output = ()> + Send) {
        let mut stop = Box::pin(stop);
        let wake = self.wake.clone();
        let stop_within = SHUTDOWN_TIMEOUT.min(self.shutdown_timeout);
        let mut runner = Runner::new(self.means, tenancy);
        loop {
            // However much there is to do: nobody else finds whom no one has named.
            if runner.next_look <= Instant::now() {
                runner.look().await;
            }
            let may_have_more = runner.claim().await;
            runner.let_go();
            let claims_at = runner.hands.patient_until().map(|until| until.max(runner.rests_until));
            tokio::select! {
                biased;
                () = &mut stop => break,
                woken = wake.woken() => runner.wake(woken),
                told = runner.tenancy.told() => runner.take_told(told),
                Some(ended) = runner.lives.join_next() => runner.end(ended),
                () = sleep_until(claims_at.unwrap_or(runner.next_look)), if claims_at.is_some() => {}
                () = ready(()), if may_have_more => {}
                () = sleep_until(runner.next_look) => {}
            }
            // One claim for all that has happened meanwhile.
            while let Some(ended) = runner.lives.try_join_next() {
                runner.end(ended);
            }
            runner.wake(wake.taken());
        }
        let ended = timeout(stop_within, async {
            while let Some(ended) = runner.lives.join_next().await {
                runner.end(ended);
                runner.let_go();
            }
        });
        if ended.await.is_err() {
            let in_hand = runner.hands.len();
            tracing::warn!(in_hand, "stopped before every payment in hand had come to a rest");
        }
        runner.lives.shutdown().await;
    }
}

struct Runner {
    means: Arc<Means>,
    tenancy: Tenancy,
    holdings: Arc<Holdings>,
    hands: Hands,
    unreadable: Unreadable<PaymentId>,
    lives: JoinSet<PaymentId>,
    next_look: Instant,
    rests_until: Instant,
    /// Merchants that count as due and of whom a claim found nothing.
    drained: BTreeSet<MerchantId>,
    /// Merchants that looks have found since one last found fewer than it may.
    looked: BTreeSet<MerchantId>,
    /// Since when looks have failed, and claims: nobody is served without either.
    fails_since: [Option<Instant>; 2],
}

/// What nobody is served without.
#[derive(Clone, Copy)]
enum Vital {
    Look,
    Claim,
}

impl Runner {
    fn new(means: Means, tenancy: Tenancy) -> Runner {
        let now = Instant::now();
        let hands = Hands::new(means.providers.all().map(|station| station.name().clone()));
        Runner {
            means: Arc::new(means),
            tenancy,
            holdings: Arc::new(Holdings::none(now)),
            hands,
            unreadable: Unreadable::none("payment", crate::metrics::show_unreadable),
            lives: JoinSet::new(),
            next_look: now,
            rests_until: now,
            drained: BTreeSet::new(),
            looked: BTreeSet::new(),
            fails_since: [None; 2],
        }
    }

    fn take_told(&mut self, told: Told) {
        if let Some(holdings) = told.holdings {
            if holdings.has_gained(&self.holdings) {
                self.next_look = Instant::now();
            }
            self.holdings = holdings;
            self.unreadable.keep(|merchant| self.holdings.serves(merchant));
        }
        self.wake(told.heard);
        if told.heard_of_many {
            self.next_look = Instant::now();
        }
    }

    fn wake(&mut self, merchants: BTreeSet<MerchantId>) {
        for merchant in merchants {
            if self.holdings.serves(merchant) {
                self.hands.wake(merchant);
            }
        }
    }

    fn due(&self) -> DueTime {
        let now = self.means.clock.now();
        DueTime { by: now, beyond: now.plus(WAIT_MAX) }
    }

    /// Looks for merchants that have something due and that nobody has named.
    async fn look(&mut self) {
        self.next_look = Instant::now() + LOOK_INTERVAL;
        let shards = self.holdings.served();
        if shards.is_empty() {
            self.succeeded(Vital::Look);
        }
        if shards.is_empty() || self.rests_until > Instant::now() {
            return;
        }
        if let Err(error) = within(CALL_TIMEOUT, self.refresh()).await {
            self.failed(Vital::Look, &error, "to say when merchants are due");
            return;
        }
        let known: Vec<MerchantId> = self.hands.hungry().chain(self.looked.iter().copied()).collect();
        let limit = u32::try_from(MERCHANTS_MAX).unwrap_or(u32::MAX);
        let found = self.means.store.payment_due(&shards, self.due(), &known, limit);
        match within(CALL_TIMEOUT, found).await {
            Ok(found) => {
                self.succeeded(Vital::Look);
                let found: BTreeSet<MerchantId> = found.into_iter().map(|due| due.merchant_id).collect();
                // There are more. What is in hand stays due: the next look leaves out whom this one found.
                if found.len() == MERCHANTS_MAX && self.looked.len() < LOOKED_MAX {
                    self.looked.extend(&found);
                    self.next_look = Instant::now();
                } else {
                    self.looked.clear();
                }
                self.wake(found);
            }
            Err(error) => self.failed(Vital::Look, &error, "to look for payments"),
        }
    }

    /// Computes anew when the merchants are due of whom a claim found nothing.
    async fn refresh(&mut self) -> StoreResult<()> {
        let drained: Vec<MerchantId> = std::mem::take(&mut self.drained).into_iter().collect();
        if drained.is_empty() {
            return Ok(());
        }
        let mut tx = self.means.store.begin_relaxed().await?;
        let lock = tx.merchant_lock_free(&drained).await?;
        tx.payment_refresh(&lock, lock.merchants()).await?;
        tx.commit().await
    }

    /// It was done, or nobody needs it now.
    fn succeeded(&mut self, call: Vital) {
        if self.fails_since[call as usize].take().is_some() {
            self.tell_failing();
        }
    }

    fn failed(&mut self, call: Vital, error: &StoreError, what: &str) {
        tracing::warn!(%error, "the engine failed {what}");
        self.fails_since[call as usize].get_or_insert(Instant::now());
        self.tell_failing();
        self.rests_until = Instant::now() + BACKOFF;
        self.next_look = self.next_look.max(self.rests_until);
    }

    /// The keeper shows it, and who asks whether the process is ready hears of it.
    fn tell_failing(&self) {
        self.tenancy.fails_since(self.fails_since.into_iter().flatten().min());
    }

    /// Claims for the merchants whose turn it is. Says whether it did: others may have a turn then.
    async fn claim(&mut self) -> bool {
        if self.rests_until > Instant::now() {
            return false;
        }
        let holdings = &self.holdings;
        let asks = self.hands.asks(Instant::now(), |merchant| holdings.serves(merchant));
        if asks.is_empty() {
            self.succeeded(Vital::Claim);
            return false;
        }
        match within(CALL_TIMEOUT, self.claimed(&asks)).await {
            Ok(found) => {
                self.succeeded(Vital::Claim);
                self.take(&asks, found);
                true
            }
            Err(error) => {
                for ask in &asks {
                    self.hands.wake(ask.merchant_id);
                }
                self.failed(Vital::Claim, &error, "to claim payments");
                false
            }
        }
    }

    fn take(&mut self, asks: &[PaymentAsk], found: Vec<Claimed>) {
        let mut numbers: HashMap<MerchantId, usize> = HashMap::new();
        let mut refused: HashMap<MerchantId, Vec<Option<ProviderName>>> = HashMap::new();
        for Claimed { merchant, payment, case, provider } in found {
            *numbers.entry(merchant).or_default() += 1;
            let Some(lease) = self.holdings.lease_of(merchant) else { continue };
            match case {
                Ok(case) => {
                    self.unreadable.was_read(payment);
                    match self.hands.take(merchant, payment, provider.clone()) {
                        Taken::Now => self.start(case, lease),
                        Taken::Already | Taken::Aside => {}
                        Taken::Refused => refused.entry(merchant).or_default().push(provider),
                    }
                }
                Err(error) => {
                    if !self.unreadable.rest(merchant, payment, &error) {
                        refused.entry(merchant).or_default().push(None);
                    }
                }
            }
        }
        for ask in asks {
            let found = numbers.get(&ask.merchant_id).copied().unwrap_or(0);
            let refused = refused.get(&ask.merchant_id).map_or(&[][..], Vec::as_slice);
            self.hands.asked(ask, found, refused);
            let merchant = ask.merchant_id;
            if found == 0 && !self.hands.has_any(merchant) && !self.unreadable.is_of(merchant) {
                self.drained.insert(merchant);
            }
        }
    }

    fn start(&mut self, case: Case, lease: ShardLease) {
        let (merchant, payment) = (case.merchant_id(), case.payment.payment_id);
        let means = self.means.clone();
        self.lives.spawn(async move {
            if let Err(error) = live(&means, case, lease).await {
                tracing::warn!(%error, %merchant, %payment, "a payment was put down and is taken up again");
            }
            payment
        });
    }

    /// A life has ended: the payment waits, or is done. A panic is passed on: the engine ends with it.
    fn end(&mut self, ended: Result<PaymentId, JoinError>) {
        match ended.map_err(JoinError::try_into_panic) {
            Ok(payment) => self.hands.put_down(payment),
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            Err(Err(_)) => {}
        }
    }

    fn let_go(&self) {
        if self.holdings.is_leaving() {
            let occupied = self.hands.occupied();
            self.tenancy.let_go(self.holdings.departures_outside(&occupied));
        }
    }
}
