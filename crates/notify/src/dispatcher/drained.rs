//! Merchants that count as due and may have nothing left.
//!
//! The time at which a merchant counts as due is not written for every delivery that is sent, so it may lag
//! behind, and stays when the last delivery is sent. A merchant that has counted as due for longer than the
//! lag allows is suspected; a claim that finds nothing of it, while nothing of it is under way, proves it
//! drained, and a call to the database then finds out anew when it is due.

use std::collections::BTreeSet;

use settle_domain::ids::MerchantId;

/// Suspected merchants, and those that are proven.
#[derive(Debug, Default)]
pub(super) struct Drained {
    suspected: BTreeSet<MerchantId>,
    proven: BTreeSet<MerchantId>,
}

impl Drained {
    pub(super) fn suspect(&mut self, merchant: MerchantId) {
        self.suspected.insert(merchant);
    }

    /// A claim of this merchant has ended. Whoever has nothing under way then, and was suspected, is drained.
    pub(super) fn claimed(&mut self, merchant: MerchantId, has_work: bool) {
        if self.suspected.remove(&merchant) && !has_work {
            self.proven.insert(merchant);
        }
    }

    /// Forgets suspicions about merchants that this process does not serve any more.
    pub(super) fn retain(&mut self, is_served: impl Fn(MerchantId) -> bool) {
        self.suspected.retain(|merchant| is_served(*merchant));
    }

    pub(super) fn is_any_proven(&self) -> bool {
        !self.proven.is_empty()
    }

    /// The drained merchants; they are forgotten here. If the call fails the next look finds them again.
    pub(super) fn take(&mut self) -> Vec<MerchantId> {
        std::mem::take(&mut self.proven).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn only_a_suspect_of_whom_nothing_is_found_is_drained() {
        let merchant = |number| MerchantId(Uuid::from_u128(number));
        let mut drained = Drained::default();
        drained.claimed(merchant(1), false);
        assert!(!drained.is_any_proven(), "nobody suspected it");
        for number in 1..=3 {
            drained.suspect(merchant(number));
        }
        drained.claimed(merchant(1), true);
        drained.claimed(merchant(2), false);
        drained.retain(|served| served != merchant(3));
        drained.claimed(merchant(3), false);
        assert_eq!(drained.take(), [merchant(2)]);
        assert!(!drained.is_any_proven());
        drained.claimed(merchant(1), false);
        assert!(!drained.is_any_proven(), "it must be suspected anew");
    }
}
