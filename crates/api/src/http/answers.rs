//! Long answers that callers have not read yet: a merchant may have so many bytes of them, and then waits.
//!
//! Who asks for page after page on many connections and reads none would otherwise fill the memory. An answer
//! counts until the kernel has taken all of it: its bytes own their share.

use std::time::Duration;

use axum::body::Bytes;
use settle_domain::ids::MerchantId;

use super::shares::{Share, Shares};
use crate::error::{Quota, RateLimited};

/// How many bytes of unread answers there may be in all.
const UNREAD_BYTES_MAX: usize = 128 * 1_024 * 1_024;
/// About the length of the longest page.
const PAGE_BYTES: usize = 128 * 1_024;
/// When to come back: whoever reads has read within it.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The unread answers of each merchant.
pub struct Answers {
    unread: Shares<MerchantId>,
    per_merchant_max: usize,
}

/// The bytes of an answer, and their share.
struct Answer {
    bytes: Vec<u8>,
    _share: Share<MerchantId>,
}

impl AsRef<[u8]> for Answer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Answers {
    /// Nothing is unread yet; of one merchant there may be this many bytes.
    #[must_use]
    pub fn new(per_merchant_max: usize) -> Answers {
        Answers { unread: Shares::new(UNREAD_BYTES_MAX), per_merchant_max }
    }

    /// Refuses a merchant that has no room for a page, before the page is read from the database.
    pub fn check(&self, merchant: MerchantId) -> Result<(), RateLimited> {
        let has_room = self.unread.held(merchant) + PAGE_BYTES <= self.per_merchant_max;
        if has_room { Ok(()) } else { Err(self.refusal()) }
    }

    fn refusal(&self) -> RateLimited {
        RateLimited {
            name: "unread-answers",
            retry_after: RETRY_AFTER,
            quota: Quota::Bytes(self.per_merchant_max),
        }
    }

    /// Counts an answer to a merchant until its bytes are written.
    pub fn hold(&self, merchant: MerchantId, bytes: Vec<u8>) -> Result<Bytes, RateLimited> {
        let share = self.unread.take(merchant, bytes.len(), self.per_merchant_max);
        let share = share.ok_or_else(|| self.refusal())?;
        Ok(Bytes::from_owner(Answer { bytes, _share: share }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn who_has_no_room_for_a_page_is_refused_before_it_is_read() {
        let answers = Answers::new(2 * PAGE_BYTES);
        let merchant = MerchantId(Uuid::from_u128(1));
        let held = answers.hold(merchant, vec![0; PAGE_BYTES]).unwrap();
        assert!(answers.check(merchant).is_ok());
        let more = answers.hold(merchant, vec![0]).unwrap();
        assert!(answers.check(merchant).is_err());
        drop((held, more));
        assert!(answers.check(merchant).is_ok());
    }

    #[test]
    fn a_merchant_has_so_many_bytes_unread_and_others_are_not_affected() {
        let answers = Answers::new(200);
        let [one, other] = [1, 2].map(|number| MerchantId(Uuid::from_u128(number)));
        let half = vec![0; 100];
        let held = [answers.hold(one, half.clone()).unwrap(), answers.hold(one, half.clone()).unwrap()];
        assert!(answers.hold(one, vec![0]).is_err());
        assert!(answers.hold(other, half.clone()).is_ok());
        // As long as a part is to be written, all of it is in memory.
        let [first, second] = held;
        let part = first.slice(half.len() - 1..);
        drop(first);
        assert!(answers.hold(one, vec![0]).is_err());
        drop(part);
        assert!(answers.hold(one, half).is_ok());
        drop(second);
    }
}
