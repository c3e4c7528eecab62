//! A store with a merchant, an engine and a provider that lies, and what a test asks of them.

use std::sync::Arc;
use std::time::Duration;

use settle_domain::actor::Actor;
use settle_domain::corridor::{ALERT_AFTER, Corridor, CorridorTerms};
use settle_domain::ids::{KeeperId, MerchantId, PaymentId};
use settle_domain::ledger::{Account, SignedAmount};
use settle_domain::money::Asset;
use settle_domain::operation::Backoff;
use settle_domain::payment::{PayIn, PaymentOrder, StateName};
use settle_domain::pricing::CorridorPricing;
use settle_domain::seams::{ManualClock, SeededEntropy};
use settle_domain::time::Timestamp;
use settle_engine::advance::Advance;
use settle_engine::case::Case;
use settle_engine::life::{Corridors, Means, live};
use settle_engine::providers::{Providers, Station};
use settle_engine::wake::EngineWake;
use settle_engine::writer::{CreateError, Writer};
use settle_outbox::Outbox;
use settle_outbox::wake::Wake;
use settle_provider::wire::OperationKind as Asked;
use settle_store::conformance::{ScratchStore, fixtures};
use settle_store::{Duty, NewCorridor, OperationRow, PaymentRow, Presence, Shard, ShardLease, Store};

use crate::desk::{Desk, Lie};

pub(crate) struct World {
    pub(crate) store: ScratchStore,
    pub(crate) desk: Arc<Desk>,
    pub(crate) other_desk: Arc<Desk>,
    pub(crate) means: Means,
    pub(crate) writer: Writer,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) merchant: MerchantId,
    pub(crate) wake: EngineWake,
    /// The lease on the merchant's shard, unless an engine of the test keeps it.
    pub(crate) lease: Option<ShardLease>,
    /// Who holds the shards, if the test does.
    keeper: Option<KeeperId>,
    _presence: Option<Box<dyn Presence>>,
}

pub(crate) fn at(second: u64) -> Timestamp {
    fixtures::at(second)
}

pub(crate) fn providers(desk: &Arc<Desk>, other: &Arc<Desk>, clock: &Arc<ManualClock>) -> Providers {
    let station = |name: &str, desk: &Arc<Desk>| {
        Station::new(name.parse().unwrap(), desk.clone(), clock.clone(), Duration::from_hours(24))
    };
    Providers::new([station("desk", desk), station("other", other)])
}

impl World {
    /// A world in which the test itself holds the shards, and takes payments on by hand.
    pub(crate) async fn new(scratch: ScratchStore) -> World {
        let world = World::unserved(scratch).await;
        let keeper = fixtures::unique_keeper_id();
        let presence = world.store.presence(keeper, Duty::Engine).await.unwrap().expect("nobody else sends");
        let lease = lease(&*world.store, keeper, world.merchant).await;
        World { lease: Some(lease), keeper: Some(keeper), _presence: Some(presence), ..world }
    }

    /// The test takes the shards again, which somebody has given back.
    pub(crate) async fn take_the_shards(&mut self) {
        let keeper = self.keeper.expect("the test holds the shards");
        self.lease = Some(lease(&*self.store, keeper, self.merchant).await);
    }

    /// From now on it is about another merchant, which has the corridor that most tests use.
    pub(crate) async fn next_merchant(&mut self) {
        self.merchant = fixtures::merchant(&*self.store).await;
        self.take_the_shards().await;
        self.corridor("BRL", "USDC", "0.5").await;
    }

    /// A world in which nobody holds a shard yet.
    pub(crate) async fn unserved(scratch: ScratchStore) -> World {
        let store = scratch.migrated().await;
        let merchant = fixtures::merchant(&*store).await;
        let clock = Arc::new(ManualClock::at(at(0)));
        let outbox = Outbox::of_service(
            store.share(),
            Wake::default(),
            clock.clone(),
            Arc::new(SeededEntropy::new(20_261_116)),
        );
        let wake = EngineWake::default();
        let writer = Writer::start(outbox, wake.clone(), clock.clone());
        let desk = Arc::new(Desk::default());
        let other_desk = Arc::new(Desk::default());
        let means = Means {
            store: store.share(),
            writer: writer.clone(),
            providers: providers(&desk, &other_desk, &clock),
            clock: clock.clone(),
            waits: Backoff::default(),
            corridors: Corridors::default(),
            answer_wait: Duration::from_secs(10),
        };
        World {
            store,
            desk,
            other_desk,
            means,
            writer,
            clock,
            merchant,
            wake,
            lease: None,
            keeper: None,
            _presence: None,
        }
    }

    /// The engine begins anew: what it knew of its providers and corridors is forgotten.
    pub(crate) fn restart(&mut self) {
        self.means.corridors = Corridors::default();
        self.means.providers = providers(&self.desk, &self.other_desk, &self.clock);
    }

    pub(crate) fn lease(&self) -> ShardLease {
        self.lease.expect("the test holds the shards")
    }

    pub(crate) async fn corridor(&self, incoming: &str, outgoing: &str, spread: &str) {
        self.corridor_of(self.merchant, "desk", (incoming, outgoing), spread).await;
    }

    pub(crate) async fn corridor_of(
        &self,
        merchant: MerchantId,
        provider: &str,
        (incoming, outgoing): (&str, &str),
        spread: &str,
    ) {
        let terms = CorridorTerms {
            incoming: incoming.parse().unwrap(),
            outgoing: outgoing.parse().unwrap(),
            fee_percentage: "1.5".parse().unwrap(),
            fee_fixed: "0.25".parse().unwrap(),
            minimum: None,
            maximum: None,
            provider: provider.parse().unwrap(),
            alert_after: ALERT_AFTER,
        };
        let new = NewCorridor {
            merchant_id: merchant,
            corridor: Corridor::new(terms).unwrap(),
            pricing: CorridorPricing::new(spread.parse().unwrap(), None, None).unwrap(),
            made_by: Actor::Command,
            made_at: at(0),
        };
        let mut tx = self.store.begin().await.unwrap();
        let lock = tx.merchant_lock(&[merchant]).await.unwrap();
        tx.corridor_put(&lock, &new).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Each reference has a destination of its own: no two payments are likely double.
    pub(crate) fn order(&self, reference: &str, outgoing: &str) -> PaymentOrder {
        PaymentOrder {
            merchant_id: self.merchant,
            payin: PayIn::new(None, format!("{reference} of {}", self.merchant)).unwrap(),
            incoming: "BRL".parse().unwrap(),
            incoming_amount: "1000.00".parse().unwrap(),
            outgoing: outgoing.parse().unwrap(),
            outgoing_target: None,
            destination_reference: format!("wallet of {reference}"),
            occurred_at: at(0),
        }
    }

    pub(crate) async fn receive(&self, order: PaymentOrder) -> Result<PaymentId, CreateError> {
        let case = Case::received(order.checked().unwrap(), self.means.clock.now());
        let advance = Advance::received(case, Actor::Command, self.means.clock.now()).unwrap();
        Ok(self.writer.create(vec![advance]).await?[0].payment_id)
    }

    /// Payments of a merchant that come in together.
    pub(crate) async fn receive_many(&self, merchant: MerchantId, number: usize) {
        let now = self.means.clock.now();
        let received = (0..number).map(|number| {
            let payin = PayIn::new(None, format!("{number} of {merchant}")).unwrap();
            let order = PaymentOrder { merchant_id: merchant, payin, ..self.order("", "USDC") };
            Advance::received(Case::received(order.checked().unwrap(), now), Actor::Command, now).unwrap()
        });
        self.writer.create(received.collect()).await.unwrap();
    }

    /// Takes the payment as far as it goes now.
    pub(crate) async fn go(&self, payment: PaymentId) -> PaymentRow {
        let case = self.means.read(self.merchant, payment).await.unwrap().unwrap();
        live(&self.means, case, self.lease()).await.unwrap();
        self.row(payment).await
    }

    /// Waits until the payment is due, and takes it on.
    pub(crate) async fn go_when_due(&self, payment: PaymentId) -> PaymentRow {
        let due = self.row(payment).await.standing.due_at.expect("it is due again");
        self.clock.set(due);
        self.go(payment).await
    }

    pub(crate) async fn row(&self, payment: PaymentId) -> PaymentRow {
        self.store.payment_find(self.merchant, payment).await.unwrap().unwrap()
    }

    /// What is remarked in a payment's timeline.
    pub(crate) async fn notes(&self, payment: PaymentId) -> Vec<String> {
        let steps = self.store.payment_steps(self.merchant, payment).await.unwrap();
        let steps = steps.iter().map(|row| serde_json::from_str::<serde_json::Value>(&row.step).unwrap());
        steps.filter_map(|step| Some(step["note"].as_str()?.to_owned())).collect()
    }

    pub(crate) async fn operations(&self, payment: PaymentId) -> Vec<OperationRow> {
        self.store.operation_of_many(&[(self.merchant, payment)], self.means.clock.now()).await.unwrap()
    }

    pub(crate) async fn balance(&self, account: Account, asset: &str) -> String {
        let asset = asset.parse().unwrap();
        let balances = self.store.balance_of(self.merchant).await.unwrap();
        let found = balances.iter().find(|balance| balance.account == account && balance.asset == asset);
        found.map_or_else(|| SignedAmount::zero(asset), |balance| balance.amount).to_string()
    }

    pub(crate) async fn settled(&self) -> usize {
        fixtures::settlements(&*self.store, self.merchant, 100, 0).await.rows.len()
    }

    /// A payment of a merchant with a corridor, and the desk's lies about its payout.
    pub(crate) async fn paying(&self, lies: &[Lie]) -> PaymentId {
        self.corridor("BRL", "USDC", "0").await;
        self.desk.lies(Asked::Payout, lies);
        self.receive(self.order("pix", "USDC")).await.unwrap()
    }

    /// Every asset sums to zero, and nothing is negative that may not be.
    pub(crate) async fn assert_books(&self) {
        let balances = self.store.balance_of(self.merchant).await.unwrap();
        for asset in Asset::ALL {
            let amounts = balances.iter().filter(|balance| balance.asset == asset);
            let sum =
                amounts.fold(SignedAmount::zero(asset), |sum, balance| sum.plus(balance.amount).unwrap());
            assert!(sum.is_zero(), "{asset}: {sum}");
        }
        let wrong = balances.iter().find(|row| row.amount.is_negative() && !row.account.may_be_negative());
        assert!(wrong.is_none(), "{wrong:?}");
    }

    pub(crate) async fn assert_completed_once(&self, payment: PaymentId) {
        let row = self.row(payment).await;
        assert_eq!((row.standing.state, row.standing.due_at), (StateName::Completed, None));
        assert_eq!(self.desk.executed(Asked::Conversion).len(), 1, "converted once");
        assert_eq!(self.desk.executed(Asked::Payout).len(), 1, "paid once");
        assert_eq!(self.settled().await, 1);
        assert_eq!(self.balance(Account::Paid, "USDC").await, "181.149631");
        self.assert_books().await;
    }
}

pub(crate) async fn lease(store: &dyn Store, keeper: KeeperId, merchant: MerchantId) -> ShardLease {
    let mut tx = store.begin().await.unwrap();
    let leases = tx.queue_lease(keeper, Duty::Engine, Duration::from_mins(1)).await.unwrap();
    tx.commit().await.unwrap();
    let shard = Shard::of(merchant);
    *leases.held.iter().find(|lease| lease.shard == shard).expect("a lone keeper holds every shard")
}
