//! Balances: what is on each account of a merchant. Every posting of a step changes one.

use std::collections::BTreeMap;

use async_trait::async_trait;
use settle_domain::ids::MerchantId;
use settle_domain::ledger::{Account, Posting, Postings, SignedAmount};
use settle_domain::money::Asset;

use crate::{MerchantLock, StoreError, StoreResult};

/// What is on an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balance {
    /// Whose account.
    pub merchant_id: MerchantId,
    /// Which account.
    pub account: Account,
    /// Of what.
    pub asset: Asset,
    /// How much.
    pub amount: SignedAmount,
}

/// The sum of many postings, each account once, in the order of merchants and accounts: for the backends.
pub fn sum_postings(postings: &[(MerchantId, Postings)]) -> StoreResult<Vec<Balance>> {
    let mut sums: BTreeMap<(MerchantId, Account, Asset), SignedAmount> = BTreeMap::new();
    for (merchant, postings) in postings {
        for Posting { account, asset, amount } in postings.lines() {
            let sum = sums.entry((*merchant, *account, *asset)).or_insert_with(|| SignedAmount::zero(*asset));
            let too_many = || StoreError::unexpected("a sum of postings has too many digits");
            *sum = sum.plus(*amount).ok_or_else(too_many)?;
        }
    }
    let changed = sums.into_iter().filter(|(_, amount)| !amount.is_zero());
    Ok(changed
        .map(|((merchant_id, account, asset), amount)| Balance { merchant_id, account, asset, amount })
        .collect())
}

/// Questions about balances.
#[async_trait]
pub trait BalanceReads {
    /// All accounts of a merchant.
    async fn balance_of(&self, merchant: MerchantId) -> StoreResult<Vec<Balance>>;

    /// Accounts of all merchants, by merchant and account, after those of the given one.
    async fn balance_list(&self, after: Option<MerchantId>, merchants: u32) -> StoreResult<Vec<Balance>>;
}

/// Changes to balances.
#[async_trait]
pub trait BalanceWrites {
    /// Adds postings to the accounts of their merchants.
    async fn balance_post_many(
        &mut self,
        lock: &MerchantLock,
        postings: &[(MerchantId, Postings)],
    ) -> StoreResult<()>;
}
