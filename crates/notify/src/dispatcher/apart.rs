//! Outcomes that are recorded apart: each merchant's in transactions of its own.
//!
//! Outcomes of many merchants are recorded together and wait a moment at most for anybody's lock. This does
//! not do for two kinds of merchants. A busy one is locked by somebody else whenever the dispatcher tries,
//! because many settlements are recorded for it: its outcomes must wait for their turn. And of one merchant
//! the database may refuse an outcome: that must not keep those of the others from being recorded. Both are
//! recorded apart for a while, few merchants side by side.

use std::collections::HashMap;
use std::time::Duration;

use settle_domain::ids::MerchantId;
use tokio::time::Instant;

use super::queue::Outcome;

/// Outcomes recorded in one transaction, at most, together or apart.
pub(super) const RECORDED_MAX: usize = 1_000;
/// How long a merchant's outcomes are recorded apart; then they are tried together with those of others.
const APART: Duration = Duration::from_secs(1);
/// Merchants whose outcomes are recorded side by side. Each may wait for a lock, with a connection.
const SIDE_BY_SIDE_MAX: usize = 4;
/// How long the outcomes of a merchant rest that could not be recorded, at first and at most.
const REST_FIRST: Duration = Duration::from_millis(100);
const REST_MAX: Duration = Duration::from_mins(1);

/// The merchants whose outcomes are recorded apart.
#[derive(Debug, Default)]
pub(super) struct Apart {
    merchants: HashMap<MerchantId, Own>,
    /// Merchants whose outcomes are being recorded.
    under_way: usize,
}

/// The outcomes of one merchant.
#[derive(Debug)]
struct Own {
    outcomes: Vec<Outcome>,
    is_under_way: bool,
    /// Until when new outcomes come here.
    until: Instant,
    /// Not recorded before this.
    rests_until: Instant,
    /// Failures in a row.
    failures: u32,
    /// Whether the last failure was a refusal: the database was there, and does not take these.
    is_refused: bool,
}

impl Apart {
    /// From now on, for a while, a merchant's outcomes are recorded apart.
    pub(super) fn begin(&mut self, merchant: MerchantId, now: Instant) {
        let new = || Own {
            outcomes: Vec::new(),
            is_under_way: false,
            until: now,
            rests_until: now,
            failures: 0,
            is_refused: false,
        };
        self.merchants.entry(merchant).or_insert_with(new).until = now + APART;
    }

    /// Takes an outcome, if its merchant's are recorded apart; otherwise gives it back.
    pub(super) fn push(&mut self, outcome: Outcome) -> Option<Outcome> {
        match self.merchants.get_mut(&outcome.state.merchant_id) {
            Some(own) => {
                own.outcomes.push(outcome);
                None
            }
            None => Some(outcome),
        }
    }

    /// Outcomes that wait to be recorded apart.
    pub(super) fn len(&self) -> usize {
        self.merchants.values().map(|own| own.outcomes.len()).sum()
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.under_way > 0
    }

    /// When the first merchant's outcomes can be recorded, if there are any and not too many are being
    /// recorded.
    pub(super) fn first_due(&self) -> Option<Instant> {
        let has_room = self.under_way < SIDE_BY_SIDE_MAX;
        let due = self.merchants.values().filter(|own| has_room && own.is_due()).map(|own| own.rests_until);
        due.min()
    }

    /// The next outcomes to record: those of the merchant that has waited longest.
    pub(super) fn take(&mut self, now: Instant) -> Option<Vec<Outcome>> {
        let due = self.first_due().filter(|due| *due <= now)?;
        let own = self.merchants.values_mut().find(|own| own.is_due() && own.rests_until == due)?;
        own.is_under_way = true;
        self.under_way += 1;
        let number = own.outcomes.len().min(RECORDED_MAX);
        Some(own.outcomes.drain(..number).collect())
    }

    /// The outcomes that were taken are recorded.
    pub(super) fn recorded(&mut self, merchant: MerchantId, now: Instant) {
        if let Some(own) = self.ended(merchant) {
            (own.failures, own.rests_until, own.is_refused) = (0, now, false);
        }
    }

    /// The outcomes that were taken are not recorded: they come first again, after a rest.
    pub(super) fn put_back(
        &mut self,
        merchant: MerchantId,
        outcomes: Vec<Outcome>,
        is_refused: bool,
        now: Instant,
    ) {
        if let Some(own) = self.ended(merchant) {
            own.is_refused = is_refused;
            own.outcomes.splice(..0, outcomes);
            let rest = REST_FIRST.saturating_mul(2u32.saturating_pow(own.failures)).min(REST_MAX);
            (own.failures, own.rests_until) = (own.failures.saturating_add(1), now + rest);
        }
    }

    fn ended(&mut self, merchant: MerchantId) -> Option<&mut Own> {
        self.under_way = self.under_way.saturating_sub(1);
        let own = self.merchants.get_mut(&merchant)?;
        own.is_under_way = false;
        Some(own)
    }

    /// Forgets merchants whose time is over and that have nothing left.
    pub(super) fn end(&mut self, now: Instant) {
        self.merchants.retain(|_, own| own.until > now || own.is_under_way || !own.outcomes.is_empty());
    }

    /// Removes the outcomes that the database refuses, of the merchants that are to go. What comes of theirs
    /// later is tried at once.
    pub(super) fn give_up(&mut self, goes: impl Fn(MerchantId) -> bool, now: Instant) -> Vec<Outcome> {
        let refused = self.merchants.iter_mut().filter(|(merchant, own)| own.is_refused && goes(**merchant));
        let given_up = refused.flat_map(|(_, own)| {
            (own.failures, own.rests_until, own.is_refused) = (0, now, false);
            std::mem::take(&mut own.outcomes)
        });
        given_up.collect()
    }

    /// Removes outcomes that the dispatcher must not record any more.
    pub(super) fn remove(&mut self, is_lost: impl Fn(&Outcome) -> bool) -> Vec<Outcome> {
        let own = self.merchants.values_mut();
        own.flat_map(|own| own.outcomes.extract_if(.., |outcome| is_lost(outcome)).collect::<Vec<_>>())
            .collect()
    }
}

impl Own {
    fn is_due(&self) -> bool {
        !self.is_under_way && !self.outcomes.is_empty()
    }
}
