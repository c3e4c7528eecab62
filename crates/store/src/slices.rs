//! Finding a page deep in a merchant's list without walking there.
//!
//! Lists promise an exact `total` and offsets up to 10,000 at a cost that does not grow. Counting rows would
//! cost time in proportion to them, so [`counts`](crate::CountChanges) keep the total. Skipping 10,000 index
//! entries would cost several times as much as the page itself, so each list is cut into *slices* of 64 to
//! 128 rows, and the database keeps the number of rows in each. A backend reads the newest slices, skips
//! whole ones, and walks only the rest.
//!
//! The process remembers the slices it read last. Settlements are only ever added, so a list with the same
//! total is the same list: if a page comes with the total that the slices were read with, the slices still
//! hold, whichever node writes. With another total the backend reads the slices again; if somebody adds rows
//! meanwhile, it walks the rows.
//!
//! A model test compares totals and pages with plain lists after every random step.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use lru::LruCache;
use settle_domain::ids::MerchantId;
use settle_domain::page::{OFFSET_MAX, PageRequest};
use settle_domain::settlement::RecordPage;

use crate::StoreResult;

/// A backend cuts a slice with more rows than this. It walks an offset below this row by row.
pub const SLICE_ROWS_MAX: u32 = 128;
/// The fewest rows in a slice after a cut. Only a slice that is its merchant's only one has fewer.
pub const SLICE_ROWS_MIN: u32 = 64;
/// The most slices that a backend reads to skip [`OFFSET_MAX`] rows.
pub const SLICES_WALKED_MAX: u32 = OFFSET_MAX / SLICE_ROWS_MIN + 2;
/// The most merchants whose slices are remembered: about two megabytes.
const REMEMBERED_MAX: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// Above every list key: the first byte of a list key is never `0xff`.
pub const ABOVE_ALL: [u8; 8] = [0xff; 8];

/// The newest slices of a list, and the total it had when they were read.
#[derive(Debug)]
pub struct Slices {
    total: u64,
    /// For each slice, newest first: its first key, and the rows in it and all newer ones.
    skipped: Vec<(Vec<u8>, u64)>,
}

/// Where to start in order to skip rows: below this key, with so many rows left to skip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start<'a> {
    /// The key.
    pub below: &'a [u8],
    /// The rows left to skip.
    pub rest: u64,
}

impl Slices {
    /// Slices with their numbers of rows, newest first.
    #[must_use]
    pub fn new(total: u64, slices: Vec<(Vec<u8>, u64)>) -> Slices {
        let mut sum = 0;
        let skipped = slices.into_iter().map(|(from_key, rows)| {
            sum += rows;
            (from_key, sum)
        });
        Slices { total, skipped: skipped.collect() }
    }

    /// The total that the list had.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Where to start in order to skip so many rows.
    #[must_use]
    pub fn start(&self, offset: u32) -> Start<'_> {
        let offset = u64::from(offset);
        let whole = self.skipped.partition_point(|(_, skipped)| *skipped <= offset);
        match whole.checked_sub(1).map(|last| &self.skipped[last]) {
            None => Start { below: &ABOVE_ALL, rest: offset },
            Some((from_key, skipped)) => Start { below: from_key, rest: offset - skipped },
        }
    }
}

/// The slices read last, by merchant. A full memory forgets the merchant whose slices nobody has used for the
/// longest time.
#[derive(Debug)]
pub struct SliceMemory(Mutex<LruCache<MerchantId, Arc<Slices>>>);

impl Default for SliceMemory {
    fn default() -> SliceMemory {
        SliceMemory(Mutex::new(LruCache::new(REMEMBERED_MAX)))
    }
}

impl SliceMemory {
    /// The slices read last.
    #[must_use]
    pub fn recall(&self, merchant: MerchantId) -> Option<Arc<Slices>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&merchant).cloned()
    }

    /// Remembers slices just read.
    pub fn remember(&self, merchant: MerchantId, slices: &Arc<Slices>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(merchant, slices.clone());
    }
}

/// The parts of a backend that [`page`] needs.
#[async_trait]
pub trait SlicedList {
    /// The slices read last.
    fn memory(&self) -> &SliceMemory;

    /// The newest slices, [`SLICES_WALKED_MAX`] at most, and the total in the same snapshot.
    async fn slices_read(&self, merchant: MerchantId) -> StoreResult<Slices>;

    /// A page from the given start, and the total in the same snapshot.
    async fn page_from(&self, merchant: MerchantId, start: Start<'_>, limit: u32) -> StoreResult<RecordPage>;
}

/// A page of a merchant's list, at a cost that depends neither on its depth nor on the length of the list.
pub async fn page(
    list: &(impl SlicedList + Sync),
    merchant: MerchantId,
    request: PageRequest,
) -> StoreResult<RecordPage> {
    let (limit, offset) = (request.limit(), request.offset());
    let walked = Start { below: &ABOVE_ALL, rest: offset.into() };
    if offset < SLICE_ROWS_MAX {
        return list.page_from(merchant, walked, limit).await;
    }
    if let Some(slices) = list.memory().recall(merchant) {
        let found = list.page_from(merchant, slices.start(offset), limit).await?;
        if found.total == slices.total() {
            return Ok(found);
        }
    }
    let slices = Arc::new(list.slices_read(merchant).await?);
    list.memory().remember(merchant, &slices);
    let found = list.page_from(merchant, slices.start(offset), limit).await?;
    if found.total == slices.total() {
        return Ok(found);
    }
    list.page_from(merchant, walked, limit).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_slices_are_skipped_and_the_rest_is_left() {
        let slices = Slices::new(300, vec![(vec![9], 100), (vec![5], 80), (vec![], 120)]);
        let start = |offset| (slices.start(offset).below.to_vec(), slices.start(offset).rest);
        assert_eq!(start(0), (ABOVE_ALL.to_vec(), 0));
        assert_eq!(start(99), (ABOVE_ALL.to_vec(), 99));
        assert_eq!(start(100), (vec![9], 0));
        assert_eq!(start(181), (vec![5], 1));
        assert_eq!(start(299), (vec![5], 119));
        assert_eq!(start(10_000), (vec![], 9_700), "below the empty key there is nothing");
    }

    #[test]
    fn a_full_memory_forgets_who_was_not_asked_for_the_longest() {
        let memory = SliceMemory::default();
        let slices = Arc::new(Slices::new(0, Vec::new()));
        let merchant = |number: usize| MerchantId(uuid::Uuid::from_u128(number as u128));
        for number in 0..REMEMBERED_MAX.get() {
            memory.remember(merchant(number), &slices);
        }
        assert!(memory.recall(merchant(0)).is_some());
        memory.remember(merchant(REMEMBERED_MAX.get()), &slices);
        assert_eq!(memory.0.lock().unwrap().len(), REMEMBERED_MAX.get());
        let is_known = |number| memory.recall(merchant(number)).is_some();
        assert!(is_known(0) && is_known(2) && is_known(REMEMBERED_MAX.get()));
        assert!(!is_known(1));
    }
}
