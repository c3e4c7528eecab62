//! The proof that a transaction holds merchants' locks: whoever writes for a merchant shows it.
//!
//! [`merchant_lock`](crate::MerchantWrites::merchant_lock) gives it, and every write that relies on the lock
//! takes it, so that a caller who forgets to lock does not compile. A backend looks at the rest before it
//! writes: that the proof is of its own transaction, and that it covers every merchant it writes for.

use std::sync::atomic::{AtomicU64, Ordering};

use settle_domain::ids::MerchantId;

use crate::{StoreError, StoreResult};

/// Which transaction: a number that no other one of this process has.
#[derive(Debug, PartialEq, Eq)]
pub struct TxNumber(u64);

impl TxNumber {
    /// The number of a transaction that begins. A backend takes one for each and shows it to nobody.
    #[must_use]
    pub fn next() -> TxNumber {
        static LAST: AtomicU64 = AtomicU64::new(0);
        TxNumber(LAST.fetch_add(1, Ordering::Relaxed))
    }

    /// The lock that this transaction has just taken on the given merchants.
    #[must_use]
    pub fn locked(&self, mut merchants: Vec<MerchantId>) -> MerchantLock {
        merchants.sort_unstable();
        merchants.dedup();
        MerchantLock { transaction: self.0, merchants }
    }

    /// Refuses a lock that another transaction has taken, or that leaves out one of the given merchants.
    pub fn check(
        &self,
        lock: &MerchantLock,
        merchants: impl IntoIterator<Item = MerchantId>,
    ) -> StoreResult<()> {
        let is_own = lock.transaction == self.0;
        // Rows of one merchant mostly stand together: those after the first are not looked up.
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

/// The merchants whose lock a transaction holds until it ends. Only the number of a transaction makes one, and
/// only the backend has that.
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

    /// Whether this merchant is among them.
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
