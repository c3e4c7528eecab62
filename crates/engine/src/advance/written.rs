//! What a transaction writes of an advance.

use std::sync::Arc;

use settle_domain::ledger::Postings;
use settle_domain::reason::Reason;
use settle_store::{NewSettlement, Occurrence, OperationChange, OperationRow, PaymentChange, StepRow};

use super::{Advance, Follow};
use crate::case::Case;

impl Advance {
    /// The change of the payment.
    #[must_use]
    pub fn change(&self) -> PaymentChange {
        PaymentChange {
            merchant_id: self.case.merchant_id(),
            payment_id: self.case.payment.payment_id,
            seen: self.seen,
            standing: self.case.standing(),
            flag: self.case.payment.flag(),
        }
    }

    /// The new lines of the timeline.
    #[must_use]
    pub fn steps(&self) -> &[StepRow] {
        &self.steps
    }

    /// What is posted.
    #[must_use]
    pub fn postings(&self) -> &[Postings] {
        &self.postings
    }

    /// The operations that are prepared.
    pub fn prepared(&self) -> impl Iterator<Item = OperationRow> + '_ {
        self.prepared.iter().map(|place| self.case.operations[*place].row())
    }

    /// What was learnt of operations that were there before.
    pub fn learnt(&self) -> impl Iterator<Item = OperationChange> + '_ {
        let known = self.learnt.iter().filter(|place| !self.prepared.contains(place));
        known.map(|place| self.case.operations[*place].change())
    }

    /// The internal pricing, if it has changed.
    #[must_use]
    pub fn pricing(&self) -> Option<String> {
        self.is_priced.then(|| self.case.pricing())
    }

    /// The settlement that it completes.
    #[must_use]
    pub fn settlement(&self) -> Option<&NewSettlement> {
        self.settlement.as_ref()
    }

    /// What operators are told of it.
    pub fn notices(&self) -> impl Iterator<Item = Occurrence> + '_ {
        let payment = &self.case.payment;
        let provider = payment.provider.as_ref().or(self.asked.as_ref());
        self.alerts.iter().map(move |notice| notice.occurrence(payment, provider))
    }

    /// Says in the log what operators are told of it.
    pub fn report(&self) {
        let (merchant, payment) = (self.case.merchant_id(), self.case.payment.payment_id);
        for alert in &self.alerts {
            let reason = self.case.payment.reason.map(Reason::as_str);
            tracing::warn!(%merchant, %payment, reason, "{alert}");
        }
    }

    /// The case once it is committed.
    #[must_use]
    pub fn committed(self: Arc<Advance>) -> (Case, Follow) {
        let Advance { mut case, follow, seen, .. } = Arc::unwrap_or_clone(self);
        case.payment.version = seen + 1;
        (case, follow)
    }
}
