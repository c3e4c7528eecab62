//! Balances: the exact sum of all postings.

use settle_domain::ids::{MerchantId, PaymentId, SettlementId};
use settle_domain::ledger::{Account, Postings};
use settle_domain::money::Asset;
use settle_domain::operation::OperationKind;
use settle_domain::settlement::Origin;

use super::fixtures::{at, merchant, record, settlement};
use super::operations::{operation, prepare};
use super::payments::{create, payment};
use crate::{AuditedPayment, Balance, NewSettlement, PaymentRow, StepRow, Store};

fn moved(asset: &str, from: Account, to: Account, amount: &str) -> Postings {
    Postings::none().and(asset.parse().unwrap(), from, to, amount.parse().unwrap()).unwrap()
}

async fn post(store: &dyn Store, postings: &[(MerchantId, Postings)]) {
    let merchants: Vec<MerchantId> = postings.iter().map(|(merchant, _)| *merchant).collect();
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&merchants).await.unwrap();
    tx.balance_post_many(&lock, postings).await.unwrap();
    tx.commit().await.unwrap();
}

fn balance(merchant_id: MerchantId, account: Account, asset: &str, amount: &str) -> Balance {
    let asset: Asset = asset.parse().unwrap();
    Balance { merchant_id, account, asset, amount: amount.parse().unwrap() }
}

/// Postings of one call and of several add up, to the last unit of 38 digits.
pub async fn a_balance_is_the_sum_of_its_postings(store: &dyn Store) {
    let (one, two) = (merchant(store).await, merchant(store).await);
    let huge = "1234567890123456789012345678901234.56";
    let receive = |amount| moved("BRL", Account::Payer, Account::ClientFunds, amount);
    post(store, &[(one, receive(huge)), (two, receive("5.00")), (one, receive("0.44"))]).await;
    post(store, &[(one, moved("BRL", Account::ClientFunds, Account::Converting, "0.44"))]).await;
    post(store, &[(one, moved("USDC", Account::Exchange, Account::Payable, "0.000001"))]).await;
    post(store, &[(two, Postings::none())]).await;
    let expected = [
        balance(one, Account::ClientFunds, "BRL", huge),
        balance(one, Account::Converting, "BRL", "0.44"),
        balance(one, Account::Exchange, "USDC", "-0.000001"),
        balance(one, Account::Payable, "USDC", "0.000001"),
        balance(one, Account::Payer, "BRL", "-1234567890123456789012345678901235.00"),
    ];
    assert_eq!(store.balance_of(one).await.unwrap(), expected);
    post(store, &[(two, moved("BRL", Account::ClientFunds, Account::Payer, "5.00"))]).await;
    let emptied =
        [balance(two, Account::ClientFunds, "BRL", "0.00"), balance(two, Account::Payer, "BRL", "0.00")];
    assert_eq!(store.balance_of(two).await.unwrap(), emptied, "at the scale of its asset");
    let (first, last) = (one.min(two), one.max(two));
    let listed = store.balance_list(None, 1).await.unwrap();
    assert!(!listed.is_empty() && listed.iter().all(|balance| balance.merchant_id == first));
    let listed = store.balance_list(Some(first), 1).await.unwrap();
    assert!(!listed.is_empty() && listed.iter().all(|balance| balance.merchant_id == last));
}

/// What is not committed was not posted.
pub async fn postings_that_are_not_committed_leave_no_trace(store: &dyn Store) {
    let owner = merchant(store).await;
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[owner]).await.unwrap();
    let received = moved("BRL", Account::Payer, Account::ClientFunds, "1.00");
    tx.balance_post_many(&lock, &[(owner, received)]).await.unwrap();
    drop(tx);
    assert_eq!(store.balance_of(owner).await.unwrap(), []);
}

/// The settlement that a payment makes.
fn completed(row: &PaymentRow) -> NewSettlement {
    let told = settlement(row.merchant_id, SettlementId::from(row.payment_id), at(3));
    NewSettlement { origin: Origin::Payment, ..told }
}

async fn step(store: &dyn Store, row: &PaymentRow, number: u32) -> StepRow {
    let (merchant_id, payment_id) = (row.merchant_id, row.payment_id);
    let step = format!(r#"{{"to": "state {number}"}}"#);
    let step = StepRow { merchant_id, payment_id, number, at: at(1), step };
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[merchant_id]).await.unwrap();
    tx.payment_step_many(&lock, std::slice::from_ref(&step)).await.unwrap();
    tx.commit().await.unwrap();
    step
}

/// What is committed after its first question an audit does not see, in whatever it asks.
pub async fn an_audit_sees_one_moment(store: &dyn Store) {
    let owner = merchant(store).await;
    let received = moved("BRL", Account::Payer, Account::ClientFunds, "1.00");
    post(store, &[(owner, received.clone())]).await;
    let first = payment(owner, "first", at(1));
    create(store, std::slice::from_ref(&first)).await;
    let mut audit = store.balance_audit(owner, at(1)).await.unwrap();
    let before = audit.balances().await.unwrap();
    assert_eq!(before, store.balance_of(owner).await.unwrap());
    post(store, &[(owner, received)]).await;
    create(store, &[payment(owner, "second", at(2))]).await;
    step(store, &first, 1).await;
    prepare(store, &operation(owner, first.payment_id, OperationKind::Payout, 1)).await.unwrap();
    record(store, &[completed(&first)]).await;
    let bare = AuditedPayment { payment: first, steps: Vec::new(), operations: Vec::new(), settlement: None };
    assert_eq!(audit.balances().await.unwrap(), before);
    assert_eq!(audit.payments(None, 10).await.unwrap(), [bare]);
    let mut later = store.balance_audit(owner, at(1)).await.unwrap();
    assert_ne!(later.balances().await.unwrap(), before);
    assert_eq!(later.payments(None, 10).await.unwrap().len(), 2);
}

/// Each payment comes once, in the order of the ids, with its own timeline, operations and settlement, and
/// without another merchant's.
pub async fn an_audit_gives_payments_in_pages_with_all_that_is_theirs(store: &dyn Store) {
    let (owner, other) = (merchant(store).await, merchant(store).await);
    let mut expected = Vec::new();
    for number in 0..5 {
        let row = payment(owner, &format!("pix {number}"), at(1));
        create(store, std::slice::from_ref(&row)).await;
        let mut steps = Vec::new();
        for step_number in 1..=number {
            steps.push(step(store, &row, step_number).await);
        }
        let mut operations = Vec::new();
        for kind in [OperationKind::Conversion, OperationKind::Payout] {
            let asked = operation(owner, row.payment_id, kind, 1);
            prepare(store, &asked).await.unwrap();
            operations.push(asked);
        }
        let told = completed(&row);
        let is_settled = number % 2 == 0;
        if is_settled {
            record(store, std::slice::from_ref(&told)).await;
        }
        let told = is_settled.then(|| told.record.as_str().to_owned());
        expected.push(AuditedPayment { payment: row, steps, operations, settlement: told });
    }
    create(store, &[payment(other, "pix", at(1))]).await;
    expected.sort_by_key(|audited| audited.payment.payment_id);
    let mut audit = store.balance_audit(owner, at(10)).await.unwrap();
    let mut found = Vec::new();
    let mut after: Option<PaymentId> = None;
    loop {
        let mut page = audit.payments(after, 2).await.unwrap();
        assert!(page.len() <= 2);
        let Some(last) = page.last() else { break };
        after = Some(last.payment.payment_id);
        for row in page.iter_mut().flat_map(|audited| &mut audited.operations) {
            row.age = std::time::Duration::ZERO;
        }
        found.extend(page);
    }
    assert_eq!(found, expected);
}
