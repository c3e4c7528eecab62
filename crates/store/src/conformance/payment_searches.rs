//! Payments as operators search and watch them: by their marks, by their lateness, by what blocks them.

use std::time::Duration;

use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::payment::{Flag, StateName};
use settle_domain::reason::{Blocked, Reason};
use settle_domain::time::Timestamp;

use super::corridors::agree;
use super::fixtures::{at, merchant};
use super::payments::{change, changed_to, create, payment};
use crate::{PaymentChange, PaymentCount, PaymentFilter, PaymentRow, PaymentStanding, Store};

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
    // What is done is found by its flag alone; without one it is not found any more.
    let returned = PaymentFilter { flag: Some(Flag::Returned), ..all.clone() };
    for flag in [Some(Flag::Returned), Some(Flag::Astray), None] {
        let row = store.payment_find(rows[2].merchant_id, rows[2].payment_id).await.unwrap().unwrap();
        change(store, &[PaymentChange { flag, ..changed_to(&row, row.standing.clone()) }]).await;
        for (asked, filter) in [
            (Flag::Returned, returned.clone()),
            (Flag::Astray, PaymentFilter { flag: Some(Flag::Astray), ..all.clone() }),
            (Flag::Returned, PaymentFilter { state: Some(StateName::Completed), ..returned.clone() }),
            (Flag::Returned, PaymentFilter { merchant_id: Some(two), ..returned.clone() }),
        ] {
            let found = ids(store.payment_search(&filter, None, 10).await.unwrap());
            assert_eq!(found == [id(2)], flag == Some(asked), "{flag:?}, {filter:?}");
            assert!(found.len() < 2, "{filter:?}");
        }
    }
    let failed = PaymentFilter { state: Some(StateName::Failed), ..returned };
    assert_eq!(store.payment_search(&failed, None, 10).await.unwrap(), []);
    let first = store.payment_search(&all, None, 2).await.unwrap();
    let after = first.last().map(|row| (row.merchant_id, row.payment_id));
    assert_eq!(ids(store.payment_search(&all, after, 2).await.unwrap()), [id(3)]);
    let mut counts = store.payment_counts().await.unwrap();
    counts.sort_by_key(|count| count.state);
    let count = |state, number, oldest| PaymentCount { state, number, oldest_at: Some(at(oldest)) };
    assert_eq!(counts, [count(StateName::Received, 2, 1), count(StateName::Failed, 1, 9)]);
}

/// Each by its own way, alone and together with others: what was refunded, what is completed and still
/// open, and what has the same reference in two receiving accounts. Pages go on where they ended.
pub async fn a_search_finds_payments_by_each_of_its_ways(store: &dyn Store) {
    let owner = merchant(store).await;
    let mut rows: Vec<PaymentRow> = (0..6).map(|n| payment(owner, &n.to_string(), at(n))).collect();
    rows.sort_by_key(|row| row.payment_id);
    let payin_reference = rows[1].payin_reference.clone();
    rows[4] = PaymentRow { payin_source: "account 2".to_owned(), payin_reference, ..rows[4].clone() };
    create(store, &rows).await;
    let done = |row: &PaymentRow, state| PaymentStanding { state, due_at: None, ..row.standing.clone() };
    let notable = PaymentStanding {
        provider: Some("bank".parse().unwrap()),
        changed_at: at(9),
        ..done(&rows[3], StateName::Refunded)
    };
    let unfinished = PaymentStanding { state: StateName::Completed, ..rows[2].standing.clone() };
    for (place, standing) in [
        (0, done(&rows[0], StateName::Refunded)),
        (1, done(&rows[1], StateName::Completed)),
        (2, unfinished),
        (3, notable),
    ] {
        assert_eq!(change(store, &[changed_to(&rows[place], standing)]).await, [true]);
    }
    let (refunded, completed) = (Some(StateName::Refunded), Some(StateName::Completed));
    let all = PaymentFilter::default();
    let same = PaymentFilter { reference: Some(rows[1].payin_reference.clone()), ..all.clone() };
    let bank = PaymentFilter { provider: Some("bank".parse().unwrap()), ..all.clone() };
    let early = PaymentFilter { changed_by: Some(at(8)), ..all.clone() };
    let other = Some(merchant(store).await);
    for (filter, expected) in [
        (all.clone(), vec![2, 4, 5]),
        (PaymentFilter { state: refunded, ..all.clone() }, vec![0, 3]),
        (PaymentFilter { state: refunded, ..bank.clone() }, vec![3]),
        (PaymentFilter { state: refunded, ..early.clone() }, vec![0]),
        (PaymentFilter { state: refunded, merchant_id: other, ..all.clone() }, vec![]),
        (PaymentFilter { state: completed, ..all.clone() }, vec![1, 2]),
        (PaymentFilter { state: completed, ..bank.clone() }, vec![]),
        (PaymentFilter { state: completed, merchant_id: other, ..all.clone() }, vec![]),
        (same.clone(), vec![4]),
        (PaymentFilter { state: completed, ..same.clone() }, vec![1]),
        (PaymentFilter { state: Some(StateName::Received), ..same.clone() }, vec![4]),
        (PaymentFilter { state: refunded, ..same.clone() }, vec![]),
        (PaymentFilter { merchant_id: other, ..same.clone() }, vec![]),
        (PaymentFilter { reference: Some("unheard of".to_owned()), ..all.clone() }, vec![]),
    ] {
        let expected: Vec<PaymentId> =
            expected.into_iter().map(|place: usize| rows[place].payment_id).collect();
        for limit in [1, 10] {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let page = store.payment_search(&filter, after, limit).await.unwrap();
                let Some(last) = page.last() else { break };
                after = Some((last.merchant_id, last.payment_id));
                found.extend(page.iter().map(|row| row.payment_id));
            }
            assert_eq!(found, expected, "{filter:?}, {limit} at a time");
        }
    }
}

/// A merchant's corridor from BRL to USDC, from then on late after so many seconds.
async fn late_after(store: &dyn Store, merchant_id: MerchantId, seconds: u64, made_at: Timestamp) {
    let alert_after = Duration::from_secs(seconds);
    agree(store, merchant_id, ("BRL", "USDC"), "bank", alert_after, made_at).await;
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
    late_after(store, with, 1_000, at(0)).await;
    late_after(store, with, 60, at(75)).await;
    late_after(store, with, 60, at(90)).await;
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
    assert_eq!(store.payment_late(at(74), start, allowed, 10).await.unwrap(), []);
    let late = store.payment_late(at(100), start, allowed, 10).await.unwrap();
    let found: Vec<_> = late.iter().map(|late| (late.payment_id, late.late_at)).collect();
    assert_eq!(
        found,
        [(first.payment_id, at(75)), (blocked.payment_id, at(80)), (other.payment_id, at(100))],
        "terms make nobody late before they are made, and nobody anew"
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

/// It is late as one without a corridor is, and keeps nobody else's lateness from being seen.
pub async fn a_payment_whose_request_cannot_be_read_is_late_as_well(store: &dyn Store) {
    let owner = merchant(store).await;
    late_after(store, owner, 60, at(0)).await;
    let whole = standing(store, owner, "whole", |_| {}).await;
    let damaged = PaymentRow { request: "{".to_owned(), ..payment(owner, "damaged", at(0)) };
    create(store, std::slice::from_ref(&damaged)).await;
    let start = (Timestamp::MIN, PaymentId::NIL);
    let late = store.payment_late(at(100), start, Duration::from_secs(100), 10).await.unwrap();
    let found: Vec<_> = late.iter().map(|late| (late.payment_id, late.late_at)).collect();
    assert_eq!(found, [(whole.payment_id, at(60)), (damaged.payment_id, at(100))]);
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
