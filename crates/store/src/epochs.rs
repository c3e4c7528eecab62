//! How often a merchant has cleared its endpoint: its epoch.
//!
//! A delivery carries the epoch in which it became pending, and its merchant's row the present one. Clearing
//! an endpoint raises the merchant's epoch: from that moment no claim finds the deliveries that waited for
//! it, however many there are, and no outcome of an attempt at one of them is recorded. The queue's index has
//! the epoch before the time, so a claim never walks over what an earlier epoch left.

use std::collections::HashMap;

use settle_domain::ids::MerchantId;

use crate::{StoreError, StoreResult};

/// The present epochs of the merchants that a transaction has locked: nobody else can raise them until it
/// ends.
#[derive(Debug, Default)]
pub struct Epochs(HashMap<MerchantId, i32>);

impl Epochs {
    /// Remembers a merchant's epoch: read with its lock, or just raised.
    pub fn remember(&mut self, merchant: MerchantId, epoch: i32) {
        self.0.insert(merchant, epoch);
    }

    /// The epoch of each of the given merchants, in the order given.
    pub fn of_each(&self, merchants: impl IntoIterator<Item = MerchantId>) -> StoreResult<Vec<i32>> {
        let epoch = |merchant| {
            let unknown = || StoreError::unexpected(format!("merchant {merchant} is not locked"));
            self.0.get(&merchant).copied().ok_or_else(unknown)
        };
        merchants.into_iter().map(epoch).collect()
    }

    /// The epoch of one merchant.
    pub fn of(&self, merchant: MerchantId) -> StoreResult<i32> {
        Ok(self.of_each([merchant])?[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn only_locked_merchants_have_one() {
        let [one, two, three] = [1, 2, 3].map(|number| MerchantId(Uuid::from_u128(number)));
        let mut epochs = Epochs::default();
        epochs.remember(one, 7);
        epochs.remember(two, 0);
        epochs.remember(one, 8);
        assert_eq!(epochs.of_each([two, one, two]).unwrap(), [0, 8, 0]);
        assert!(matches!(epochs.of(three), Err(StoreError::Unexpected(_))));
    }
}
