//! Completed settlements: written once, never changed, listed newest first.
//!
//! We store a settlement as the JSON that the merchant sees. It never changes, and the list and the
//! notification contain the same bytes, so we render it once: a page joins stored texts, and a payload is the
//! record with `event` in front. PostgreSQL keeps it as `json`, which preserves the text and can still be
//! queried.
//!
//! A settlement that an operator records is none of the engine's: its id is no payment's, and neither is its
//! pay-in, which is the one of its reference at [`PayIn::DEFAULT_SOURCE`], because a record names no
//! receiving account. Both sides look at each other under the merchant's lock. The merchant's row says
//! whether it has ever had a payment, and everybody who locks the merchant reads that with the lock: as long
//! as it has not, nothing more is asked.
//!
//! A `settlement_id` is unique per merchant, not across merchants, because a global index could not be spread
//! by merchant. The same id under two merchants is two settlements.
//!
//! Reading a page and its exact total costs the same however long the list is:
//! [`counts`](crate::CountChanges) keep the total, and [`slices`](crate::slices) find deep pages.

use std::collections::{BTreeSet, HashMap, HashSet};

use async_trait::async_trait;
use settle_domain::ids::{MerchantId, PaymentId, SettlementId};
use settle_domain::page::PageRequest;
use settle_domain::payment::PayIn;
use settle_domain::pricing::InternalPricing;
use settle_domain::settlement::{CompletedSettlement, Origin, Record, RecordPage};
use settle_domain::time::Timestamp;

use crate::{MerchantLock, StoreError, StoreResult};

/// The most settlements in one call of [`SettlementWrites::settlement_record_many`].
pub const BATCH_MAX: usize = 1_000;
/// The place of a settlement in its merchant's list: bytes that compare like `(listed_at, settlement_id)`.
///
/// One value instead of two makes a range of the list one comparison in both databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListKey([u8; 24]);

impl ListKey {
    /// The key of a settlement.
    #[must_use]
    pub fn new(listed_at: Timestamp, settlement: SettlementId) -> ListKey {
        let mut bytes = [0; 24];
        // With the sign bit flipped, a signed number sorts correctly as an unsigned one.
        let time = listed_at.as_micros().cast_unsigned() ^ (1 << 63);
        bytes[..8].copy_from_slice(&time.to_be_bytes());
        bytes[8..].copy_from_slice(settlement.0.as_bytes());
        ListKey(bytes)
    }

    /// A key read from a store.
    #[must_use]
    pub fn from_stored(bytes: [u8; 24]) -> ListKey {
        ListKey(bytes)
    }

    /// The bytes to store.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 24] {
        &self.0
    }
}

/// What makes two settlements with one id the same: what the merchant sees, and what it never sees.
pub type Content = (Record, Option<InternalPricing>);

/// The origin with this number in the database.
pub fn stored_origin(number: i16) -> StoreResult<Origin> {
    let unknown = || StoreError::unexpected(format!("a settlement of origin {number}"));
    Origin::from_number(number).ok_or_else(unknown)
}

/// A rendered settlement to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSettlement {
    /// The merchant it belongs to.
    pub merchant_id: MerchantId,
    /// The settlement's id.
    pub settlement_id: SettlementId,
    /// Its place in the list.
    pub list_key: ListKey,
    /// The reference of its pay-in, which stands in the record too.
    pub payin_reference: String,
    /// What the merchant sees.
    pub record: Record,
    /// What the merchant never sees.
    pub pricing: Option<InternalPricing>,
    /// Who says that it is complete; no part of its content.
    pub origin: Origin,
}

impl NewSettlement {
    /// Whether it has the given content.
    #[must_use]
    pub fn has_content(&self, (record, pricing): &Content) -> bool {
        self.record == *record && self.pricing == *pricing
    }

    /// The pay-in's reference, if a payment must find the settlement by it. An import that an earlier version
    /// has staged has it in the record alone.
    #[must_use]
    pub fn recorded_payin(&self) -> Option<&str> {
        let is_recorded = self.origin != Origin::Payment && !self.payin_reference.is_empty();
        is_recorded.then_some(self.payin_reference.as_str())
    }

    /// The payments that it would be in the way of: the one with its id, and the one of its pay-in.
    #[must_use]
    pub fn payment_ids(&self) -> Vec<PaymentId> {
        let payin = PayIn::new(None, self.payin_reference.clone()).ok();
        let of_payin = payin.map(|payin| PaymentId::of(self.merchant_id, &payin));
        [PaymentId(self.settlement_id.0)].into_iter().chain(of_payin).collect()
    }

    /// Whether another one is the same settlement, if it has the same id.
    fn is_same(&self, other: &NewSettlement) -> bool {
        self.record == other.record && self.pricing == other.pricing
    }
}

impl From<CompletedSettlement> for NewSettlement {
    fn from(completed: CompletedSettlement) -> NewSettlement {
        let CompletedSettlement { merchant_id, settlement, pricing, origin } = completed;
        NewSettlement {
            merchant_id,
            settlement_id: settlement.settlement_id,
            list_key: ListKey::new(settlement.listed_at(), settlement.settlement_id),
            record: settlement.record(),
            payin_reference: settlement.payin_reference,
            pricing,
            origin,
        }
    }
}

/// The result of recording a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedBatch {
    /// The new ones, in the order given.
    pub recorded: Vec<(MerchantId, SettlementId)>,
    /// Those whose id the merchant already has with other content, or that are payments. The caller must then
    /// roll back.
    pub conflicting: Vec<(MerchantId, SettlementId)>,
    /// Those of the conflicting ones whose id or pay-in is a payment's.
    pub payments: Vec<(MerchantId, SettlementId)>,
    /// Those that an import has staged with other content, of which nobody knows yet whether it will be
    /// accepted. The caller must then roll back, and may try again later.
    pub reserved: Vec<(MerchantId, SettlementId)>,
}

/// A batch without repetitions, for the backends.
#[derive(Debug)]
pub struct SettlementBatch<'a> {
    /// Each settlement once, in the order given.
    pub unique: Vec<&'a NewSettlement>,
    /// Ids that the batch contains twice with different content.
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
                Some(earlier) if earlier.is_same(settlement) => {}
                Some(_) => batch.conflicting.push(key),
            }
        }
        batch
    }

    /// Leaves out those that are stored; one that is stored with other content is conflicting.
    pub fn leave_out_stored(&mut self, stored: &HashMap<(MerchantId, SettlementId), Content>) {
        let conflicting = &mut self.conflicting;
        self.unique.retain(|row| {
            let key = (row.merchant_id, row.settlement_id);
            let content = stored.get(&key);
            conflicting.extend(content.filter(|content| !row.has_content(content)).map(|_| key));
            content.is_none()
        });
    }
}

/// Which of the merchants that a transaction has locked have ever had a payment.
#[derive(Debug, Default)]
pub struct PaymentMarks(HashSet<MerchantId>);

impl PaymentMarks {
    /// Remembers whether a merchant has ever had one: read with its lock, or just changed.
    pub fn remember(&mut self, merchant: MerchantId, has_payments: bool) {
        if has_payments {
            self.0.insert(merchant);
        } else {
            self.0.remove(&merchant);
        }
    }

    /// Those of the given merchants that have had none, each once, in the order of their ids.
    pub fn unmarked(&self, merchants: impl Iterator<Item = MerchantId>) -> Vec<MerchantId> {
        let unmarked: BTreeSet<MerchantId> = merchants.filter(|id| !self.0.contains(id)).collect();
        unmarked.into_iter().collect()
    }

    /// Those of the given settlements that may be in the way of a payment.
    #[must_use]
    pub fn marked<'a>(&self, settlements: &[&'a NewSettlement]) -> Vec<&'a NewSettlement> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let is_marked =
            |row: &&NewSettlement| row.origin != Origin::Payment && self.0.contains(&row.merchant_id);
        settlements.iter().copied().filter(is_marked).collect()
    }
}

/// Questions about settlements.
#[async_trait]
pub trait SettlementReads {
    /// A page of a merchant's settlements, newest first.
    async fn settlement_page(&self, merchant: MerchantId, page: PageRequest) -> StoreResult<RecordPage>;

    /// A merchant's settlements that an operator recorded [unchecked](Origin::Unchecked), in the order of
    /// their ids, after the given one.
    async fn settlement_unchecked(
        &self,
        merchant: MerchantId,
        after: Option<SettlementId>,
        limit: u32,
    ) -> StoreResult<Vec<SettlementId>>;
}

/// Changes to settlements.
#[async_trait]
pub trait SettlementWrites {
    /// Records completed settlements, at most [`BATCH_MAX`]. It leaves a stored one with the same content
    /// alone, and reports one with other content as conflicting, and one of an operator whose id or pay-in is
    /// a payment's. What an accepted import has staged counts as stored.
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
