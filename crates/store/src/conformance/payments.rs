//! Payments: created once, changed by whoever saw the last version, found when they are due.

use std::time::Duration;

use settle_domain::actor::Actor;
use settle_domain::corridor::{Corridor, CorridorTerms};
use settle_domain::ids::{MerchantId, PaymentId, SettlementId};
use settle_domain::payment::{Likeness, PayIn, StateName};
use settle_domain::pricing::CorridorPricing;
use settle_domain::reason::{Blocked, Reason};
use settle_domain::settlement::Origin;
use settle_domain::time::Timestamp;

use super::fixtures::{at, merchant, record, settlement, settlement_of, unique_uuid};
use crate::{
    Ask, DueTime, NewCorridor, NewPayment, NewSettlement, PaymentChange, PaymentCount, PaymentCreated,
    PaymentFilter, PaymentRow, PaymentStanding, RecordedBatch, Shard, StepRow, Store,
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
async fn change(store: &dyn Store, changes: &[PaymentChange]) -> Vec<bool> {
    let merchants: Vec<MerchantId> = changes.iter().map(|change| change.merchant_id).collect();
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&merchants).await.unwrap();
    let applied = tx.payment_change_many(&lock, changes).await.unwrap();
    tx.commit().await.unwrap();
    applied
}

fn changed_to(row: &PaymentRow, standing: PaymentStanding) -> PaymentChange {
    PaymentChange { merchant_id: row.merchant_id, payment_id: row.payment_id, seen: row.version, standing }
}

async fn claim(store: &dyn Store, merchant_id: MerchantId, number: u32, by: Timestamp) -> Vec<PaymentId> {
    let asks = [Ask { merchant_id, number }];
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

/// A payment hears of one that it is like, of its merchant and of the day before it: stored, or of the same
/// call. The same again is no second one.
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
    assert_eq!(store.payment_find(owner, second.payment_id).await.unwrap(), Some(second));
    assert_eq!(change(store, &[changed_to(&first, standing)]).await, [false], "seen before");
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
    let asks = [Ask { merchant_id: owner, number: 8 }];
    let claimed = store.payment_claim(&asks, &taken, DueTime::by(at(5))).await.unwrap();
    assert_eq!(claimed.found, [rows[2].clone(), rows[0].clone()]);
    let beyond = DueTime { by: at(0), beyond: at(6) };
    let claimed = store.payment_claim(&asks, &[], beyond).await.unwrap();
    assert_eq!(claimed.found, [rows[3].clone()], "due later than anybody waits");
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

/// An operator finds what is open by any mark, and what is done by its state.
pub async fn an_operator_finds_payments_by_their_marks(store: &dyn Store) {
    let (one, two) = (merchant(store).await, merchant(store).await);
    let mut rows = Vec::new();
    for (owner, reference) in [(one, "a"), (one, "b"), (two, "a"), (two, "b")] {
        rows.push(payment(owner, reference, at(1)));
    }
    rows.sort_by_key(|row| (row.merchant_id, row.payment_id));
    create(store, &rows).await;
    let failed = PaymentStanding {
        state: StateName::Failed,
        reason: Some(Reason::PayoutRefused),
        provider: Some("bank".parse().unwrap()),
        changed_at: at(9),
        due_at: None,
        ..rows[0].standing.clone()
    };
    let blocked = PaymentStanding { blocked: Some(Blocked::RailInactive), ..rows[1].standing.clone() };
    let completed = PaymentStanding { state: StateName::Completed, due_at: None, ..rows[2].standing.clone() };
    for (row, standing) in rows.iter().zip([failed, blocked, completed]) {
        change(store, &[changed_to(row, standing)]).await;
    }
    let ids = |found: Vec<PaymentRow>| found.iter().map(|row| row.payment_id).collect::<Vec<_>>();
    let id = |place: usize| rows[place].payment_id;
    let all = PaymentFilter::default();
    for (filter, expected) in [
        (all.clone(), vec![id(0), id(1), id(3)]),
        (PaymentFilter { merchant_id: Some(two), ..all.clone() }, vec![id(3)]),
        (PaymentFilter { state: Some(StateName::Completed), ..all.clone() }, vec![id(2)]),
        (PaymentFilter { state: Some(StateName::Received), ..all.clone() }, vec![id(1), id(3)]),
        (PaymentFilter { reason: Some(Reason::PayoutRefused), ..all.clone() }, vec![id(0)]),
        (PaymentFilter { blocked: Some(Blocked::RailInactive), ..all.clone() }, vec![id(1)]),
        (PaymentFilter { provider: Some("bank".parse().unwrap()), ..all.clone() }, vec![id(0)]),
        (PaymentFilter { reference: Some(rows[3].payin_reference.clone()), ..all.clone() }, vec![id(3)]),
        (PaymentFilter { changed_by: Some(at(8)), ..all.clone() }, vec![id(1), id(3)]),
    ] {
        let found = store.payment_search(&filter, None, 10).await.unwrap();
        assert_eq!(ids(found), expected, "{filter:?}");
    }
    let first = store.payment_search(&all, None, 2).await.unwrap();
    let after = first.last().map(|row| (row.merchant_id, row.payment_id));
    assert_eq!(ids(store.payment_search(&all, after, 2).await.unwrap()), [id(3)]);
    let mut counts = store.payment_counts().await.unwrap();
    counts.sort_by_key(|count| count.state);
    let count = |state, number, oldest| PaymentCount { state, number, oldest_at: Some(at(oldest)) };
    assert_eq!(counts, [count(StateName::Received, 2, 1), count(StateName::Failed, 1, 9)]);
}

/// A merchant's corridor from BRL to USDC, from now on late after so many seconds.
async fn late_after(store: &dyn Store, merchant_id: MerchantId, seconds: u64) {
    let terms = CorridorTerms {
        incoming: "BRL".parse().unwrap(),
        outgoing: "USDC".parse().unwrap(),
        fee_percentage: "0".parse().unwrap(),
        fee_fixed: "0".parse().unwrap(),
        minimum: None,
        maximum: None,
        provider: "bank".parse().unwrap(),
        alert_after: Duration::from_secs(seconds),
    };
    let new = NewCorridor {
        merchant_id,
        corridor: Corridor::new(terms).unwrap(),
        pricing: CorridorPricing::new("0".parse().unwrap(), None, None).unwrap(),
        made_by: Actor::Command,
        made_at: at(0),
    };
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[merchant_id]).await.unwrap();
    tx.corridor_put(&lock, &new).await.unwrap();
    tx.commit().await.unwrap();
}

/// A payment with the given standing.
async fn standing(
    store: &dyn Store,
    owner: MerchantId,
    reference: &str,
    standing: impl FnOnce(&mut PaymentStanding),
) -> PaymentRow {
    let request = r#"{"incoming_currency": "BRL", "outgoing_currency": "USDC"}"#.to_owned();
    let mut row = PaymentRow { request, ..payment(owner, reference, at(0)) };
    create(store, std::slice::from_ref(&row)).await;
    standing(&mut row.standing);
    assert_eq!(change(store, &[changed_to(&row, row.standing.clone())]).await, [true]);
    row
}

/// Late is what has been on its way for longer than the newest terms allow, or than the given time without a
/// corridor; each is found once by who goes on after the last.
pub async fn payments_are_late_by_the_newest_terms_of_their_corridor(store: &dyn Store) {
    let (with, without) = (merchant(store).await, merchant(store).await);
    late_after(store, with, 1_000).await;
    late_after(store, with, 60).await;
    let since = |seconds| move |standing: &mut PaymentStanding| standing.changed_at = at(seconds);
    let first = standing(store, with, "first", since(10)).await;
    let blocked = standing(store, with, "blocked", |standing| {
        standing.changed_at = at(20);
        standing.blocked = Some(Blocked::RailInactive);
        standing.provider = Some("bank".parse().unwrap());
    });
    let blocked = blocked.await;
    let other = standing(store, without, "other", since(0)).await;
    standing(store, with, "failed", |standing| {
        standing.state = StateName::Failed;
        standing.due_at = None;
    })
    .await;
    standing(store, with, "review", |standing| standing.state = StateName::NeedsReview).await;
    let allowed = Duration::from_secs(100);
    let start = (Timestamp::MIN, PaymentId::NIL);
    assert_eq!(store.payment_late(at(69), start, allowed, 10).await.unwrap(), []);
    let late = store.payment_late(at(100), start, allowed, 10).await.unwrap();
    let found: Vec<_> = late.iter().map(|late| (late.payment_id, late.late_at)).collect();
    assert_eq!(
        found,
        [(first.payment_id, at(70)), (blocked.payment_id, at(80)), (other.payment_id, at(100))]
    );
    let told = &late[1];
    assert_eq!((told.merchant_id, told.state, told.changed_at), (with, StateName::Received, at(20)));
    assert_eq!(
        (told.blocked, told.provider.clone()),
        (Some(Blocked::RailInactive), Some("bank".parse().unwrap()))
    );
    let mut walked = Vec::new();
    let mut after = start;
    while let Some(next) = store.payment_late(at(100), after, allowed, 1).await.unwrap().pop() {
        after = (next.late_at, next.payment_id);
        walked.push(next.payment_id);
    }
    assert_eq!(walked, [first.payment_id, blocked.payment_id, other.payment_id]);
}

/// Only those that are blocked for the reason, and are on their way.
pub async fn blocked_payments_are_counted_by_provider(store: &dyn Store) {
    let owner = merchant(store).await;
    let gas = Blocked::PayoutWalletOutOfGas;
    for (number, provider, blocked) in
        [(0, "bank", gas), (1, "bank", gas), (2, "chain", gas), (3, "other", Blocked::RailInactive)]
    {
        let set = |standing: &mut PaymentStanding| {
            standing.provider = Some(provider.parse().unwrap());
            standing.blocked = Some(blocked);
        };
        standing(store, owner, &format!("pix {number}"), set).await;
    }
    let counted = store.payment_blocked(gas).await.unwrap();
    assert_eq!(counted, [("bank".parse().unwrap(), 2), ("chain".parse().unwrap(), 1)]);
}
