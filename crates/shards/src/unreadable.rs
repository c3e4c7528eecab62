//! Rows that a tenant's version cannot read: of another version, or damaged.
//!
//! Such a row is told of once, with its id, and rests: claims leave it out, so that its merchant's others and
//! everybody else's go on. Now and then it is read again, because somebody may have mended it.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Display;
use std::hash::Hash;
use std::time::Duration;

use settle_domain::ids::MerchantId;
use settle_store::StoreError;
use tokio::time::Instant;

/// How long a row that cannot be read is left alone. What no claim has found again so long after its rest is
/// no longer due, and is forgotten.
const REST: Duration = Duration::from_mins(10);
/// Rows that rest at most; of more nothing is told, and each look finds them again.
const RESTING_MAX: usize = 4_096;

/// The rows that cannot be read, and until when each rests.
#[derive(Debug)]
pub struct Unreadable<Id> {
    /// What a row is, as the log says it.
    what: &'static str,
    /// Shows how many there are.
    show: fn(u32),
    rows: HashMap<Id, (MerchantId, Instant)>,
}

impl<Id: Copy + Eq + Hash + Display> Unreadable<Id> {
    /// None yet. The word says what a row is, and the function shows how many there are.
    #[must_use]
    pub fn none(what: &'static str, show: fn(u32)) -> Unreadable<Id> {
        Unreadable { what, show, rows: HashMap::new() }
    }

    /// A row cannot be read. Says whether it rests from now on.
    pub fn rest(&mut self, merchant: MerchantId, id: Id, error: &StoreError) -> bool {
        let until = Instant::now() + REST;
        if let Some(known) = self.rows.get_mut(&id) {
            *known = (merchant, until);
            return true;
        }
        if self.rows.len() >= RESTING_MAX {
            return false;
        }
        let (what, cause) = (self.what, error.source().map(ToString::to_string));
        tracing::error!(%merchant, %id, %error, cause, "a {what} cannot be read: it rests");
        self.rows.insert(id, (merchant, until));
        self.shown();
        true
    }

    /// A row was read.
    pub fn was_read(&mut self, id: Id) {
        if self.rows.remove(&id).is_some() {
            let what = self.what;
            tracing::info!(%id, "a {what} that could not be read was read");
            self.shown();
        }
    }

    /// Merchants that are no longer served here are others' to tell of.
    pub fn keep(&mut self, serves: impl Fn(MerchantId) -> bool) {
        let (before, now) = (self.rows.len(), Instant::now());
        self.rows.retain(|_, (merchant, until)| serves(*merchant) && *until + REST > now);
        if self.rows.len() != before {
            self.shown();
        }
    }

    /// What rests now, with its merchant.
    pub fn resting(&self) -> impl Iterator<Item = (Id, MerchantId)> {
        let now = Instant::now();
        let resting = self.rows.iter().filter(move |(_, (_, until))| *until > now);
        resting.map(|(id, (merchant, _))| (*id, *merchant))
    }

    /// Whether a merchant has a row that cannot be read.
    #[must_use]
    pub fn is_of(&self, merchant: MerchantId) -> bool {
        self.rows.values().any(|(owner, _)| *owner == merchant)
    }

    fn shown(&self) {
        (self.show)(u32::try_from(self.rows.len()).unwrap_or(u32::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn merchant(number: u128) -> MerchantId {
        MerchantId(Uuid::from_u128(number))
    }

    fn rest(rows: &mut Unreadable<usize>, owner: u128, id: usize) -> bool {
        rows.rest(merchant(owner), id, &StoreError::unexpected("of another version"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_row_rests_for_its_time_and_is_forgotten_when_nobody_finds_it_again() {
        let mut rows = Unreadable::none("row", |_| {});
        assert!(rest(&mut rows, 1, 7));
        assert_eq!(rows.resting().collect::<Vec<_>>(), [(7, merchant(1))]);
        tokio::time::advance(REST).await;
        rows.keep(|_| true);
        assert!(rows.resting().next().is_none() && rows.is_of(merchant(1)), "it may be read again");
        assert!(rest(&mut rows, 1, 7), "it still cannot");
        let second = Duration::from_secs(1);
        tokio::time::advance((2 * REST).saturating_sub(second)).await;
        rows.keep(|_| true);
        assert!(rows.is_of(merchant(1)));
        tokio::time::advance(second).await;
        rows.keep(|_| true);
        assert!(!rows.is_of(merchant(1)), "it is no longer due");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_read_and_whom_others_serve_is_forgotten() {
        let mut rows = Unreadable::none("row", |_| {});
        assert!(rest(&mut rows, 1, 7) && rest(&mut rows, 2, 8) && rest(&mut rows, 2, 9));
        rows.was_read(8);
        rows.keep(|served| served == merchant(2));
        assert_eq!(rows.resting().collect::<Vec<_>>(), [(9, merchant(2))]);
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_rest() {
        let mut rows = Unreadable::none("row", |_| {});
        assert!((0..RESTING_MAX).all(|id| rest(&mut rows, 1, id)));
        assert!(!rest(&mut rows, 1, RESTING_MAX));
        assert!(rest(&mut rows, 1, 0), "one that rests already");
    }
}
