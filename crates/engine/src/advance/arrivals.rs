//! Payments that come in.

use settle_domain::actor::Actor;
use settle_domain::ids::PaymentId;
use settle_domain::ledger::{Movement, postings};
use settle_domain::time::Timestamp;

use super::{Advance, Notice, Stuck};
use crate::case::Case;

impl Advance {
    /// A payment comes in.
    pub fn received(case: Case, by: Actor, now: Timestamp) -> Result<Advance, Stuck> {
        Advance::receive(case, by, now, None)
    }

    /// The same payment as it comes in, if it is like another: people are told, and it goes on.
    pub fn received_alike(&self, other: PaymentId) -> Result<Advance, Stuck> {
        let notice = Notice::LikelyDouble(other);
        let mut advance = Advance::receive(self.case.clone(), self.by, self.now, Some(&notice.to_string()))?;
        advance.notice(notice);
        Ok(advance)
    }

    fn receive(mut case: Case, by: Actor, now: Timestamp, note: Option<&str>) -> Result<Advance, Stuck> {
        let posted = postings(Movement::Receive, &case.payment.books())?;
        case.steps = 0;
        let mut advance = Advance::of(case, by, now);
        advance.write_step(None, None, posted, note);
        advance.case.news_version = advance.seen;
        Ok(advance)
    }
}
