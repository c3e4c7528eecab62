//! Payments: created once, changed by whoever saw the last version, found when they are due.

use std::time::Duration;

use settle_domain::ids::{MerchantId, PaymentId, SettlementId};
use settle_domain::payment::{Likeness, PayIn, StateName};
use settle_domain::reason::{Blocked, Reason};
use settle_domain::settlement::Origin;
use settle_domain::time::Timestamp;

use super::corridors::agree;
use super::fixtures::{at, merchant, record, settlement, settlement_of, unique_uuid};
use crate::{
    DueTime, NewPayment, NewSettlement, PaymentAsk, PaymentChange, PaymentCreated, PaymentRow,
    PaymentStanding, RecordedBatch, Shard, StepRow, Store,
};

/// A payment that has just come in, due at once.
#[must_use]
pub fn payment(merchant_id: MerchantId, reference: &str, created_at: Timestamp) -> PaymentRow {
    PaymentRow {
        merchant_id,
        payment_id: PaymentId(unique_uuid()),
        payin_source: "default".to_owned(),
        payin_reference: format!("{reference} of {merchant_id}"),
        version: 1,
        created_at,
        request: r#"{"amount": "1000.00"}"#.to_owned(),
        standing: PaymentStanding {
            state: StateName::Received,
            reason: None,
            blocked: None,
            provider: None,
            changed_at: created_at,
            due_at: Some(created_at),
            progress: r#"{"steps": 1}"#.to_owned(),
        },
    }
}

/// A payment of the given pay-in, which has the id of that.
#[must_use]
pub fn payment_of(merchant_id: MerchantId, payin_reference: &str, created_at: Timestamp) -> PaymentRow {
    let payin = PayIn::new(None, payin_reference.to_owned()).unwrap();
    PaymentRow {
        payment_id: PaymentId::of(merchant_id, &payin),
        payin_reference: payin_reference.to_owned(),
        ..payment(merchant_id, "", created_at)
    }
}

/// Payments that are like no other.
fn alone(payments: &[PaymentRow]) -> Vec<NewPayment> {
    let new = |row: &PaymentRow| NewPayment { row: row.clone(), likeness: Likeness(row.payment_id.0) };
    payments.iter().map(new).collect()
}

/// What would become of a payment, in a transaction that is dropped.
pub async fn try_create(store: &dyn Store, row: &PaymentRow) -> PaymentCreated {
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[row.merchant_id]).await.unwrap();
    tx.payment_create_many(&lock, &alone(std::slice::from_ref(row))).await.unwrap()[0]
}

/// Creates payments, and commits.
pub async fn create(store: &dyn Store, payments: &[PaymentRow]) -> Vec<PaymentCreated> {
    create_new(store, &alone(payments)).await
}

async fn create_new(store: &dyn Store, payments: &[NewPayment]) -> Vec<PaymentCreated> {
    let merchants: Vec<MerchantId> = payments.iter().map(|new| new.row.merchant_id).collect();
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&merchants).await.unwrap();
    let created = tx.payment_create_many(&lock, payments).await.unwrap();
    tx.commit().await.unwrap();
    created
}

/// Changes payments, and commits.
pub(super) async fn change(store: &dyn Store, changes: &[PaymentChange]) -> Vec<bool> {
    let merchants: Vec<MerchantId> = changes.iter().map(|change| change.merchant_id).collect();
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&merchants).await.unwrap();
    let applied = tx.payment_change_many(&lock, changes).await.unwrap();
    tx.commit().await.unwrap();
    applied
}

pub(super) fn changed_to(row: &PaymentRow, standing: PaymentStanding) -> PaymentChange {
    PaymentChange {
        merchant_id: row.merchant_id,
        payment_id: row.payment_id,
        seen: row.version,
        standing,
        flag: None,
    }
}

async fn claim(store: &dyn Store, merchant_id: MerchantId, number: u32, by: Timestamp) -> Vec<PaymentId> {
    let asks = [PaymentAsk::new(merchant_id, number)];
    let claimed = store.payment_claim(&asks, &[], DueTime::by(by)).await.unwrap();
    claimed.found.iter().map(|row| row.payment_id).collect()
}

async fn due_at(store: &dyn Store, merchant: MerchantId) -> Option<Timestamp> {
    let due = store.payment_due(&[Shard::of(merchant)], DueTime::by(Timestamp::MAX), &[], 100).await.unwrap();
    due.iter().find(|due| due.merchant_id == merchant).map(|due| due.due_at)
}

/// The same again is fine; a pay-in is one payment, whoever's it is said to be; a settlement that was
/// recorded by hand is not made again.
pub async fn a_pay_in_is_one_payment(store: &dyn Store) {
    let (one, two) = (merchant(store).await, merchant(store).await);
    let first = payment(one, "pix 1", at(1));
    assert_eq!(create(store, std::slice::from_ref(&first)).await, [PaymentCreated::New]);
    assert_eq!(store.payment_find(one, first.payment_id).await.unwrap().as_ref(), Some(&first));
    let later = PaymentRow { created_at: at(9), ..first.clone() };
    assert_eq!(create(store, &[later]).await, [PaymentCreated::Same]);
    let other_content = PaymentRow { request: r#"{"amount": "999.00"}"#.to_owned(), ..first.clone() };
    let other_merchant =
        PaymentRow { payin_reference: first.payin_reference.clone(), ..payment(two, "", at(2)) };
    let recorded = payment(two, "pix 2", at(3));
    record(store, &[settlement(two, SettlementId(recorded.payment_id.0), at(3))]).await;
    for conflicting in [other_content, other_merchant, recorded] {
        assert_eq!(try_create(store, &conflicting).await, PaymentCreated::Conflict, "{conflicting:?}");
    }
    assert_eq!(store.payment_find(one, first.payment_id).await.unwrap().as_ref(), Some(&first), "unchanged");
}

/// A payment hears of the earliest that it is like, of its merchant and of the day before it: stored, or of
/// the same call. The same again is no second one.
pub async fn a_payment_that_is_like_another_is_known(store: &dyn Store) {
    let (owner, other) = (merchant(store).await, merchant(store).await);
    let likeness = Likeness(unique_uuid());
    // Before midnight: the day after it has two dates.
    let evening = at(0).minus(Duration::from_mins(50));
    let new =
        |merchant_id, reference: &str, at| NewPayment { row: payment(merchant_id, reference, at), likeness };
    let first = new(owner, "first", evening);
    let alike = PaymentCreated::NewAlike(first.row.payment_id);
    assert_eq!(create_new(store, std::slice::from_ref(&first)).await, [PaymentCreated::New]);
    assert_eq!(create_new(store, std::slice::from_ref(&first)).await, [PaymentCreated::Same]);
    let day = Likeness::WITHIN;
    let unlike = NewPayment { likeness: Likeness(unique_uuid()), ..new(owner, "unlike", evening) };
    let microsecond = Duration::from_micros(1);
    let apart = [
        (new(other, "of another", evening), PaymentCreated::New),
        (unlike, PaymentCreated::New),
        (new(owner, "a day later", evening.plus(day)), PaymentCreated::New),
        (new(owner, "in time", evening.plus(day).minus(microsecond)), alike),
        (new(owner, "at once", evening), alike),
    ];
    for (payment, expected) in apart {
        let mut tx = store.begin().await.unwrap();
        let lock = tx.merchant_lock(&[owner, other]).await.unwrap();
        let created = tx.payment_create_many(&lock, std::slice::from_ref(&payment)).await.unwrap();
        assert_eq!(created, [expected], "{}", payment.row.payin_reference);
    }
    let after_midnight = |minutes: u64| evening.plus(Duration::from_mins(60 + minutes));
    for (reference, minutes) in [("second", 0), ("third", 1)] {
        let created = create_new(store, &[new(owner, reference, after_midnight(minutes))]).await;
        assert_eq!(created, [alike], "{reference}: the earliest, on the other side of midnight");
    }
    let later = evening.plus(10 * day);
    let batch = [new(owner, "one", later), new(other, "two", later), new(owner, "three", later)];
    let second = PaymentCreated::NewAlike(batch[0].row.payment_id);
    let expected = [PaymentCreated::New, PaymentCreated::New, second];
    assert_eq!(create_new(store, &batch).await, expected, "of one call");
}

/// A settlement that was recorded by hand with a payment's pay-in is in its way, in its merchant alone: a
/// record names no receiving account, and stands for the default one.
pub async fn a_pay_in_that_was_recorded_by_hand_is_no_payment(store: &dyn Store) {
    let (owner, other) = (merchant(store).await, merchant(store).await);
    let reference = &format!("pix of {owner}");
    record(store, &[settlement_of(owner, SettlementId(unique_uuid()), at(1), reference)]).await;
    let payment = payment_of(owner, reference, at(2));
    assert_eq!(try_create(store, &payment).await, PaymentCreated::Conflict);
    let elsewhere = PaymentRow { payin_source: "account 2".to_owned(), ..payment.clone() };
    let unlike = payment_of(owner, &format!("{reference}!"), at(2));
    let of_other = payment_of(other, reference, at(2));
    for free in [elsewhere, unlike, of_other] {
        assert_eq!(try_create(store, &free).await, PaymentCreated::New, "{free:?}");
    }
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[owner, other]).await.unwrap();
    let batch = [payment_of(other, "first", at(2)), payment, payment_of(owner, "last", at(2))];
    let created = tx.payment_create_many(&lock, &alone(&batch)).await.unwrap();
    assert_eq!(created, [PaymentCreated::New, PaymentCreated::Conflict, PaymentCreated::New]);
}

/// What the engine has completed is the same payment when it comes again, and its settlement is the same
/// when somebody records it by hand.
pub async fn a_completed_payment_that_comes_again_is_the_same(store: &dyn Store) {
    let owner = merchant(store).await;
    let payment = payment_of(owner, &format!("pix of {owner}"), at(1));
    create(store, std::slice::from_ref(&payment)).await;
    let id = SettlementId(payment.payment_id.0);
    let by_hand = settlement_of(owner, id, at(2), &payment.payin_reference);
    let completed = NewSettlement { origin: Origin::Payment, ..by_hand.clone() };
    let batch = record(store, std::slice::from_ref(&completed)).await;
    assert_eq!(batch, RecordedBatch { recorded: vec![(owner, id)], ..RecordedBatch::default() });
    assert_eq!(try_create(store, &payment).await, PaymentCreated::Same);
    assert_eq!(record(store, &[by_hand]).await, RecordedBatch::default());
    let elsewhere =
        PaymentRow { payment_id: PaymentId(unique_uuid()), payin_source: "account 2".to_owned(), ..payment };
    assert_eq!(try_create(store, &elsewhere).await, PaymentCreated::New, "a pay-in of another account");
}

/// Twice in one batch is created once.
pub async fn repetitions_inside_a_batch_of_payments(store: &dyn Store) {
    let owner = merchant(store).await;
    let (first, second) = (payment(owner, "pix 1", at(1)), payment(owner, "pix 2", at(1)));
    let created = create(store, &[first.clone(), second, first]).await;
    assert_eq!(created, [PaymentCreated::New, PaymentCreated::New, PaymentCreated::Same]);
}

/// Only who saw the present version changes a payment, and every change is a new one.
pub async fn a_change_needs_the_present_version(store: &dyn Store) {
    let owner = merchant(store).await;
    let (first, second) = (payment(owner, "pix 1", at(1)), payment(owner, "pix 2", at(1)));
    create(store, &[first.clone(), second.clone()]).await;
    let standing = PaymentStanding {
        state: StateName::NeedsReview,
        reason: Some(Reason::PayoutOutcomeUnknown),
        blocked: Some(Blocked::PayoutWalletOutOfGas),
        provider: Some("sandbox".parse().unwrap()),
        changed_at: at(5),
        due_at: Some(at(60)),
        progress: r#"{"steps": 2}"#.to_owned(),
    };
    let stale = PaymentChange { seen: 2, ..changed_to(&second, standing.clone()) };
    let changed = change(store, &[changed_to(&first, standing.clone()), stale]).await;
    assert_eq!(changed, [true, false]);
    let after = PaymentRow { version: 2, standing: standing.clone(), ..first.clone() };
    assert_eq!(store.payment_find(owner, first.payment_id).await.unwrap(), Some(after));
    assert_eq!(store.payment_find(owner, second.payment_id).await.unwrap(), Some(second.clone()));
    assert_eq!(change(store, &[changed_to(&first, standing.clone())]).await, [false], "seen before");
    let failed = PaymentStanding { state: StateName::Failed, due_at: None, ..standing.clone() };
    let both = [changed_to(&second, failed.clone()), changed_to(&second, standing)];
    assert_eq!(change(store, &both).await, [true, false], "two who saw the same");
    let after = store.payment_find(owner, second.payment_id).await.unwrap().unwrap();
    assert_eq!((after.version, after.standing), (2, failed));
}

/// A claim gives what is due, the first due first, without what the engine has in hand.
pub async fn a_claim_takes_the_first_payments_due(store: &dyn Store) {
    let (owner, other) = (merchant(store).await, merchant(store).await);
    let rows: Vec<PaymentRow> =
        [3, 1, 2, 7].map(|second| payment(owner, &format!("pix {second}"), at(second))).to_vec();
    create(store, &rows).await;
    create(store, &[payment(other, "pix", at(1))]).await;
    assert_eq!(claim(store, owner, 2, at(5)).await, [rows[1].payment_id, rows[2].payment_id]);
    let taken = [(owner, rows[1].payment_id)];
    let asks = [PaymentAsk::new(owner, 8)];
    let claimed = store.payment_claim(&asks, &taken, DueTime::by(at(5))).await.unwrap();
    assert_eq!(claimed.found, [rows[2].clone(), rows[0].clone()]);
    let beyond = DueTime { by: at(0), beyond: at(6) };
    let claimed = store.payment_claim(&asks, &[], beyond).await.unwrap();
    assert_eq!(claimed.found, [rows[3].clone()], "due later than anybody waits");
}

/// Its payments that they serve, and those that they would serve under the newest terms. Others are found
/// behind them, the first due first, and other merchants' whatever their provider.
pub async fn a_claim_passes_over_providers_that_have_no_place(store: &dyn Store) {
    let (owner, other) = (merchant(store).await, merchant(store).await);
    let terms = Duration::from_mins(1);
    agree(store, owner, ("BRL", "USDC"), "chain", terms, at(0)).await;
    agree(store, owner, ("BRL", "USDC"), "bank", terms, at(1)).await;
    agree(store, owner, ("BRL", "USDT"), "chain", terms, at(1)).await;
    let new = |owner, number: u64, outgoing: &str| PaymentRow {
        request: format!(r#"{{"incoming_currency":"BRL","outgoing_currency":"{outgoing}"}}"#),
        ..payment(owner, &format!("pix {number}"), at(number))
    };
    let rows = [
        new(owner, 1, "USDC"),
        new(owner, 2, "USDT"),
        new(owner, 3, "USDC"),
        new(owner, 4, "USDT"),
        new(owner, 5, "unheard of"),
        PaymentRow { request: "{".to_owned(), ..new(owner, 6, "") },
        new(owner, 9, "USDT"),
        new(other, 1, "USDC"),
    ];
    create(store, &rows).await;
    for (row, provider) in [(&rows[2], "chain"), (&rows[3], "bank")] {
        let standing = PaymentStanding { provider: Some(provider.parse().unwrap()), ..row.standing.clone() };
        assert_eq!(change(store, &[changed_to(row, standing)]).await, [true]);
    }
    let without = |number, names: &[&str]| PaymentAsk {
        without: names.iter().map(|name| name.parse().unwrap()).collect(),
        ..PaymentAsk::new(owner, number)
    };
    for (ask, taken, expected) in [
        (without(8, &[]), None, vec![0, 1, 2, 3, 4, 5]),
        (without(8, &["bank"]), None, vec![1, 2, 4, 5]),
        (without(2, &["bank"]), None, vec![1, 2]),
        (without(2, &["bank"]), Some(1), vec![2, 4]),
        (without(8, &["chain"]), None, vec![0, 3, 4, 5]),
        (without(8, &["ban", "an", "bank", "chain"]), None, vec![4, 5]),
    ] {
        let taken: Vec<_> = taken.map(|place: usize| (owner, rows[place].payment_id)).into_iter().collect();
        let asks = [ask, PaymentAsk::new(other, 8)];
        let found = store.payment_claim(&asks, &taken, DueTime::by(at(7))).await.unwrap().found;
        let (of_other, own): (Vec<_>, Vec<_>) = found.iter().partition(|row| row.merchant_id == other);
        let expected: Vec<PaymentId> =
            expected.into_iter().map(|place: usize| rows[place].payment_id).collect();
        assert_eq!(own.iter().map(|row| row.payment_id).collect::<Vec<_>>(), expected, "{asks:?}");
        assert_eq!(of_other, [&rows[7]], "{asks:?}");
    }
}

/// A merchant is due no later than its payments, and not at all when a look found nothing left.
pub async fn a_merchant_is_due_for_its_payments(store: &dyn Store) {
    let owner = merchant(store).await;
    assert_eq!(due_at(store, owner).await, None);
    let (first, second) = (payment(owner, "pix 1", at(5)), payment(owner, "pix 2", at(3)));
    create(store, std::slice::from_ref(&first)).await;
    assert_eq!(due_at(store, owner).await, Some(at(5)));
    create(store, std::slice::from_ref(&second)).await;
    assert_eq!(due_at(store, owner).await, Some(at(3)));
    let known = [owner];
    let shards = [Shard::of(owner)];
    assert_eq!(store.payment_due(&shards, DueTime::by(at(9)), &known, 10).await.unwrap(), []);
    let done = |row: &PaymentRow| PaymentStanding {
        state: StateName::Completed,
        due_at: None,
        ..row.standing.clone()
    };
    assert_eq!(change(store, &[changed_to(&second, done(&second))]).await, [true]);
    refresh(store, owner).await;
    assert_eq!(due_at(store, owner).await, Some(at(5)));
    assert_eq!(change(store, &[changed_to(&first, done(&first))]).await, [true]);
    refresh(store, owner).await;
    assert_eq!(due_at(store, owner).await, None);
    assert_eq!(claim(store, owner, 8, at(100)).await, []);
}

async fn refresh(store: &dyn Store, merchant: MerchantId) {
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[merchant]).await.unwrap();
    tx.payment_refresh(&lock, &[merchant]).await.unwrap();
    tx.commit().await.unwrap();
}

/// A timeline is read as it was written, and pricing is replaced by the next.
pub async fn a_payment_has_a_timeline_and_pricing(store: &dyn Store) {
    let owner = merchant(store).await;
    let row = payment(owner, "pix", at(1));
    create(store, std::slice::from_ref(&row)).await;
    let asked = [(owner, row.payment_id)];
    let step = |number| StepRow {
        merchant_id: owner,
        payment_id: row.payment_id,
        number,
        at: at(u64::from(number)),
        step: format!(r#"{{"number": {number}}}"#),
    };
    let steps = [step(1), step(2), step(3)];
    for pricing in ["{\"rate\": 1}", "{\"rate\": 2}"] {
        let mut tx = store.begin().await.unwrap();
        let lock = tx.merchant_lock(&[owner]).await.unwrap();
        let priced = [(owner, row.payment_id, pricing.to_owned())];
        tx.payment_price_many(&lock, &priced).await.unwrap();
        tx.commit().await.unwrap();
        let read = store.payment_pricing_of_many(&asked).await.unwrap();
        assert_eq!(read, [(row.payment_id, pricing.to_owned())]);
    }
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[owner]).await.unwrap();
    tx.payment_step_many(&lock, &[step(2), step(1), step(3)]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(store.payment_steps(owner, row.payment_id).await.unwrap(), steps);
    assert_eq!(store.payment_steps(owner, PaymentId(unique_uuid())).await.unwrap(), []);
}

/// Pricing is read for many payments at once, each under its merchant; nothing is said of those without any.
pub async fn the_pricing_of_many_payments_is_read_at_once(store: &dyn Store) {
    let (one, two) = (merchant(store).await, merchant(store).await);
    let rows = [payment(one, "pix 1", at(1)), payment(one, "pix 2", at(1)), payment(two, "pix 3", at(1))];
    create(store, &rows).await;
    let priced = |row: &PaymentRow| (row.payment_id, format!("{{\"of\": \"{}\"}}", row.payin_reference));
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[one, two]).await.unwrap();
    let pricing = [&rows[0], &rows[2]].map(|row| (row.merchant_id, row.payment_id, priced(row).1));
    tx.payment_price_many(&lock, &pricing).await.unwrap();
    tx.commit().await.unwrap();
    let asked = rows.each_ref().map(|row| (row.merchant_id, row.payment_id));
    let mut read = store.payment_pricing_of_many(&asked).await.unwrap();
    read.sort_by_key(|(payment, _)| *payment != rows[0].payment_id);
    assert_eq!(read, [priced(&rows[0]), priced(&rows[2])]);
    let of_another = [(two, rows[0].payment_id)];
    assert_eq!(store.payment_pricing_of_many(&of_another).await.unwrap(), [], "another merchant's");
}
