//! Operations: never two live ones of a payment that move money the same way.

use std::time::Duration;

use settle_domain::ids::{MerchantId, OperationId, PaymentId};
use settle_domain::operation::{OperationKind, OperationStatus};
use settle_domain::time::Timestamp;

use super::fixtures::{at, merchant, unique_uuid};
use super::payments::{create, payment};
use crate::{OperationChange, OperationRow, StepRow, Store, StoreResult};

/// An operation that is about to be prepared.
pub(super) fn operation(
    merchant_id: MerchantId,
    payment_id: PaymentId,
    kind: OperationKind,
    attempt: u32,
) -> OperationRow {
    OperationRow {
        merchant_id,
        payment_id,
        kind,
        attempt,
        operation_id: OperationId::of(payment_id, kind, attempt),
        provider: "sandbox".parse().unwrap(),
        status: OperationStatus::Prepared,
        is_live: true,
        age: Duration::ZERO,
        request: r#"{"amount": "1.00"}"#.to_owned(),
        memory: "{}".to_owned(),
    }
}

/// Prepares an operation, and commits.
pub(super) async fn prepare(store: &dyn Store, row: &OperationRow) -> StoreResult<()> {
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[row.merchant_id]).await.unwrap();
    tx.operation_prepare_many(&lock, std::slice::from_ref(row), at(10)).await?;
    tx.commit().await
}

async fn learn(
    store: &dyn Store,
    row: &OperationRow,
    status: OperationStatus,
    is_live: bool,
) -> StoreResult<()> {
    learn_at(store, row, (status, is_live), at(11)).await
}

/// Records what was learnt of an operation at the given time, and commits.
pub(super) async fn learn_at(
    store: &dyn Store,
    row: &OperationRow,
    (status, is_live): (OperationStatus, bool),
    when: Timestamp,
) -> StoreResult<()> {
    let OperationRow { merchant_id, payment_id, kind, attempt, .. } = *row;
    let memory = format!(r#"{{"status": "{status}"}}"#);
    let learnt = OperationChange { merchant_id, payment_id, kind, attempt, status, is_live, memory };
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[merchant_id]).await.unwrap();
    tx.operation_change_many(&lock, &[learnt], when).await?;
    tx.commit().await
}

async fn received(store: &dyn Store) -> (MerchantId, PaymentId) {
    let owner = merchant(store).await;
    let row = payment(owner, "pix", at(1));
    create(store, std::slice::from_ref(&row)).await;
    (owner, row.payment_id)
}

/// An operation is found by its payment and by its id, with what was learnt of it.
pub async fn an_operation_is_found_by_payment_and_by_id(store: &dyn Store) {
    let (owner, id) = received(store).await;
    let conversion = operation(owner, id, OperationKind::Conversion, 1);
    prepare(store, &conversion).await.unwrap();
    learn(store, &conversion, OperationStatus::Succeeded, true).await.unwrap();
    let payout = operation(owner, id, OperationKind::Payout, 1);
    prepare(store, &payout).await.unwrap();
    let mut found = store.operation_of_many(&[(owner, id)], at(12)).await.unwrap();
    for row in &mut found {
        row.age = Duration::ZERO;
    }
    let succeeded = OperationRow {
        status: OperationStatus::Succeeded,
        memory: r#"{"status": "succeeded"}"#.to_owned(),
        ..conversion
    };
    assert_eq!(found, [succeeded, payout.clone()]);
    let by_id = store.operation_find(payout.operation_id, at(12)).await.unwrap().unwrap();
    assert_eq!(OperationRow { age: Duration::ZERO, ..by_id }, payout);
    assert_eq!(store.operation_find(OperationId(unique_uuid()), at(12)).await.unwrap(), None);
}

/// The database itself forbids a second conversion, and a second payout or refund, while the first may have
/// moved money.
pub async fn the_database_forbids_a_second_live_operation(store: &dyn Store) {
    use OperationKind::{Conversion, Payout, Refund};
    for (first, second) in [(Conversion, Conversion), (Payout, Payout), (Payout, Refund), (Refund, Payout)] {
        let (owner, id) = received(store).await;
        let one = operation(owner, id, first, 1);
        let two = operation(owner, id, second, if first == second { 2 } else { 1 });
        prepare(store, &one).await.unwrap();
        for status in OperationStatus::ALL {
            let ends = status.is_closed();
            learn(store, &one, *status, !ends).await.unwrap();
            if !ends {
                assert!(prepare(store, &two).await.is_err(), "{first} {status}, then {second}");
            }
        }
        learn(store, &one, OperationStatus::Refused, false).await.unwrap();
        prepare(store, &two).await.unwrap();
        assert!(learn(store, &one, OperationStatus::Succeeded, true).await.is_err(), "both live");
        learn(store, &one, OperationStatus::Succeeded, false).await.unwrap();
    }
}

/// Nothing is kept of a payment that is not there: nobody could find it.
pub async fn what_belongs_to_no_payment_is_refused(store: &dyn Store) {
    let (owner, id) = (merchant(store).await, PaymentId(unique_uuid()));
    let payout = operation(owner, id, OperationKind::Payout, 1);
    assert!(prepare(store, &payout).await.is_err());
    assert_eq!(store.operation_find(payout.operation_id, at(12)).await.unwrap(), None);
    let step = StepRow { merchant_id: owner, payment_id: id, number: 1, at: at(1), step: "{}".to_owned() };
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[owner]).await.unwrap();
    assert!(tx.payment_step_many(&lock, &[step]).await.is_err());
    drop(tx);
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[owner]).await.unwrap();
    assert!(tx.payment_price_many(&lock, &[(owner, id, "{}".to_owned())]).await.is_err());
}

/// What was refused or given up is not live.
pub async fn what_has_ended_cannot_be_live(store: &dyn Store) {
    let (owner, id) = received(store).await;
    let payout = operation(owner, id, OperationKind::Payout, 1);
    prepare(store, &payout).await.unwrap();
    for status in [OperationStatus::Refused, OperationStatus::GivenUp] {
        assert!(learn(store, &payout, status, true).await.is_err(), "{status}");
    }
}

/// Of the ids that are asked for, those that are known; in any order.
pub async fn operations_are_found_by_many_ids(store: &dyn Store) {
    let (owner, id) = received(store).await;
    let (conversion, payout) =
        (operation(owner, id, OperationKind::Conversion, 1), operation(owner, id, OperationKind::Payout, 1));
    prepare(store, &conversion).await.unwrap();
    prepare(store, &payout).await.unwrap();
    let asked = [payout.operation_id, OperationId(unique_uuid()), conversion.operation_id];
    let mut found = store.operation_find_many(&asked, at(12)).await.unwrap();
    found.sort_by_key(|row| row.kind);
    for row in &mut found {
        row.age = Duration::ZERO;
    }
    assert_eq!(found, [conversion, payout]);
    assert_eq!(store.operation_find_many(&[], at(12)).await.unwrap(), []);
}
