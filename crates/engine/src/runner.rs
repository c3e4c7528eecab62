//! Claims payments that are due in the shards that this process holds, and gives each a life of its own.
//!
//! The table of payments is the queue, as the table of deliveries is the dispatcher's: a claim is a read, and
//! whoever holds a shard is alone in it and knows what it has in hand.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use settle_domain::ids::{MerchantId, PaymentId};
use settle_shards::holdings::Holdings;
use settle_shards::tenancy::{Tenancy, Told};
use settle_store::{Ask, CALL_TIMEOUT, DueTime, OperationRow, PaymentRow, ShardLease, StoreResult, within};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use crate::case::Case;
use crate::hands::{Hands, MERCHANTS_MAX};
use crate::life::{Means, live};
use crate::wake::EngineWake;

/// How often the engine looks for payments that nobody signalled.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the engine asks nothing of a database that has failed.
const BACKOFF: Duration = Duration::from_secs(1);
/// Later than anybody waits: what is due then counts as due, because a clock has stepped.
const WAIT_MAX: Duration = Duration::from_hours(2);
/// How long lives may take to end when the engine is told to stop; what is cut off is looked up by the next.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(35);

/// The parts an engine is made from.
pub struct Engine {
    /// What its lives work with.
    pub means: Means,
    /// Who says that payments have come.
    pub wake: EngineWake,
}

impl Engine {
    /// Settles payments in the shards of its tenancy until told to stop; then lets what it has in hand end.
    pub async fn run(self, tenancy: Tenancy, stop: impl Future<Output = ()> + Send) {
        let mut stop = Box::pin(stop);
        let wake = self.wake.clone();
        let mut runner = Runner::new(self.means, tenancy);
        loop {
            runner.claim().await;
            runner.let_go();
            let claims_at = runner.hands.patient_until().map(|until| until.max(runner.rests_until));
            tokio::select! {
                biased;
                () = &mut stop => break,
                woken = wake.woken() => runner.wake(woken),
                told = runner.tenancy.told() => runner.take_told(told),
                Some(ended) = runner.lives.join_next() => runner.end(ended),
                () = sleep_until(claims_at.unwrap_or(runner.next_look)), if claims_at.is_some() => {}
                () = sleep_until(runner.next_look) => runner.look().await,
            }
            // One claim for all that has happened meanwhile.
            while let Some(ended) = runner.lives.try_join_next() {
                runner.end(ended);
            }
            runner.wake(wake.taken());
        }
        let ended = timeout(SHUTDOWN_TIMEOUT, async {
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

/// A payment that a claim has found, with what belongs to it.
struct Claimed {
    row: PaymentRow,
    operations: Vec<OperationRow>,
    pricing: Option<String>,
}

struct Runner {
    means: Arc<Means>,
    tenancy: Tenancy,
    holdings: Arc<Holdings>,
    hands: Hands,
    lives: JoinSet<PaymentId>,
    next_look: Instant,
    rests_until: Instant,
    /// Merchants that count as due and of whom a claim found nothing.
    drained: BTreeSet<MerchantId>,
}

impl Runner {
    fn new(means: Means, tenancy: Tenancy) -> Runner {
        let now = Instant::now();
        Runner {
            means: Arc::new(means),
            tenancy,
            holdings: Arc::new(Holdings::none(now)),
            hands: Hands::default(),
            lives: JoinSet::new(),
            next_look: now,
            rests_until: now,
            drained: BTreeSet::new(),
        }
    }

    fn take_told(&mut self, told: Told) {
        if let Some(holdings) = told.holdings {
            if holdings.has_gained(&self.holdings) {
                self.next_look = Instant::now();
            }
            self.holdings = holdings;
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
        if shards.is_empty() || self.rests_until > Instant::now() {
            return;
        }
        if let Err(error) = within(CALL_TIMEOUT, self.refresh()).await {
            self.failed(&error, "to say when merchants are due");
            return;
        }
        let known = self.hands.hungry();
        let limit = u32::try_from(MERCHANTS_MAX).unwrap_or(u32::MAX);
        let found = self.means.store.payment_due(&shards, self.due(), &known, limit);
        match within(CALL_TIMEOUT, found).await {
            Ok(found) => {
                let is_full = found.len() == MERCHANTS_MAX;
                self.wake(found.into_iter().map(|due| due.merchant_id).collect());
                if is_full {
                    self.next_look = Instant::now();
                }
            }
            Err(error) => self.failed(&error, "to look for payments"),
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

    fn failed(&mut self, error: &settle_store::StoreError, what: &str) {
        tracing::warn!(%error, "the engine failed {what}");
        self.rests_until = Instant::now() + BACKOFF;
        self.next_look = self.next_look.max(self.rests_until);
    }

    /// Claims for the merchants whose turn it is.
    async fn claim(&mut self) {
        if self.rests_until > Instant::now() {
            return;
        }
        let holdings = &self.holdings;
        let asks = self.hands.asks(Instant::now(), |merchant| holdings.serves(merchant));
        if asks.is_empty() {
            return;
        }
        match within(CALL_TIMEOUT, self.claimed(&asks)).await {
            Ok(found) => self.take(&asks, found),
            Err(error) => {
                for ask in &asks {
                    self.hands.wake(ask.merchant_id);
                }
                self.failed(&error, "to claim payments");
            }
        }
    }

    async fn claimed(&self, asks: &[Ask]) -> StoreResult<Vec<Claimed>> {
        let store = &self.means.store;
        let rows = store.payment_claim(asks, &self.hands.taken(asks), self.due()).await?;
        // What has just come in has asked nothing of anybody.
        let known: Vec<(MerchantId, PaymentId)> =
            rows.iter().filter(|row| row.version > 1).map(|row| (row.merchant_id, row.payment_id)).collect();
        let mut operations: HashMap<PaymentId, Vec<OperationRow>> = HashMap::new();
        let mut pricing: HashMap<PaymentId, String> = HashMap::new();
        if !known.is_empty() {
            for row in store.operation_of_many(&known, self.means.clock.now()).await? {
                operations.entry(row.payment_id).or_default().push(row);
            }
            pricing.extend(store.payment_pricing_of_many(&known).await?);
        }
        let claimed = rows.into_iter().map(|row| Claimed {
            operations: operations.remove(&row.payment_id).unwrap_or_default(),
            pricing: pricing.remove(&row.payment_id),
            row,
        });
        Ok(claimed.collect())
    }

    fn take(&mut self, asks: &[Ask], found: Vec<Claimed>) {
        let mut numbers: HashMap<MerchantId, usize> = HashMap::new();
        for Claimed { row, operations, pricing } in found {
            let (merchant, payment) = (row.merchant_id, row.payment_id);
            *numbers.entry(merchant).or_default() += 1;
            let Some(lease) = self.holdings.lease_of(merchant) else { continue };
            match Case::read(row, pricing.as_deref(), operations) {
                Ok(case) => self.start(case, lease),
                Err(error) => tracing::error!(%error, %merchant, %payment, "a payment cannot be read"),
            }
        }
        for ask in asks {
            let found = numbers.get(&ask.merchant_id).copied().unwrap_or(0);
            if found >= usize::try_from(ask.number).unwrap_or(usize::MAX) {
                self.wake(BTreeSet::from([ask.merchant_id]));
            } else if found == 0 && self.hands.number_of(ask.merchant_id) == 0 {
                self.drained.insert(ask.merchant_id);
            }
        }
    }

    fn start(&mut self, case: Case, lease: ShardLease) {
        let (merchant, payment) = (case.merchant_id(), case.payment.payment_id);
        if !self.hands.take(merchant, payment) {
            return;
        }
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
