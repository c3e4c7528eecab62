//! The books: accounts, and postings that sum to zero in each asset because they cannot be built otherwise.
//!
//! Every account is one merchant's. A balance is the sum of its postings; the house's figures are sums over
//! the merchants. Postings are the one place where an amount has a sign.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::money::{Asset, Decimal};

mod account;
mod movement;
mod signed;
#[cfg(test)]
mod tests;

pub use account::Account;
pub use movement::{Books, Held, Late, Movement, excess, postings};
pub use signed::{SignedAmount, SignedAmountFault};

/// Why there are no postings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PostingFault {
    /// An amount does not fit its asset, or a sum has too many digits.
    #[error("an amount does not fit {0}")]
    OutOfRange(Asset),
    /// The postings of an asset do not sum to zero.
    #[error("the postings of {0} do not sum to zero")]
    Unbalanced(Asset),
    /// The payment has no frozen amounts, or no conversion, that the movement could post.
    #[error("the payment has no amounts for this movement")]
    AmountsMissing,
    /// Less was moved than the payment owes.
    #[error("less was moved than the {0} that are owed")]
    TooLittle(Decimal),
}

/// One line of the books.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Posting {
    /// The account.
    pub account: Account,
    /// The asset.
    pub asset: Asset,
    /// How much more, or less, the account has now.
    pub amount: SignedAmount,
}

/// The postings of one step: at most one line an account and asset, none of them zero, in the order of
/// accounts, and zero in sum in each asset.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Postings(Vec<Posting>);

impl Postings {
    /// No money moves.
    #[must_use]
    pub const fn none() -> Postings {
        Postings(Vec::new())
    }

    /// The lines.
    #[must_use]
    pub fn lines(&self) -> &[Posting] {
        &self.0
    }

    /// These postings, and an amount that goes from one account to another. There is no other way to add a
    /// line than to take the same amount from somewhere.
    pub fn and(
        self,
        asset: Asset,
        from: Account,
        to: Account,
        amount: Decimal,
    ) -> Result<Postings, PostingFault> {
        let out_of_range = PostingFault::OutOfRange(asset);
        let amount = asset.amount(amount).and_then(SignedAmount::of).ok_or(out_of_range)?;
        let line = |account, amount| Posting { account, asset, amount };
        Self::sum(self.0.into_iter().chain([line(from, amount.negated()), line(to, amount)]))
    }

    /// Both.
    pub fn merged(self, other: Postings) -> Result<Postings, PostingFault> {
        Self::sum(self.0.into_iter().chain(other.0))
    }

    /// Lines from outside: they must sum to zero in each asset.
    pub fn from_lines(lines: impl IntoIterator<Item = Posting>) -> Result<Postings, PostingFault> {
        let postings = Self::sum(lines)?;
        for asset in Asset::ALL {
            let amounts = postings.0.iter().filter(|line| line.asset == asset).map(|line| line.amount);
            let zero = SignedAmount::zero(asset);
            let sum = amounts.into_iter().try_fold(zero, SignedAmount::plus);
            match sum {
                Some(sum) if sum == zero => {}
                Some(_) => return Err(PostingFault::Unbalanced(asset)),
                None => return Err(PostingFault::OutOfRange(asset)),
            }
        }
        Ok(postings)
    }

    fn sum(lines: impl IntoIterator<Item = Posting>) -> Result<Postings, PostingFault> {
        let mut sums: BTreeMap<(Account, Asset), SignedAmount> = BTreeMap::new();
        for Posting { account, asset, amount } in lines {
            let out_of_range = PostingFault::OutOfRange(asset);
            let amount = amount.at_scale(asset).ok_or(out_of_range)?;
            let sum = sums.entry((account, asset)).or_insert_with(|| SignedAmount::zero(asset));
            *sum = sum.plus(amount).ok_or(out_of_range)?;
        }
        let lines = sums.into_iter().filter(|(_, amount)| !amount.is_zero());
        Ok(Postings(lines.map(|((account, asset), amount)| Posting { account, asset, amount }).collect()))
    }
}

/// A stored row that does not balance is refused, not believed.
impl<'de> Deserialize<'de> for Postings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Postings, D::Error> {
        Postings::from_lines(Vec::<Posting>::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}
