//! What the sandbox has executed, what the merchants are told and what the books say: it must be the same.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde_json::Value;
use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::ledger::{Account, SignedAmount};
use settle_domain::money::{Asset, Decimal};
use settle_domain::operation::{OperationRequest, OperationStatus};
use settle_domain::seams::Clock;
use settle_engine::books;
use settle_engine::case::Case;
use settle_testing::binary::block_on;
use settle_testing::serving::get;
use settle_wiring::system::SystemClock;
use uuid::Uuid;

use super::bank::{Bank, Execution};
use super::desk::{Posted, payments};
use super::orders::{Order, number_of};
use crate::setup::{Setup, total};

/// Settlements on a page.
const PAGE: usize = 200;

/// Sums by merchant and asset.
type Sums = BTreeMap<(usize, Asset), SignedAmount>;

/// What operations moved, by id: the kind, what went out, and what a conversion bought.
type Moved = BTreeMap<Uuid, (String, (Asset, Decimal), Option<(Asset, Decimal)>)>;

/// What was executed, each operation once, by kind and number of the payment.
struct Executed {
    conversions: BTreeMap<u64, Execution>,
    payouts: BTreeMap<u64, Execution>,
    refunds: BTreeMap<u64, Execution>,
}

/// Compares. Returns the figures.
pub fn check(setup: &Setup, api: SocketAddr, bank: &Bank, posted: &Posted) -> String {
    let executed = Executed::once_each(bank.executions());
    let completed = states(&payments(setup, "completed"));
    let refunded = states(&payments(setup, "refunded"));
    // A number has one id for ever, also where its batch was posted again.
    let known: Posted = completed.clone().into_iter().chain(refunded.clone()).collect();
    assert_eq!(known.len(), completed.len() + refunded.len(), "a payment ends once");
    assert_eq!(&known, posted, "what was acknowledged is there, and nothing else");

    let settled = settlements(setup, api, &completed);
    for (number, id) in posted {
        let order = Order::of(*number, setup.merchants.len());
        let story = format!("payment {number}, {id}: {order:?}");
        assert_eq!(refunded.contains_key(number), order.is_refused(), "{story}");
        executed.judge(*number, &order, settled.get(number), &story);
    }
    compare_operations(&succeeded(setup, posted), &executed.moved());
    compare_books(setup, posted, &executed);
    compare_notifications(setup, api, &completed);
    format!(
        "{} payments, {} paid out, {} refunded, {} conversions",
        posted.len(),
        executed.payouts.len(),
        executed.refunds.len(),
        executed.conversions.len(),
    )
}

/// The ids of payments, by number.
fn states(payments: &[Value]) -> Posted {
    let text = |payment: &Value, field: &str| payment[field].as_str().expect("a text").to_owned();
    payments
        .iter()
        .map(|payment| (number_of(&text(payment, "payin_reference")), text(payment, "payment_id")))
        .collect()
}

/// The settlements in the merchants' lists by number: one for each completed payment, with its id.
fn settlements(setup: &Setup, api: SocketAddr, completed: &Posted) -> BTreeMap<u64, (Asset, Decimal)> {
    let mut settled = BTreeMap::new();
    for (merchant, key) in setup.keys.iter().enumerate() {
        let mut offset = 0;
        loop {
            let path = format!("/v1/settlements?limit={PAGE}&offset={offset}");
            let page = get(api, &path, key).json();
            let rows = page["settlements"].as_array().expect("a list");
            for row in rows {
                let text = |field: &str| row[field].as_str().expect("a text");
                let number = number_of(text("payin_reference"));
                assert_eq!(completed.get(&number).map(String::as_str), Some(text("settlement_id")), "{row}");
                assert_eq!(Order::of(number, setup.merchants.len()).merchant, merchant, "{row}");
                let paid = (
                    text("outgoing_currency").parse().expect("an asset"),
                    text("outgoing_amount").parse().expect("an amount"),
                );
                assert_eq!(settled.insert(number, paid), None, "two settlements: {row}");
            }
            offset += rows.len();
            if rows.len() < PAGE {
                break;
            }
        }
    }
    assert_eq!(settled.keys().collect::<Vec<_>>(), completed.keys().collect::<Vec<_>>());
    settled
}

impl Executed {
    fn once_each(executions: Vec<Execution>) -> Executed {
        let mut executed =
            Executed { conversions: BTreeMap::new(), payouts: BTreeMap::new(), refunds: BTreeMap::new() };
        for execution in executions {
            assert_eq!(execution.times, 1, "executed more than once: {execution:?}");
            let of_kind = match execution.kind.as_str() {
                "conversion" => &mut executed.conversions,
                "payout" => &mut executed.payouts,
                "refund" => &mut executed.refunds,
                kind => panic!("{kind} was executed"),
            };
            let again = of_kind.insert(number_of(&execution.reference), execution.clone());
            assert!(again.is_none(), "two for one payment: {execution:?} and {again:?}");
        }
        executed
    }

    fn moved(&self) -> Moved {
        let all = [&self.conversions, &self.payouts, &self.refunds].into_iter().flat_map(BTreeMap::values);
        all.map(|done| (done.operation_id, (done.kind.clone(), (done.asset, done.amount), done.bought)))
            .collect()
    }

    /// One payment: what was executed for it is what must have been, with the amounts of its settlement.
    fn judge(&self, number: u64, order: &Order, settled: Option<&(Asset, Decimal)>, story: &str) {
        let (payout, refund) = (self.payouts.get(&number), self.refunds.get(&number));
        assert!(payout.is_none() || refund.is_none(), "{story}: {payout:?} and {refund:?}");
        assert_eq!(payout.is_some(), settled.is_some(), "{story}: {payout:?}");
        assert_eq!(refund.is_some(), order.is_refused(), "{story}: {refund:?}");
        let incoming: Decimal = order.incoming_amount.parse().expect("an amount");
        if let Some((payout, (asset, amount))) = payout.zip(settled) {
            assert_eq!((payout.asset, payout.amount), (*asset, *amount), "{story}");
            assert_eq!(payout.reference, order.destination, "{story}");
        }
        if let Some(refund) = refund {
            assert_eq!((refund.asset.code(), refund.amount), (order.incoming, incoming), "{story}");
            assert_eq!(refund.reference, order.payin, "{story}");
        }
        match self.conversions.get(&number) {
            Some(sold) => assert_eq!((sold.asset.code(), sold.amount), (order.incoming, incoming), "{story}"),
            None => assert!(payout.is_none() || !order.needs_conversion(), "{story}: paid without buying"),
        }
    }
}

/// What our operations say that they moved, those that succeeded.
fn succeeded(setup: &Setup, posted: &Posted) -> Moved {
    let store = setup.settle.store();
    block_on(async {
        let mut moved = Moved::new();
        for (number, id) in posted {
            let merchant = &setup.merchants[Order::of(*number, setup.merchants.len()).merchant];
            let merchant: MerchantId = merchant.parse().expect("an id");
            let payment: PaymentId = id.parse().expect("an id");
            let row = store.payment_find(merchant, payment).await.expect("it can be read");
            let operations = store.operation_of_many(&[(merchant, payment)], SystemClock.now()).await;
            let operations = operations.expect("they can be read");
            let case = Case::read(row.expect("it is there"), None, operations).expect("it makes sense");
            for operation in case.operations.into_iter().map(|tracked| tracked.operation) {
                if operation.memory.status != OperationStatus::Succeeded {
                    continue;
                }
                let bought = match operation.request {
                    OperationRequest::Conversion { buy, .. } => {
                        Some((buy, operation.bought_amount.expect("it bought something")))
                    }
                    _ => None,
                };
                let kind = operation.request.kind().to_string();
                moved.insert(operation.operation_id.0, (kind, operation.request.outlay(), bought));
            }
        }
        moved
    })
}

/// What our operations say that they moved is what the sandbox has executed, each of them to the last unit.
fn compare_operations(ours: &Moved, executed: &Moved) {
    let ids: BTreeSet<&Uuid> = ours.keys().chain(executed.keys()).collect();
    let both = ids.into_iter().map(|id| (id, ours.get(id), executed.get(id)));
    let differing: Vec<_> = both.filter(|(_, ours, executed)| ours != executed).collect();
    assert!(differing.is_empty(), "operations, by us and by the sandbox: {differing:#?}");
}

/// The books agree with themselves, and with the sums of what was executed, by merchant and asset.
fn compare_books(setup: &Setup, posted: &Posted, executed: &Executed) {
    let merchants: Vec<MerchantId> = setup.merchants.iter().map(|id| id.parse().expect("an id")).collect();
    let store = setup.settle.store();
    let (checked, balances) = block_on(async {
        let checked = books::check(&*store, &SystemClock).await.expect("the books can be read");
        let mut balances = Vec::new();
        for merchant in &merchants {
            balances.push(books::balances(&*store, Some(*merchant)).await.expect("the books can be read"));
        }
        (checked, balances)
    });
    assert_eq!(checked.found, 0, "{:#?}", checked.disagreements);
    assert_eq!(checked.payments, u64::try_from(posted.len()).expect("not that many"));
    let (mut paid, mut refunded, mut exchanged) = (Sums::new(), Sums::new(), Sums::new());
    for (merchant, balances) in balances.into_iter().enumerate() {
        let id = merchants[merchant];
        for (account, asset, amount) in balances {
            match account {
                Account::Paid => add(&mut paid, (merchant, asset), amount),
                Account::Refunded => add(&mut refunded, (merchant, asset), amount),
                Account::Exchange => add(&mut exchanged, (merchant, asset), amount),
                Account::Converting | Account::PayingOut | Account::Refunding => {
                    assert!(amount.is_zero(), "{account} of {id}: {amount} {asset} in flight");
                }
                _ => {}
            }
        }
    }
    let merchant_of = |number: u64| Order::of(number, setup.merchants.len()).merchant;
    let sums = |executed: &BTreeMap<u64, Execution>| {
        let mut sums = Sums::new();
        for (number, execution) in executed {
            add(
                &mut sums,
                (merchant_of(*number), execution.asset),
                signed(execution.asset, execution.amount),
            );
        }
        sums
    };
    assert_eq!(without_zeros(paid), sums(&executed.payouts), "paid, by the books and by the sandbox");
    assert_eq!(without_zeros(refunded), sums(&executed.refunds), "refunded, by the books and by the sandbox");
    let mut sold_and_bought = sums(&executed.conversions);
    for (number, conversion) in &executed.conversions {
        let (asset, amount) = conversion.bought.expect("a conversion buys something");
        add(&mut sold_and_bought, (merchant_of(*number), asset), signed(asset, amount).negated());
    }
    let expected = without_zeros(sold_and_bought);
    assert_eq!(without_zeros(exchanged), expected, "exchanged, by the books and by the sandbox");
}

fn signed(asset: Asset, amount: Decimal) -> SignedAmount {
    SignedAmount::of(amount).and_then(|amount| amount.at_scale(asset)).expect("an amount of the asset")
}

fn add(sums: &mut Sums, of: (usize, Asset), amount: SignedAmount) {
    let sum = sums.entry(of).or_insert(SignedAmount::zero(of.1));
    *sum = sum.plus(amount).expect("a sum");
}

fn without_zeros(mut sums: Sums) -> Sums {
    sums.retain(|_, amount| !amount.is_zero());
    sums
}

/// Every completed payment has been told of, in one delivery, and no other.
fn compare_notifications(setup: &Setup, api: SocketAddr, completed: &Posted) {
    let wanted: BTreeSet<u64> = completed.values().map(|id| crate::load::number_of(id)).collect();
    setup.tally.wait("everything completed has arrived", |tally| tally.settlements.len() >= wanted.len());
    let tally = setup.tally.read();
    assert_eq!(tally.faults, Vec::<String>::new());
    assert_eq!(tally.settlements.keys().copied().collect::<BTreeSet<u64>>(), wanted);
    drop(tally);
    let delivered = || setup.keys.iter().map(|key| total(api, "delivered", key)).sum::<u64>();
    let completed = u64::try_from(completed.len()).expect("not that many");
    setup.tally.retry("the last outcome is recorded", || (delivered() == completed).then_some(()));
}
