//! Completed settlements and their lists.

use settle_domain::ids::{MerchantId, SettlementId};
use settle_domain::settlement::{Origin, Record};
use uuid::Uuid;

use super::fixtures::{
    at, merchant, page, pricing, record, settlement, settlement_of, settlements, unique_uuid,
};
use super::payments::{create, payment_of};
use crate::slices::SLICE_ROWS_MAX;
use crate::{NewSettlement, RecordedBatch, Store, StoreError};

fn id(number: u128) -> SettlementId {
    SettlementId(Uuid::from_u128(number))
}

fn keys(settlements: &[NewSettlement]) -> Vec<(MerchantId, SettlementId)> {
    settlements.iter().map(|settlement| (settlement.merchant_id, settlement.settlement_id)).collect()
}

fn records(settlements: &[NewSettlement]) -> Vec<Record> {
    settlements.iter().map(|settlement| settlement.record.clone()).collect()
}

/// Sorted by completion and then by id, across batches recorded in any order.
pub async fn newest_first_and_ties_by_id(store: &dyn Store) {
    let merchant = merchant(store).await;
    let [a, b, c, d] =
        [(5, 1), (9, 2), (5, 3), (7, 4)].map(|(time, number)| settlement(merchant, id(number), at(time)));
    assert_eq!(record(store, &[a.clone(), b.clone()]).await.recorded, keys(&[a.clone(), b.clone()]));
    record(store, &[c.clone(), d.clone()]).await;
    assert_eq!(settlements(store, merchant, 50, 0).await.rows, records(&[b, d, c, a]));
}

/// The total is also exact on a page past the end, and on a page that the limit cuts.
pub async fn total_is_exact_on_every_page(store: &dyn Store) {
    let merchant = merchant(store).await;
    assert_eq!(
        (
            settlements(store, merchant, 50, 0).await.total,
            settlements(store, merchant, 50, 10_000).await.total
        ),
        (0, 0)
    );
    let rows: Vec<_> = (0..7).map(|number| settlement(merchant, id(number), at(1))).collect();
    record(store, &rows).await;
    for (limit, offset, length) in [(50, 0, 7), (3, 0, 3), (3, 6, 1), (3, 7, 0), (200, 10_000, 0)] {
        let page = settlements(store, merchant, limit, offset).await;
        assert_eq!((page.rows.len(), page.total), (length, 7), "limit {limit}, offset {offset}");
    }
}

/// The same id under two merchants is two settlements.
pub async fn a_merchant_sees_its_own_alone(store: &dyn Store) {
    let (one, two) = (merchant(store).await, merchant(store).await);
    let (first, second) = (settlement(one, id(1), at(1)), settlement(two, id(1), at(2)));
    record(store, &[first.clone(), second.clone()]).await;
    for (merchant, own) in [(one, first), (two, second)] {
        let page = settlements(store, merchant, 50, 0).await;
        assert_eq!((page.rows, page.total), (vec![own.record], 1));
    }
}

/// Recording a settlement again changes neither the rows nor the counts.
pub async fn the_same_again_changes_nothing(store: &dyn Store) {
    let merchant = merchant(store).await;
    let mut priced = settlement(merchant, id(2), at(2));
    priced.pricing = Some(pricing("4.5"));
    let rows = [settlement(merchant, id(1), at(1)), priced];
    record(store, &rows).await;
    let third = settlement(merchant, id(3), at(3));
    let again = record(store, &[rows[1].clone(), third.clone(), rows[0].clone()]).await;
    assert_eq!(
        again,
        RecordedBatch { recorded: keys(std::slice::from_ref(&third)), ..RecordedBatch::default() }
    );
    assert_eq!(settlements(store, merchant, 50, 0).await.total, 3);
}

/// Another time or other pricing conflicts.
pub async fn other_content_conflicts(store: &dyn Store) {
    let merchant = merchant(store).await;
    let mut original = settlement(merchant, id(1), at(1));
    original.pricing = Some(pricing("4.5"));
    record(store, std::slice::from_ref(&original)).await;
    let other_time =
        NewSettlement { pricing: original.pricing.clone(), ..settlement(merchant, id(1), at(2)) };
    let other_pricing = NewSettlement { pricing: Some(pricing("4.6")), ..original.clone() };
    let no_pricing = NewSettlement { pricing: None, ..original.clone() };
    for other in [other_time, other_pricing, no_pricing] {
        let batch = record(store, std::slice::from_ref(&other)).await;
        assert_eq!(batch, RecordedBatch { conflicting: keys(&[other]), ..RecordedBatch::default() });
    }
    let page = settlements(store, merchant, 50, 0).await;
    assert_eq!((page.rows, page.total), (vec![original.record], 1));
}

/// The same content twice counts once; two contents under one id conflict.
pub async fn repetitions_inside_a_batch(store: &dyn Store) {
    let merchant = merchant(store).await;
    let (one, other) = (settlement(merchant, id(1), at(1)), settlement(merchant, id(1), at(2)));
    let twice = record(store, &[one.clone(), one.clone()]).await;
    assert_eq!(
        twice,
        RecordedBatch { recorded: keys(std::slice::from_ref(&one)), ..RecordedBatch::default() }
    );
    let (two, different) = (settlement(merchant, id(2), at(1)), settlement(merchant, id(2), at(2)));
    assert_eq!(record(store, &[two.clone(), different]).await.conflicting, keys(&[two]));
    assert_eq!(record(store, &[one.clone(), other]).await.conflicting.len(), 1);
    assert_eq!(settlements(store, merchant, 50, 0).await.total, 2);
}

/// What was recorded unchecked is remembered, and is the same settlement without it.
pub async fn what_was_recorded_unchecked_is_remembered(store: &dyn Store) {
    let (owner, other) = (merchant(store).await, merchant(store).await);
    let unchecked = |merchant, number| NewSettlement {
        origin: Origin::Unchecked,
        ..settlement(merchant, id(number), at(1))
    };
    let rows =
        [unchecked(owner, 3), settlement(owner, id(2), at(1)), unchecked(owner, 1), unchecked(other, 4)];
    record(store, &rows).await;
    assert_eq!(store.settlement_unchecked(owner, None, 10).await.unwrap(), [id(1), id(3)]);
    assert_eq!(store.settlement_unchecked(owner, None, 1).await.unwrap(), [id(1)]);
    assert_eq!(store.settlement_unchecked(owner, Some(id(1)), 10).await.unwrap(), [id(3)]);
    assert_eq!(store.settlement_unchecked(other, None, 10).await.unwrap(), [id(4)]);
    let again = [
        settlement(owner, id(3), at(1)),
        unchecked(owner, 2),
        settlement(owner, id(5), at(1)),
        unchecked(owner, 5),
    ];
    let batch = record(store, &again).await;
    assert_eq!(batch, RecordedBatch { recorded: keys(&again[2..3]), ..RecordedBatch::default() });
    assert_eq!(store.settlement_unchecked(owner, None, 10).await.unwrap(), [id(1), id(3)], "as it was");
    let page = settlements(store, owner, 50, 0).await;
    assert_eq!((page.rows[0].as_str().contains("unchecked"), page.total), (false, 4));
}

/// Nobody records by hand what the engine settles: a payment's id, or its pay-in at the default account.
pub async fn a_payments_id_or_pay_in_conflicts(store: &dyn Store) {
    let (owner, other) = (merchant(store).await, merchant(store).await);
    let reference = &format!("pix of {owner}");
    let payment = payment_of(owner, reference, at(1));
    let fresh = || SettlementId(unique_uuid());
    let with_id = settlement(owner, SettlementId(payment.payment_id.0), at(2));
    let with_payin = settlement_of(owner, fresh(), at(2), reference);
    let both = settlement_of(owner, with_id.settlement_id, at(2), reference);
    let of_other = settlement_of(other, with_id.settlement_id, at(2), reference);
    let free = settlement(owner, fresh(), at(2));
    let unlike = settlement_of(owner, fresh(), at(2), &format!("{reference}!"));
    create(store, std::slice::from_ref(&payment)).await;
    for one in [&with_id, &with_payin, &both] {
        let batch = try_record(store, &[free.clone(), one.clone(), of_other.clone()]).await;
        assert_eq!(batch.payments, keys(std::slice::from_ref(one)));
        assert_eq!(batch.conflicting, batch.payments);
    }
    let completed = NewSettlement { origin: Origin::Payment, ..both };
    for allowed in [free, unlike, of_other, completed] {
        let batch = try_record(store, std::slice::from_ref(&allowed)).await;
        assert_eq!(batch, RecordedBatch { recorded: keys(&[allowed]), ..RecordedBatch::default() });
    }
}

/// What becomes of settlements, in a transaction that is dropped.
async fn try_record(store: &dyn Store, rows: &[NewSettlement]) -> RecordedBatch {
    let merchants: Vec<MerchantId> = rows.iter().map(|row| row.merchant_id).collect();
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&merchants).await.unwrap();
    tx.settlement_record_many(&lock, rows).await.unwrap()
}

/// Rows come in any order; pages are read at every depth around the slices' edges.
pub async fn deep_pages_agree_with_a_walk(store: &dyn Store) {
    let merchant = merchant(store).await;
    let other = super::fixtures::merchant(store).await;
    let (count, total) = (1_700_usize, 1_700_u32);
    // Times repeat and neither rise nor fall: every batch lands in the middle of the list.
    let mut rows: Vec<NewSettlement> = (0..count)
        .map(|n| settlement(merchant, SettlementId(unique_uuid()), at((n as u64 * 7_919) % 613)))
        .collect();
    let edge = SLICE_ROWS_MAX;
    for batch in rows.chunks(300) {
        record(store, batch).await;
        // The backend remembers these slices; the next batch makes them outdated.
        assert_eq!(settlements(store, merchant, 1, edge).await.rows.len(), 1);
        record(store, &[settlement(other, SettlementId(unique_uuid()), at(300))]).await;
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.list_key));
    let offsets = (0..total).step_by(61).chain([edge - 1, edge, edge + 1, total - 1, total]);
    for offset in offsets {
        let page = settlements(store, merchant, 3, offset).await;
        let start = usize::try_from(offset).unwrap();
        let expected = records(&rows[start..count.min(start + 3)]);
        assert_eq!((page.rows, page.total), (expected, u64::from(total)), "offset {offset}");
    }
}

/// The store gives an error, not an empty page.
pub async fn an_unknown_merchant_has_no_page(store: &dyn Store) {
    let stranger = MerchantId(unique_uuid());
    for offset in [0, SLICE_ROWS_MAX] {
        let refused = store.settlement_page(stranger, page(50, offset)).await;
        assert!(matches!(refused, Err(StoreError::UnknownMerchant(_))), "{refused:?}");
    }
}
