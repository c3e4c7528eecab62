//! Balances: what is on each account of a merchant. Every posting of a step changes one.
//!
//! An [`Audit`] reads a merchant's books and all that they must agree with as of one moment, in pages: nobody
//! waits for it, and what is committed meanwhile does not look like a fault.

use std::collections::BTreeMap;

use async_trait::async_trait;
use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::ledger::{Account, Posting, Postings, SignedAmount};
use settle_domain::money::Asset;
use settle_domain::time::Timestamp;

use crate::{MerchantLock, OperationRow, PaymentRow, StepRow, StoreError, StoreResult};

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

/// A payment with everything that the books must agree with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedPayment {
    /// The payment.
    pub payment: PaymentRow,
    /// Its timeline, first step first.
    pub steps: Vec<StepRow>,
    /// What was asked of providers for it, by kind and attempt.
    pub operations: Vec<OperationRow>,
    /// The record of its settlement, as JSON.
    pub settlement: Option<String>,
}

/// A merchant's books as of the moment of the first question. Drop it soon: it keeps a connection.
#[async_trait]
pub trait Audit: Send {
    /// All accounts of the merchant.
    async fn balances(&mut self) -> StoreResult<Vec<Balance>>;

    /// Its payments in the order of their ids, after the given one.
    async fn payments(&mut self, after: Option<PaymentId>, limit: u32) -> StoreResult<Vec<AuditedPayment>>;
}

/// Gives steps and operations to their payments, all in the order of the payments' ids: for the backends.
#[must_use]
pub fn audited(
    payments: Vec<(PaymentRow, Option<String>)>,
    steps: Vec<StepRow>,
    operations: Vec<OperationRow>,
) -> Vec<AuditedPayment> {
    let (mut steps, mut operations) = (steps.into_iter().peekable(), operations.into_iter().peekable());
    let mut audited = Vec::with_capacity(payments.len());
    for (payment, settlement) in payments {
        let (mut own_steps, mut own_operations) = (Vec::new(), Vec::new());
        while let Some(step) = steps.next_if(|step| step.payment_id == payment.payment_id) {
            own_steps.push(step);
        }
        while let Some(row) = operations.next_if(|row| row.payment_id == payment.payment_id) {
            own_operations.push(row);
        }
        audited.push(AuditedPayment { payment, steps: own_steps, operations: own_operations, settlement });
    }
    audited
}

/// Questions about balances.
#[async_trait]
pub trait BalanceReads {
    /// All accounts of a merchant.
    async fn balance_of(&self, merchant: MerchantId) -> StoreResult<Vec<Balance>>;

    /// Accounts of all merchants, by merchant and account, after those of the given one.
    async fn balance_list(&self, after: Option<MerchantId>, merchants: u32) -> StoreResult<Vec<Balance>>;

    /// A merchant's books as of one moment. Ages of operations count until `now` where the database has no
    /// clock of its own.
    async fn balance_audit(&self, merchant: MerchantId, now: Timestamp) -> StoreResult<Box<dyn Audit>>;
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
