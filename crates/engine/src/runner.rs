//! Claims payments that are due in the shards that this process holds, and gives each a life of its own.
//!
//! The table of payments is the queue, as the table of deliveries is the dispatcher's: a claim is a read, and
//! whoever holds a shard is alone in it and knows what it has in hand. Merchants take turns, each with a
//! bounded number of payments in hand, and all together have a bounded number.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use settle_domain::ids::{MerchantId, PaymentId};
use settle_shards::holdings::Holdings;
use settle_shards::tenancy::{Tenancy, Told};
use settle_store::{
    Ask, CALL_TIMEOUT, DueTime, OperationRow, PaymentRow, Shard, ShardLease, StoreResult, within,
};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use crate::case::Case;
use crate::life::{Means, live};
use crate::wake::EngineWake;

/// How often the engine looks for payments that nobody signalled.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the engine asks nothing of a database that has failed.
const BACKOFF: Duration = Duration::from_secs(1);
/// Merchants of one look or claim.
const MERCHANTS_MAX: usize = 128;
/// Payments of one claim.
const CLAIMED_MAX: usize = 512;
/// Payments in hand, of all merchants and of one.
const IN_HAND_MAX: usize = 1_024;
const IN_HAND_OF_ONE_MAX: usize = 128;
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
            tokio::select! {
                biased;
                () = &mut stop => break,
                woken = wake.woken() => runner.wake(woken),
                told = runner.tenancy.told() => runner.take_told(told),
                Some(ended) = runner.lives.join_next() => runner.end(ended),
                () = sleep_until(runner.next_look) => runner.look().await,
            }
        }
        let ended = timeout(SHUTDOWN_TIMEOUT, async {
            while let Some(ended) = runner.lives.join_next().await {
                runner.end(ended);
                runner.let_go();
            }
        });
        if ended.await.is_err() {
            let in_hand = runner.in_hand.len();
            tracing::warn!(in_hand, "stopped before every payment in hand had come to a rest");
        }
        runner.lives.shutdown().await;
    }
}

struct Runner {
    means: Arc<Means>,
    tenancy: Tenancy,
    holdings: Arc<Holdings>,
    /// Merchants that may have something due, in turn.
    turns: VecDeque<MerchantId>,
    hungry: HashSet<MerchantId>,
    in_hand: HashMap<PaymentId, MerchantId>,
    of_merchant: BTreeMap<MerchantId, usize>,
    lives: JoinSet<(MerchantId, PaymentId)>,
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
            turns: VecDeque::new(),
            hungry: HashSet::new(),
            in_hand: HashMap::new(),
            of_merchant: BTreeMap::new(),
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
            if self.holdings.serves(merchant) && self.hungry.insert(merchant) {
                self.turns.push_back(merchant);
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
        let known: Vec<MerchantId> = self.hungry.iter().copied().collect();
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
        let asks = self.asks();
        if asks.is_empty() {
            return;
        }
        match within(CALL_TIMEOUT, self.claimed(&asks)).await {
            Ok(found) => self.take(&asks, found),
            Err(error) => {
                for ask in &asks {
                    self.turns.push_back(ask.merchant_id);
                    self.hungry.insert(ask.merchant_id);
                }
                self.failed(&error, "to claim payments");
            }
        }
    }

    fn asks(&mut self) -> Vec<Ask> {
        let mut room = IN_HAND_MAX.saturating_sub(self.in_hand.len()).min(CLAIMED_MAX);
        let mut asks = Vec::new();
        let mut passed_over = Vec::new();
        while asks.len() < MERCHANTS_MAX && room > 0 {
            let Some(merchant_id) = self.turns.pop_front() else { break };
            if !self.holdings.serves(merchant_id) {
                self.hungry.remove(&merchant_id);
                continue;
            }
            let own =
                IN_HAND_OF_ONE_MAX.saturating_sub(self.of_merchant.get(&merchant_id).copied().unwrap_or(0));
            let fair = (IN_HAND_MAX / (self.turns.len() + 1)).max(1);
            let number = own.min(fair).min(room).checked_ilog2().map_or(0, |exponent| 1_usize << exponent);
            if number == 0 {
                passed_over.push(merchant_id);
                continue;
            }
            self.hungry.remove(&merchant_id);
            room -= number;
            asks.push(Ask { merchant_id, number: u32::try_from(number).unwrap_or(u32::MAX) });
        }
        self.turns.extend(passed_over);
        asks
    }

    async fn claimed(
        &self,
        asks: &[Ask],
    ) -> StoreResult<Vec<(PaymentRow, Vec<OperationRow>, Option<String>)>> {
        let asked: HashSet<MerchantId> = asks.iter().map(|ask| ask.merchant_id).collect();
        let taken: Vec<PaymentId> = self
            .in_hand
            .iter()
            .filter(|(_, merchant)| asked.contains(merchant))
            .map(|(payment, _)| *payment)
            .collect();
        let store = &self.means.store;
        let rows = store.payment_claim(asks, &taken, self.due()).await?;
        // What has just come in has asked nothing of anybody.
        let known: Vec<(MerchantId, PaymentId)> =
            rows.iter().filter(|row| row.version > 1).map(|row| (row.merchant_id, row.payment_id)).collect();
        let mut operations: HashMap<PaymentId, Vec<OperationRow>> = HashMap::new();
        if !known.is_empty() {
            for row in store.operation_of_many(&known, self.means.clock.now()).await? {
                operations.entry(row.payment_id).or_default().push(row);
            }
        }
        let mut claimed = Vec::with_capacity(rows.len());
        for row in rows {
            let pricing = if row.version > 1 {
                store.payment_pricing(row.merchant_id, row.payment_id).await?
            } else {
                None
            };
            let own = operations.remove(&row.payment_id).unwrap_or_default();
            claimed.push((row, own, pricing));
        }
        Ok(claimed)
    }

    fn take(&mut self, asks: &[Ask], found: Vec<(PaymentRow, Vec<OperationRow>, Option<String>)>) {
        let mut numbers: HashMap<MerchantId, usize> = HashMap::new();
        for (row, operations, pricing) in found {
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
            } else if found == 0 && !self.of_merchant.contains_key(&ask.merchant_id) {
                self.drained.insert(ask.merchant_id);
            }
        }
    }

    fn start(&mut self, case: Case, lease: ShardLease) {
        let (merchant, payment) = (case.merchant_id(), case.payment.payment_id);
        if self.in_hand.insert(payment, merchant).is_some() {
            return;
        }
        *self.of_merchant.entry(merchant).or_default() += 1;
        let means = self.means.clone();
        self.lives.spawn(async move {
            if let Err(error) = live(&means, case, lease).await {
                tracing::warn!(%error, %merchant, %payment, "a payment was put down and is taken up again");
            }
            (merchant, payment)
        });
    }

    /// A life has ended: the payment waits, or is done. A panic is passed on: the engine ends with it.
    fn end(&mut self, ended: Result<(MerchantId, PaymentId), JoinError>) {
        let (merchant, payment) = match ended.map_err(JoinError::try_into_panic) {
            Ok(ended) => ended,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            Err(Err(_)) => return,
        };
        self.in_hand.remove(&payment);
        if let Some(number) = self.of_merchant.get_mut(&merchant) {
            *number -= 1;
            if *number == 0 {
                self.of_merchant.remove(&merchant);
            }
        }
    }

    fn let_go(&self) {
        if self.holdings.is_leaving() {
            let occupied: BTreeSet<Shard> =
                self.of_merchant.keys().map(|merchant| Shard::of(*merchant)).collect();
            self.tenancy.let_go(self.holdings.departures_outside(&occupied));
        }
    }
}
