//! Completed settlements: written once, never changed, listed newest first.
//!
//! A list answers page and exact total at a cost that does not grow with the merchant's history: the total is
//! kept where rows are written, and deep pages are found as [`slices`](crate::slices) says.

use std::collections::HashMap;

use async_trait::async_trait;
use settle_domain::ids::{MerchantId, SettlementId};
use settle_domain::page::PageRequest;
use settle_domain::pricing::InternalPricing;
use settle_domain::settlement::{CompletedSettlement, Record, RecordPage};
use settle_domain::time::Timestamp;

use crate::{MerchantLock, StoreResult};

/// Settlements in one call of [`SettlementWrites::settlement_record_many`], at most.
pub const BATCH_MAX: usize = 1_000;
/// Where a settlement stands in its merchant's list: bytes that compare like `(listed_at, settlement_id)`.
///
/// One value instead of two makes a range of the list one comparison, in both databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListKey([u8; 24]);

impl ListKey {
    /// The key of a settlement.
    #[must_use]
    pub fn new(listed_at: Timestamp, settlement: SettlementId) -> ListKey {
        let mut bytes = [0; 24];
        // With its sign bit turned over, a signed number compares as an unsigned one.
        let time = listed_at.as_micros().cast_unsigned() ^ (1 << 63);
        bytes[..8].copy_from_slice(&time.to_be_bytes());
        bytes[8..].copy_from_slice(settlement.0.as_bytes());
        ListKey(bytes)
    }

    /// The bytes to store.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 24] {
        &self.0
    }
}

/// A settlement to be stored, rendered already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSettlement {
    /// Whose it is.
    pub merchant_id: MerchantId,
    /// Which settlement.
    pub settlement_id: SettlementId,
    /// Where it stands in the list.
    pub list_key: ListKey,
    /// What the merchant sees.
    pub record: Record,
    /// What the merchant never sees.
    pub pricing: Option<InternalPricing>,
}

impl From<CompletedSettlement> for NewSettlement {
    fn from(completed: CompletedSettlement) -> NewSettlement {
        let CompletedSettlement { merchant_id, settlement, pricing } = completed;
        NewSettlement {
            merchant_id,
            settlement_id: settlement.settlement_id,
            list_key: ListKey::new(settlement.listed_at(), settlement.settlement_id),
            record: settlement.record(),
            pricing,
        }
    }
}

/// What a batch has made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedBatch {
    /// Those that were new, in the order given.
    pub recorded: Vec<(MerchantId, SettlementId)>,
    /// Those whose id the merchant already has, with other content. Whoever sees one rolls back.
    pub conflicting: Vec<(MerchantId, SettlementId)>,
}

/// A batch without repetitions: what a backend works on.
#[derive(Debug)]
pub struct SettlementBatch<'a> {
    /// Each settlement once, in the order given.
    pub unique: Vec<&'a NewSettlement>,
    /// Ids that the batch itself gives two contents.
    pub conflicting: Vec<(MerchantId, SettlementId)>,
}

impl<'a> SettlementBatch<'a> {
    /// Finds the repetitions in a batch.
    #[must_use]
    pub fn new(settlements: &'a [NewSettlement]) -> SettlementBatch<'a> {
        let mut seen: HashMap<(MerchantId, SettlementId), &NewSettlement> = HashMap::new();
        let mut batch =
            SettlementBatch { unique: Vec::with_capacity(settlements.len()), conflicting: Vec::new() };
        for settlement in settlements {
            let key = (settlement.merchant_id, settlement.settlement_id);
            match seen.insert(key, settlement) {
                None => batch.unique.push(settlement),
                Some(earlier) if earlier == settlement => {}
                Some(_) => batch.conflicting.push(key),
            }
        }
        batch
    }
}

/// Questions about settlements.
#[async_trait]
pub trait SettlementReads {
    /// A page of a merchant's settlements, newest first.
    async fn settlement_page(&self, merchant: MerchantId, page: PageRequest) -> StoreResult<RecordPage>;
}

/// Changes to settlements.
#[async_trait]
pub trait SettlementWrites {
    /// Records completed settlements, at most [`BATCH_MAX`] of them. One that is there with the same content
    /// is left alone, one with other content is reported as conflicting.
    async fn settlement_record_many(
        &mut self,
        lock: &MerchantLock,
        settlements: &[NewSettlement],
    ) -> StoreResult<RecordedBatch>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use settle_domain::ids::SettlementId;

    #[test]
    fn list_keys_compare_like_time_and_then_id() {
        let id = |number| SettlementId(uuid::Uuid::from_u128(number));
        let at = Timestamp::from_micros;
        let sorted = [
            ListKey::new(Timestamp::MIN, id(9)),
            ListKey::new(at(-1), id(9)),
            ListKey::new(at(0), id(1)),
            ListKey::new(at(0), id(2)),
            ListKey::new(at(256), id(0)),
            ListKey::new(Timestamp::MAX, id(0)),
        ];
        assert!(sorted.is_sorted());
    }
}
