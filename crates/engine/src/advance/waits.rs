//! When the engine looks at a payment again.

use std::time::Duration;

use settle_domain::operation::{Backoff, OperationStatus};
use settle_domain::payment::PaymentState;

use super::{Advance, Follow};

/// How often an operation that was given up is still looked up.
const WATCH_INTERVAL: Duration = Duration::from_hours(1);

/// How often the engine waits for what a provider hinted at, of a payment that waits for nothing. A
/// comparison with the provider's list finds it later.
const HINT_TRIES_MAX: u32 = 20;
/// The longest wait before an operation is looked up of which nobody knows what became of it.
const DOUBT_WAIT_MAX: Duration = Duration::from_mins(1);

impl Advance {
    /// The engine looks again after a wait.
    pub(super) fn wait(&mut self, waits: Backoff) {
        self.follow = Follow::Wait;
        self.case.tries = self.case.tries.saturating_add(1);
        self.case.due_at = Some(self.now.plus(waits.delay_after(self.case.tries)));
    }

    /// Nothing is to be done by the engine, but to look at what was hinted at, and to watch operations that
    /// were given up.
    pub(super) fn rest(&mut self) {
        self.follow = Follow::Wait;
        let is_watched = !self.case.watched().is_empty();
        let watched_at = is_watched.then(|| self.now.plus(WATCH_INTERVAL));
        self.case.due_at = if self.case.hinted().is_some() { Some(self.now) } else { watched_at };
    }

    /// The engine looks again after a wait, and soon if nobody knows what became of the operation that the
    /// payment waits for.
    pub(super) fn wait_for_awaited(&mut self, waits: Backoff) {
        let is_in_doubt = self.case.awaited().is_some_and(|place| self.is_in_doubt(place));
        self.wait(if is_in_doubt { waits.within(DOUBT_WAIT_MAX) } else { waits });
    }

    /// Whether the engine has nothing to do for the payment but to look.
    pub(super) fn is_at_rest(&self) -> bool {
        let begins = matches!(
            self.case.payment.state,
            PaymentState::Received | PaymentState::Quoted | PaymentState::Converted
        );
        !begins && self.case.awaited().is_none()
    }

    /// Whether nobody knows what became of an operation, and no person was called yet.
    fn is_in_doubt(&self, place: usize) -> bool {
        let status = self.case.operations[place].operation.memory.status;
        matches!(status, OperationStatus::Prepared | OperationStatus::Unknown)
            && !matches!(self.case.payment.state, PaymentState::NeedsReview(_))
    }

    /// Whether nothing goes out meanwhile, and the engine has asked often enough about what was hinted at.
    pub(super) fn has_waited_for_hints(&self) -> bool {
        self.is_at_rest() && self.case.tries >= HINT_TRIES_MAX
    }
}
