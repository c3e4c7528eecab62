//! One seed: payments come in, nodes die, shards move, people act, clocks jump; then all is calm.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use settle_domain::actor::Actor;
use settle_domain::corridor::{ALERT_AFTER, Corridor, CorridorTerms};
use settle_domain::ids::{MerchantId, OperationId};
use settle_domain::payment::{PayIn, PaymentOrder, StateName};
use settle_domain::pricing::CorridorPricing;
use settle_domain::seams::{Clock, SeededEntropy};
use settle_engine::acts::hint;
use settle_engine::advance::Advance;
use settle_engine::case::Case;
use settle_engine::life::Means;
use settle_engine::wake::EngineWake;
use settle_store::conformance::fixtures;
use settle_store::{Merchant, NewCorridor, Store, StoreError, StoreResult};
use settle_testing::virtual_time::pass;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::liar::Liar;
use crate::node::{Life, Node, Tenure, means};
use crate::operators::Operator;
use crate::verdict;
use crate::world::{MachineClock, World};

/// How long there are faults.
const UNREST: Duration = Duration::from_secs(8);
/// How long it may take until every payment has come to a rest, once there are none.
const REST_WITHIN: Duration = Duration::from_mins(10);
/// How long what is under review is still looked up.
const REVIEW_FOR: Duration = Duration::from_secs(4);
const PAYMENTS_MAX: u64 = 2;
const AMOUNTS: [&str; 4] = ["1000.00", "17.35", "0.02", "250000.00"];
const SPREADS: [&str; 3] = ["0", "0.5", "2.25"];

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// One process serves: the simulation says which node has the shards.
    Sqlite,
    /// Nodes share the shards among themselves.
    Postgres,
}

pub struct Simulation {
    pub world: Arc<World>,
    pub liars: Vec<Arc<Liar>>,
    hints: Mutex<Option<mpsc::UnboundedReceiver<OperationId>>>,
    entropy: Arc<SeededEntropy>,
    tenure: Option<Arc<Tenure>>,
    clocks: Vec<Arc<MachineClock>>,
}

impl Simulation {
    pub fn new(seed: u64, store: Arc<dyn Store>, backend: Backend) -> Simulation {
        let world = Arc::new(World::new(seed, store));
        let (hinting, hints) = mpsc::unbounded_channel();
        Simulation {
            liars: ["desk", "exchange"].map(|name| Liar::new(name, world.clone(), hinting.clone())).into(),
            hints: Mutex::new(Some(hints)),
            entropy: Arc::new(SeededEntropy::new(seed)),
            tenure: (backend == Backend::Sqlite).then(Arc::default),
            clocks: (0..4).map(|_| world.clock()).collect(),
            world,
        }
    }

    pub async fn run(self: Arc<Simulation>) {
        let watching = tokio::spawn({
            let world = self.world.clone();
            async move { world.watch_books().await }
        });
        for _ in 0..=usize::from(self.world.chance.once_in(3)) {
            patiently(|| self.add_merchant()).await;
        }
        let stop = watch::Sender::new(false);
        let wakes: Vec<EngineWake> = (0..2).map(|_| EngineWake::default()).collect();
        let nodes: Vec<_> =
            (0..2).map(|number| tokio::spawn(self.node(number, &wakes, stop.subscribe()).run())).collect();
        let operators: Vec<_> = ["Ada", "Ben"]
            .into_iter()
            .enumerate()
            .map(|(number, name)| tokio::spawn(self.operator(number, name, &wakes).run()))
            .collect();
        let hinting = tokio::spawn({
            let (simulation, wakes) = (self.clone(), wakes.clone());
            async move { simulation.take_hints(&wakes).await }
        });
        tokio::join!(self.receive(&wakes), self.unrest());
        self.world.calm();
        for clock in &self.clocks {
            clock.step(0);
        }
        if let Some(tenure) = &self.tenure {
            tenure.moves_to(0, true);
        }
        for operator in operators {
            operator.await.expect("operators do not panic");
        }
        self.come_to_rest().await;
        stop.send_replace(true);
        for node in nodes {
            node.await.expect("nodes do not panic");
        }
        hinting.abort();
        watching.abort();
    }

    /// Looks at what has become of everything.
    pub async fn judge(self: Arc<Simulation>) {
        patiently(|| verdict::reach(&self.world, &self.liars, &*self.clocks[0])).await;
    }

    fn node(&self, number: usize, wakes: &[EngineWake], stop: watch::Receiver<bool>) -> Node {
        Node {
            number,
            world: self.world.clone(),
            liars: self.liars.clone(),
            clock: self.clocks[number].clone(),
            entropy: self.entropy.clone(),
            wake: wakes[number].clone(),
            tenure: self.tenure.clone(),
            stop,
        }
    }

    fn desk_of(&self, number: usize, name: &str, wake: &EngineWake) -> Means {
        let life = Life::new(name.to_owned(), self.world.clone(), false);
        let clock: Arc<dyn Clock> = self.clocks[2 + number].clone();
        means(&life, &self.liars, &clock, &self.entropy, wake)
    }

    fn operator(&self, number: usize, name: &'static str, wakes: &[EngineWake]) -> Operator {
        Operator {
            name,
            world: self.world.clone(),
            liars: self.liars.clone(),
            means: self.desk_of(number, name, &wakes[number]),
            wake: wakes[number].clone(),
        }
    }

    async fn add_merchant(&self) -> StoreResult<()> {
        let now = self.world.right.now();
        let merchant_id = MerchantId::new(now, &*self.entropy);
        let store = &*self.world.store;
        let mut tx = store.begin().await?;
        tx.merchant_create(&Merchant { merchant_id, name: "m".to_owned(), created_at: now }).await?;
        let lock = tx.merchant_lock(&[merchant_id]).await?;
        tx.endpoint_put(&lock, merchant_id, &fixtures::endpoint(b"sealed")).await?;
        tx.commit().await?;
        for outgoing in ["USDC", "BRL"] {
            self.agree(merchant_id, outgoing).await?;
        }
        self.world.add_merchant(merchant_id);
        Ok(())
    }

    /// A new version of a corridor.
    async fn agree(&self, merchant_id: MerchantId, outgoing: &str) -> StoreResult<()> {
        let chance = &self.world.chance;
        let terms = CorridorTerms {
            incoming: "BRL".parse().expect("an asset"),
            outgoing: outgoing.parse().expect("an asset"),
            fee_percentage: chance.pick(&["0", "1.5"]).parse().expect("a number"),
            fee_fixed: chance.pick(&["0", "0.25"]).parse().expect("a number"),
            minimum: None,
            maximum: None,
            provider: chance.pick(&self.liars).name().parse().expect("a name"),
            alert_after: ALERT_AFTER,
        };
        let spread = chance.pick(&SPREADS).parse().expect("a number");
        let partner = chance.once_in(2).then(|| "partner".to_owned());
        let commission = partner.as_ref().map(|_| "30".parse().expect("a number"));
        let new = NewCorridor {
            merchant_id,
            corridor: Corridor::new(terms).expect("good terms"),
            pricing: CorridorPricing::new(spread, partner, commission).expect("a good price"),
            made_by: Actor::Command,
            made_at: self.world.right.now(),
        };
        let mut tx = self.world.store.begin().await?;
        let lock = tx.merchant_lock(&[merchant_id]).await?;
        tx.corridor_put(&lock, &new).await?;
        tx.commit().await
    }

    /// Payments come in. What a lost commit hides is sent again, as a caller would.
    async fn receive(&self, wakes: &[EngineWake]) {
        let chance = &self.world.chance;
        let desk = self.desk_of(0, "Cid", &wakes[0]);
        for number in 0..=chance.below(PAYMENTS_MAX) {
            pass(chance.up_to(UNREST / 4)).await;
            let merchant_id = *chance.pick(&self.world.merchants());
            let order = PaymentOrder {
                merchant_id,
                payin: PayIn::new(None, format!("pix {number}")).expect("a reference"),
                incoming: "BRL".parse().expect("an asset"),
                incoming_amount: chance.pick(&AMOUNTS).parse().expect("an amount"),
                outgoing: if chance.once_in(5) { "BRL" } else { "USDC" }.parse().expect("an asset"),
                outgoing_target: chance.once_in(8).then(|| "3.14".parse().expect("an amount")),
                destination_reference: format!("wallet {number}"),
                occurred_at: self.world.right.now(),
            };
            let order = order.checked().expect("a good order");
            let case = Case::received(order, desk.clock.now());
            let payment = case.payment.payment_id;
            let received = Advance::received(case, Actor::Command, desk.clock.now()).expect("postings");
            self.world.add_payment(merchant_id, payment);
            while let Err(error) = desk.writer.create(vec![received.clone()]).await {
                self.world.tell(format_args!("{payment} is not received: {error}"));
                pass(Duration::from_millis(200)).await;
            }
            self.world.tell(format_args!("{payment} is received"));
        }
    }

    /// Either node may get a provider's hint, whoever serves the payment.
    async fn take_hints(&self, wakes: &[EngineWake]) {
        let hints = self.hints.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut hints = hints.expect("hints are taken once");
        let desks: Vec<Means> =
            (0..2).map(|number| self.desk_of(number, &format!("hints {number}"), &wakes[number])).collect();
        while let Some(operation) = hints.recv().await {
            let node = usize::from(self.world.chance.once_in(2));
            let taken = hint(&desks[node], &wakes[node], operation).await.map_err(|error| error.to_string());
            self.world.tell(format_args!("node {node} is hinted at {operation}: {taken:?}"));
        }
    }

    /// Clocks are set, shards move, and corridors change.
    async fn unrest(&self) {
        let chance = &self.world.chance;
        let until = Instant::now() + UNREST;
        while Instant::now() < until {
            pass(chance.up_to(UNREST / 6)).await;
            match chance.below(4) {
                0 => self.step_a_clock(),
                1 | 2 => {
                    let (node, by_force) = (usize::from(chance.once_in(2)), chance.once_in(2));
                    if let Some(tenure) = &self.tenure {
                        self.world.tell(format_args!("node {node} is to have the shards, force {by_force}"));
                        tenure.moves_to(node, by_force);
                    }
                }
                _ => {
                    let merchant = *chance.pick(&self.world.merchants());
                    let outgoing = *chance.pick(&["USDC", "BRL"]);
                    if let Err(error) = self.agree(merchant, outgoing).await {
                        self.world.tell(format_args!("no other terms: {error}"));
                    }
                }
            }
        }
    }

    fn step_a_clock(&self) {
        let chance = &self.world.chance;
        // A moment, or longer than the engine ever waits: what it finds due so late is due at once.
        let steps =
            [Duration::ZERO, Duration::from_millis(150), Duration::from_hours(3), Duration::from_hours(24)];
        let step = (*chance.pick(&steps)).min(self.world.steps_max);
        let micros = i64::try_from(step.as_micros()).expect("a short time");
        let (number, is_behind) = (chance.below(4), chance.once_in(2));
        let ahead = if is_behind { -micros } else { micros };
        self.clocks[usize::try_from(number).expect("a small number")].step(ahead);
        self.world.tell(format_args!("clock {number} is {ahead} µs ahead"));
    }

    /// Waits until every payment has come to a rest, and a moment more for what is under review.
    async fn come_to_rest(&self) {
        let until = Instant::now() + REST_WITHIN;
        loop {
            pass(Duration::from_secs(1)).await;
            let (mut restless, mut is_reviewed) = (Vec::new(), false);
            for (merchant, payment) in self.world.payments() {
                let Ok(row) = self.world.store.payment_find(merchant, payment).await else {
                    restless.push("the database does not answer".to_owned());
                    continue;
                };
                let standing = row.expect("what was received is there").standing;
                let rests = match standing.state {
                    StateName::Completed | StateName::Failed | StateName::Refunded => true,
                    StateName::NeedsReview => standing.reason.is_some(),
                    _ => false,
                };
                is_reviewed |= standing.state == StateName::NeedsReview;
                if !rests {
                    restless.push(format!(
                        "{payment} is {} due {:?} at {}",
                        standing.state,
                        standing.due_at,
                        self.world.right.now()
                    ));
                }
            }
            if restless.is_empty() && self.liars.iter().all(|liar| liar.is_quiet()) {
                return pass(if is_reviewed { REVIEW_FOR } else { Duration::ZERO }).await;
            }
            if Instant::now() > until {
                self.world.wrong(format_args!(
                    "not at rest: {restless:?}, {:?}",
                    self.liars.iter().map(|liar| liar.is_quiet()).collect::<Vec<_>>()
                ));
                return;
            }
        }
    }
}

/// Asks again while the database does not answer: a machine that stands still for a moment proves nothing.
async fn patiently<T, F: Future<Output = StoreResult<T>>>(ask: impl Fn() -> F) -> T {
    let until = Instant::now() + REST_WITHIN;
    loop {
        match ask().await {
            Err(StoreError::Unavailable(_)) if Instant::now() < until => pass(Duration::from_secs(1)).await,
            answer => return answer.expect("the database answers"),
        }
    }
}
