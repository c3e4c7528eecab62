//! The examination of one merchant's books: pure, over what was read of them.

use std::collections::BTreeMap;

use serde::Deserialize;
use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::ledger::{Account, Posting, SignedAmount};
use settle_domain::money::{Asset, Decimal};
use settle_domain::operation::{OperationKind, OperationRequest, OperationStatus};
use settle_domain::payment::PaymentState;
use settle_store::{AuditedPayment, Balance, StoreError, StoreResult};

use super::{Checked, Disagreement, Equation, TOLD_MAX};
use crate::case::Case;

/// Amounts by account and asset.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums(BTreeMap<(Account, Asset), SignedAmount>);

impl Sums {
    pub(super) fn add(&mut self, account: Account, asset: Asset, amount: SignedAmount) -> StoreResult<()> {
        let too_many = || StoreError::unexpected(format!("{account} {asset}: a sum has too many digits"));
        let amount = amount.at_scale(asset).ok_or_else(too_many)?;
        let sum = self.0.entry((account, asset)).or_insert_with(|| SignedAmount::zero(asset));
        *sum = sum.plus(amount).ok_or_else(too_many)?;
        Ok(())
    }

    pub(super) fn into_rows(self) -> Vec<(Account, Asset, SignedAmount)> {
        self.0.into_iter().map(|((account, asset), amount)| (account, asset, amount)).collect()
    }

    fn of(&self, account: Account, asset: Asset) -> SignedAmount {
        self.0.get(&(account, asset)).copied().unwrap_or_else(|| SignedAmount::zero(asset))
    }

    /// The sum of all accounts of an asset, for each asset.
    fn totals(&self) -> StoreResult<BTreeMap<Asset, SignedAmount>> {
        let mut totals: BTreeMap<Asset, SignedAmount> = BTreeMap::new();
        for ((_, asset), amount) in &self.0 {
            let too_many = || StoreError::unexpected(format!("{asset}: a sum has too many digits"));
            let total = totals.entry(*asset).or_insert_with(|| SignedAmount::zero(*asset));
            *total = total.plus(*amount).ok_or_else(too_many)?;
        }
        Ok(totals)
    }
}

/// What a step has posted, whether it balances or not.
#[derive(Deserialize)]
struct StoredPostings {
    postings: Vec<Posting>,
}

/// What a settlement says was paid.
#[derive(Deserialize)]
struct StoredPaid {
    outgoing_currency: Asset,
    outgoing_amount: Decimal,
}

pub(super) struct Examination {
    merchant_id: MerchantId,
    balances: Sums,
    timelines: Sums,
    checked: Checked,
}

impl Examination {
    pub(super) fn of(merchant_id: MerchantId, balances: Vec<Balance>) -> Examination {
        let balances = balances.into_iter().map(|row| ((row.account, row.asset), row.amount)).collect();
        let checked = Checked { merchants: 1, ..Checked::default() };
        Examination { merchant_id, balances: Sums(balances), timelines: Sums::default(), checked }
    }

    /// Examines a payment by itself.
    pub(super) fn examine(&mut self, audited: AuditedPayment) -> StoreResult<()> {
        self.checked.payments += 1;
        let AuditedPayment { payment, steps, operations, settlement } = audited;
        let id = payment.payment_id;
        let mut own = Sums::default();
        for step in &steps {
            let lines = match serde_json::from_str::<StoredPostings>(&step.step) {
                Ok(stored) => stored.postings,
                Err(fault) => {
                    self.unreadable(id, format!("step {}", step.number), fault.to_string());
                    continue;
                }
            };
            let mut posted = Sums::default();
            for Posting { account, asset, amount } in lines {
                own.add(account, asset, amount)?;
                posted.add(account, asset, amount)?;
                self.timelines.add(account, asset, amount)?;
            }
            for (asset, total) in posted.totals()?.into_iter().filter(|(_, total)| !total.is_zero()) {
                self.found(Some(id), Equation::Zero, None, asset, total, SignedAmount::zero(asset));
            }
        }
        let case = match Case::read(payment, None, operations) {
            Ok(case) => case,
            Err(fault) => {
                self.unreadable(id, "the payment".to_owned(), fault.to_string());
                return Ok(());
            }
        };
        self.in_flight(&case, &own)?;
        self.exchanged(&case, &own)?;
        let paid = match settlement.as_deref().map(serde_json::from_str::<StoredPaid>).transpose() {
            Ok(paid) => paid,
            Err(fault) => {
                self.unreadable(id, "its settlement".to_owned(), fault.to_string());
                return Ok(());
            }
        };
        self.paid(&case, &own, paid.as_ref())?;
        self.refunded(&case, &own, paid.is_some())
    }

    /// What is in flight is what open operations move. One whose outcome is known but has not reached the
    /// payment yet is in flight all the same.
    fn in_flight(&mut self, case: &Case, own: &Sums) -> StoreResult<()> {
        let awaited = case.awaited();
        let mut moved = Sums::default();
        for (place, tracked) in case.operations.iter().enumerate() {
            let is_open = tracked.operation.memory.status.is_open() && tracked.is_live();
            if is_open || awaited == Some(place) {
                let request = &tracked.operation.request;
                let (asset, amount) = request.outlay();
                let account = match request.kind() {
                    OperationKind::Conversion => Account::Converting,
                    OperationKind::Payout => Account::PayingOut,
                    OperationKind::Refund => Account::Refunding,
                };
                moved.add(account, asset, signed(amount)?)?;
            }
        }
        let accounts = [Account::Converting, Account::PayingOut, Account::Refunding];
        self.compare(case, Equation::InFlight, &accounts, own, &moved);
        Ok(())
    }

    /// What was exchanged is what succeeded conversions sold and bought, also late ones.
    fn exchanged(&mut self, case: &Case, own: &Sums) -> StoreResult<()> {
        let awaited = case.awaited();
        let mut exchanged = Sums::default();
        for (place, tracked) in case.operations.iter().enumerate() {
            let operation = &tracked.operation;
            let OperationRequest::Conversion { sell, sell_amount, buy, .. } = &operation.request else {
                continue;
            };
            if operation.memory.status != OperationStatus::Succeeded || awaited == Some(place) {
                continue;
            }
            let bought = operation.bought_amount.unwrap_or(Decimal::ZERO);
            exchanged.add(Account::Exchange, *sell, signed(*sell_amount)?)?;
            exchanged.add(Account::Exchange, *buy, signed(bought)?.negated())?;
        }
        self.compare(case, Equation::Exchanged, &[Account::Exchange], own, &exchanged);
        Ok(())
    }

    /// What was paid is the settlement's amount, also if it came back later.
    fn paid(&mut self, case: &Case, own: &Sums, settlement: Option<&StoredPaid>) -> StoreResult<()> {
        let (mut stands, mut told) = (Sums::default(), Sums::default());
        for ((account, asset), amount) in &own.0 {
            let is_paid = *account == Account::Paid || settlement.is_some() && *account == Account::Returned;
            if is_paid {
                stands.add(Account::Paid, *asset, *amount)?;
            }
        }
        if let Some(StoredPaid { outgoing_currency, outgoing_amount }) = settlement {
            told.add(Account::Paid, *outgoing_currency, signed(*outgoing_amount)?)?;
        }
        self.compare(case, Equation::Paid, &[Account::Paid], &stands, &told);
        Ok(())
    }

    /// What was paid back is what came in, also if it came back later.
    fn refunded(&mut self, case: &Case, own: &Sums, is_settled: bool) -> StoreResult<()> {
        let (mut stands, mut told) = (Sums::default(), Sums::default());
        for ((account, asset), amount) in &own.0 {
            let is_refunded = *account == Account::Refunded || !is_settled && *account == Account::Returned;
            if is_refunded {
                stands.add(Account::Refunded, *asset, *amount)?;
            }
        }
        if matches!(case.payment.state, PaymentState::Refunded { .. }) {
            let order = &case.payment.order;
            told.add(Account::Refunded, order.incoming, signed(order.incoming_amount)?)?;
        }
        self.compare(case, Equation::Refunded, &[Account::Refunded], &stands, &told);
        Ok(())
    }

    /// The merchant as a whole, once all its payments have been examined.
    pub(super) fn finish(mut self) -> StoreResult<Checked> {
        let (balances, timelines) = (std::mem::take(&mut self.balances), std::mem::take(&mut self.timelines));
        for (asset, total) in balances.totals()?.into_iter().filter(|(_, total)| !total.is_zero()) {
            self.found(None, Equation::Zero, None, asset, total, SignedAmount::zero(asset));
        }
        for ((account, asset), amount) in &balances.0 {
            if amount.is_negative() && !account.may_be_negative() {
                let zero = SignedAmount::zero(*asset);
                self.found(None, Equation::NotNegative, Some(*account), *asset, *amount, zero);
            }
        }
        for (account, asset) in differing(&balances, &timelines, Account::ALL) {
            let (stands, told) = (balances.of(account, asset), timelines.of(account, asset));
            self.found(None, Equation::Timeline, Some(account), asset, stands, told);
        }
        Ok(self.checked)
    }

    fn compare(&mut self, case: &Case, equation: Equation, accounts: &[Account], own: &Sums, told: &Sums) {
        for (account, asset) in differing(own, told, accounts) {
            let (stands, told) = (own.of(account, asset), told.of(account, asset));
            self.found(Some(case.payment.payment_id), equation, Some(account), asset, stands, told);
        }
    }

    fn found(
        &mut self,
        payment_id: Option<PaymentId>,
        equation: Equation,
        account: Option<Account>,
        asset: Asset,
        stands: SignedAmount,
        expected: SignedAmount,
    ) {
        self.tell(Disagreement {
            merchant_id: self.merchant_id,
            payment_id,
            equation,
            account,
            asset: Some(asset),
            stands: stands.to_string(),
            expected: expected.to_string(),
        });
    }

    fn unreadable(&mut self, payment_id: PaymentId, what: String, fault: String) {
        self.tell(Disagreement {
            merchant_id: self.merchant_id,
            payment_id: Some(payment_id),
            equation: Equation::Readable,
            account: None,
            asset: None,
            stands: what,
            expected: fault,
        });
    }

    fn tell(&mut self, disagreement: Disagreement) {
        self.checked.found += 1;
        if self.checked.disagreements.len() < TOLD_MAX {
            self.checked.disagreements.push(disagreement);
        }
    }
}

/// Where two sums differ, on the given accounts.
fn differing(one: &Sums, other: &Sums, accounts: &[Account]) -> Vec<(Account, Asset)> {
    let mut keys: Vec<(Account, Asset)> = one.0.keys().chain(other.0.keys()).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    keys.retain(|(account, asset)| {
        accounts.contains(account) && one.of(*account, *asset) != other.of(*account, *asset)
    });
    keys
}

fn signed(amount: Decimal) -> StoreResult<SignedAmount> {
    SignedAmount::of(amount).ok_or_else(|| StoreError::unexpected("an amount has too many digits"))
}
