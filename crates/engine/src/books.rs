//! Whether the books agree: with themselves, with the timelines, with what was asked of providers, and with
//! the settlements.
//!
//! A merchant is read as of one moment, in pages, so that what goes on meanwhile is no fault. Every payment
//! must agree by itself, which is more than that their sums do: two faults that cancel out are two faults.
//!
//! | equation | what must be equal |
//! |---|---|
//! | [`Equation::Zero`] | the postings of a step, and the balances of a merchant, sum to zero in each asset |
//! | [`Equation::NotNegative`] | nothing is negative but payer, exchange and the house's own accounts |
//! | [`Equation::Timeline`] | a balance is the sum of the postings in the timelines |
//! | [`Equation::InFlight`] | converting, `paying_out` and refunding are what open operations move |
//! | [`Equation::Exchanged`] | exchange is what succeeded conversions sold and bought |
//! | [`Equation::Paid`] | paid, with what came back, is the settlement's outgoing amount |
//! | [`Equation::Refunded`] | refunded, with what came back, is what came in |
//! | [`Equation::Readable`] | what is stored can be read |

use std::fmt;

use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::ledger::{Account, SignedAmount};
use settle_domain::money::Asset;
use settle_domain::seams::Clock;
use settle_store::{Balance, CALL_TIMEOUT, Store, StoreError, StoreResult, within};

mod examination;
#[cfg(test)]
mod tests;

use examination::{Examination, Sums};

/// Merchants that are listed at once.
const MERCHANTS_A_PAGE: u32 = 100;
/// Payments that are read at once.
const PAYMENTS_A_PAGE: u32 = 200;
/// Disagreements that are told of one merchant; further ones are only counted.
const TOLD_MAX: usize = 100;

/// What must be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Equation {
    /// Postings and balances sum to zero.
    Zero,
    /// The account may not be negative.
    NotNegative,
    /// The balance is the sum of the timelines.
    Timeline,
    /// What is in flight is what open operations move.
    InFlight,
    /// What was exchanged is what succeeded conversions sold and bought.
    Exchanged,
    /// What was paid is the settlement's amount.
    Paid,
    /// What was refunded is what came in.
    Refunded,
    /// What is stored can be read.
    Readable,
}

impl Equation {
    /// What the second figure of a disagreement is.
    const fn other_side(self) -> &'static str {
        match self {
            Equation::Zero => "must sum to",
            Equation::NotNegative => "may not be less than",
            Equation::Timeline => "but the timelines say",
            Equation::InFlight => "but open operations move",
            Equation::Exchanged => "but succeeded conversions moved",
            Equation::Paid => "but the settlement says",
            Equation::Refunded => "but what was to be paid back is",
            Equation::Readable => "but cannot be read:",
        }
    }
}

/// Two figures that should be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement {
    /// Whose books.
    pub merchant_id: MerchantId,
    /// Of which payment, if it is one payment's.
    pub payment_id: Option<PaymentId>,
    /// What does not hold.
    pub equation: Equation,
    /// On which account; `None` where it is the sum of all.
    pub account: Option<Account>,
    /// Of what.
    pub asset: Option<Asset>,
    /// What the books say.
    pub stands: String,
    /// What the other side says.
    pub expected: String,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "merchant {}", self.merchant_id)?;
        if let Some(payment) = self.payment_id {
            write!(formatter, ", payment {payment}")?;
        }
        let account = self.account.map_or("all accounts", Account::as_str);
        write!(formatter, ": {account}")?;
        if let Some(asset) = self.asset {
            write!(formatter, " {asset}")?;
        }
        write!(formatter, ": the books say {}, {} {}", self.stands, self.equation.other_side(), self.expected)
    }
}

/// What was looked at, and what does not agree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// How many merchants.
    pub merchants: u64,
    /// How many payments.
    pub payments: u64,
    /// How much does not agree.
    pub found: u64,
    /// What does not agree: of each merchant the first hundred.
    pub disagreements: Vec<Disagreement>,
}

/// Checks the books of all merchants, one after the other.
pub async fn check(store: &dyn Store, clock: &dyn Clock) -> StoreResult<Checked> {
    let mut checked = Checked::default();
    let mut after = None;
    loop {
        let merchants = within(CALL_TIMEOUT, store.merchant_list(after, MERCHANTS_A_PAGE)).await?;
        let Some(last) = merchants.last() else { return Ok(checked) };
        after = Some(last.merchant_id);
        for merchant in &merchants {
            let own = check_merchant(store, clock, merchant.merchant_id).await?;
            checked.merchants += own.merchants;
            checked.payments += own.payments;
            checked.found += own.found;
            checked.disagreements.extend(own.disagreements);
        }
    }
}

/// Checks the books of one merchant. Books that cannot be read do not agree: they keep nobody from checking
/// the next.
pub async fn check_merchant(
    store: &dyn Store,
    clock: &dyn Clock,
    merchant: MerchantId,
) -> StoreResult<Checked> {
    match examined(store, clock, merchant).await {
        Err(StoreError::Unexpected(fault)) => Ok(Checked {
            merchants: 1,
            found: 1,
            disagreements: vec![Disagreement {
                merchant_id: merchant,
                payment_id: None,
                equation: Equation::Readable,
                account: None,
                asset: None,
                stands: "something".to_owned(),
                expected: fault.to_string(),
            }],
            ..Checked::default()
        }),
        checked => checked,
    }
}

async fn examined(store: &dyn Store, clock: &dyn Clock, merchant: MerchantId) -> StoreResult<Checked> {
    let mut audit = within(CALL_TIMEOUT, store.balance_audit(merchant, clock.now())).await?;
    let mut examination = Examination::of(merchant, within(CALL_TIMEOUT, audit.balances()).await?);
    let mut after = None;
    loop {
        let page = within(CALL_TIMEOUT, audit.payments(after, PAYMENTS_A_PAGE)).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.payment.payment_id);
        for payment in page {
            examination.examine(payment)?;
        }
        // Reading a page may take no wait at all, and the check has time.
        tokio::task::yield_now().await;
    }
    drop(audit);
    examination.finish()
}

/// Sums of balances by account and asset: of one merchant, or of the whole house.
pub async fn balances(
    store: &dyn Store,
    merchant: Option<MerchantId>,
) -> StoreResult<Vec<(Account, Asset, SignedAmount)>> {
    let mut sums = Sums::default();
    if let Some(merchant) = merchant {
        for balance in within(CALL_TIMEOUT, store.balance_of(merchant)).await? {
            sums.add(balance.account, balance.asset, balance.amount)?;
        }
        return Ok(sums.into_rows());
    }
    let mut after = None;
    loop {
        let page: Vec<Balance> = within(CALL_TIMEOUT, store.balance_list(after, MERCHANTS_A_PAGE)).await?;
        let Some(last) = page.last() else { return Ok(sums.into_rows()) };
        after = Some(last.merchant_id);
        for balance in page {
            sums.add(balance.account, balance.asset, balance.amount)?;
        }
    }
}
