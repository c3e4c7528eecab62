//! Balances: the exact sum of all postings.

use settle_domain::ids::MerchantId;
use settle_domain::ledger::{Account, Postings};
use settle_domain::money::Asset;

use super::fixtures::merchant;
use crate::{Balance, Store};

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
