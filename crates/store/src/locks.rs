//! The proof that a transaction holds the locks of merchants.
//!
//! [`merchant_lock`](crate::MerchantWrites::merchant_lock) gives the proof, and every write that relies on
//! the lock takes it: a caller who forgets to lock does not compile. Before it writes, a backend checks that
//! the proof comes from its own transaction and covers every merchant it writes for.

use std::sync::atomic::{AtomicU64, Ordering};

use settle_domain::ids::MerchantId;

use crate::{StoreError, StoreResult};

/// The number of a transaction, unique in this process.
#[derive(Debug, PartialEq, Eq)]
pub struct TxNumber(u64);

impl TxNumber {
    /// A new number. A backend takes one for each transaction and shows it to nobody.
    #[must_use]
    pub fn next() -> TxNumber {
        static LAST: AtomicU64 = AtomicU64::new(0);
        TxNumber(LAST.fetch_add(1, Ordering::Relaxed))
    }

    /// The proof for the locks that this transaction has just taken.
    #[must_use]
    pub fn locked(&self, mut merchants: Vec<MerchantId>) -> MerchantLock {
        merchants.sort_unstable();
        merchants.dedup();
        MerchantLock { transaction: self.0, merchants }
    }

    /// Refuses a proof that comes from another transaction or leaves out one of the given merchants.
    pub fn check(
        &self,
        lock: &MerchantLock,
        merchants: impl IntoIterator<Item = MerchantId>,
    ) -> StoreResult<()> {
        let is_own = lock.transaction == self.0;
        // Rows of one merchant are mostly neighbours, so only the first of them is looked up.
        let mut last = None;
        for merchant in merchants {
            if is_own && (last == Some(merchant) || lock.holds(merchant)) {
                last = Some(merchant);
                continue;
            }
            return Err(StoreError::unexpected(format!(
                "a write for merchant {merchant}, whose lock this transaction has not shown"
            )));
        }
        Ok(())
    }
}

impl TxNumber {
    /// The same where there may be no lock: nothing of a merchant's may be written then.
    pub fn check_any(
        &self,
        lock: Option<&MerchantLock>,
        merchants: impl IntoIterator<Item = MerchantId>,
    ) -> StoreResult<()> {
        match lock {
            Some(lock) => self.check(lock, merchants),
            None => self.check(&self.locked(Vec::new()), merchants),
        }
    }
}

/// The merchants whose locks a transaction holds until it ends. Only a [`TxNumber`] makes one, and only the
/// backend has that.
#[derive(Debug)]
pub struct MerchantLock {
    transaction: u64,
    /// In the order of their ids.
    merchants: Vec<MerchantId>,
}

impl MerchantLock {
    /// The merchants, each once, in the order of their ids.
    #[must_use]
    pub fn merchants(&self) -> &[MerchantId] {
        &self.merchants
    }

    /// Whether it covers this merchant.
    #[must_use]
    pub fn holds(&self, merchant: MerchantId) -> bool {
        self.merchants.binary_search(&merchant).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_lock_is_of_its_transaction_and_its_merchants() {
        let [one, two, three] = [1, 2, 3].map(|number| MerchantId(Uuid::from_u128(number)));
        let (own, other) = (TxNumber::next(), TxNumber::next());
        let lock = own.locked(vec![two, one, two]);
        assert_eq!(lock.merchants(), [one, two]);
        assert!(own.check(&lock, [one, one, two, one]).is_ok());
        assert!(other.check(&lock, []).is_ok(), "nothing is written");
        for (transaction, merchants) in [(&own, vec![one, three, two]), (&other, vec![one])] {
            let refused = transaction.check(&lock, merchants.clone());
            let Err(StoreError::Unexpected(cause)) = refused else {
                panic!("{merchants:?}: {refused:?}");
            };
            assert!(merchants.iter().any(|merchant| cause.to_string().contains(&merchant.to_string())));
        }
    }
}
