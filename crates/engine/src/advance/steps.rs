//! Steps of a payment: an event goes through the machine, its postings are made, the timeline gets a line.

use serde::Serialize;
use settle_domain::actor::Actor;
use settle_domain::ids::OperationId;
use settle_domain::ledger::{Postings, postings};
use settle_domain::payment::{Mark, PaymentEvent, PaymentState, Transition, transition};
use settle_domain::reason::Reason;
use settle_store::StepRow;

use super::{Advance, Notice, Stuck};
use crate::case::json;

/// A line of the timeline, as it is stored and shown.
#[derive(Debug, Serialize)]
struct Step<'a> {
    from: Option<&'a str>,
    to: &'a str,
    reason: Option<Reason>,
    operation_id: Option<OperationId>,
    by: Actor,
    postings: &'a Postings,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
}

impl Advance {
    pub(super) fn step(
        &mut self,
        event: PaymentEvent,
        operation: Option<OperationId>,
        note: Option<&str>,
    ) -> Result<Option<Mark>, Stuck> {
        let from = self.case.payment.state;
        let standing = self.case.machine_standing();
        let Transition { to, reason, movement, expired_quotes, late, mark, alerts } =
            transition(&standing, event)?;
        let mut books = self.case.payment.books();
        books.late_bought = operation
            .and_then(|id| self.case.position(id))
            .and_then(|place| self.case.operations[place].operation.bought_amount);
        let posted = match self.beyond.take() {
            Some(beyond) => postings(movement, &books)?.merged(beyond)?,
            None => postings(movement, &books)?,
        };
        let payment = &mut self.case.payment;
        // A look-up that tells what is known already is no line of the timeline, and alerts nobody again.
        let is_news = (from, payment.reason, payment.late) != (to, reason, late)
            || !posted.lines().is_empty()
            || note.is_some();
        (payment.state, payment.reason, payment.expired_quotes, payment.late) =
            (to, reason, expired_quotes, late);
        payment.blocked = None;
        if from.name() != to.name() {
            self.case.changed_at = self.now;
            self.case.tries = 0;
        }
        if alerts && is_news {
            self.notice(Notice::of_step(movement));
        }
        if to.is_final() {
            self.case.due_at = None;
        }
        if is_news {
            self.write_step(Some(from), operation, posted, note);
        }
        Ok(mark)
    }

    /// Whoever has seen the payment before does not know what it is now.
    pub(super) const fn mark_news(&mut self) {
        self.case.news_version = self.seen + 1;
    }

    pub(super) fn write_step(
        &mut self,
        from: Option<PaymentState>,
        operation_id: Option<OperationId>,
        posted: Postings,
        note: Option<&str>,
    ) {
        self.case.steps += 1;
        self.mark_news();
        let payment = &self.case.payment;
        let step = Step {
            from: from.map(|state| state.name().as_str()),
            to: payment.state.name().as_str(),
            reason: payment.reason,
            operation_id,
            by: self.by,
            postings: &posted,
            note,
        };
        self.steps.push(StepRow {
            merchant_id: payment.order.merchant_id,
            payment_id: payment.payment_id,
            number: self.case.steps,
            at: self.now,
            step: json(&step),
        });
        self.postings.push(posted);
    }
}
