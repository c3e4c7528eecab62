//! The machine: which event leads from which state where, and which money moves. A pure function.
//!
//! Two rules stand behind the rows. Nothing but the provider's word or a person with evidence ends an outcome
//! that is not known. And once an operation has moved after its payment had gone on without it, the engine
//! sends nothing more for the payment: it halts wherever it would go on by itself.

use super::event::{Act, Outcome, PaymentEvent, QuoteRefusal};
use super::mark::Mark;
use super::state::{Flight, PaymentState, Review, StateName};
use crate::error_code::ErrorCode;
use crate::ledger::{Held, Late, Movement};
use crate::operation::{News, OperationKind, OperationStatus, Refusal};
use crate::reason::Reason;

/// The quote that expires as the last: the payment fails.
pub const EXPIRED_QUOTES_MAX: u32 = 20;

/// What the machine knows of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Standing {
    /// Where it is.
    pub state: PaymentState,
    /// Why.
    pub reason: Option<Reason>,
    /// How many quotes have expired since it was received or retried.
    pub expired_quotes: u32,
    /// What moved, or may move, without it.
    pub late: Option<Late>,
    /// The status of its open operation, if it has one.
    pub operation: Option<OperationStatus>,
    /// Whether nothing of its open operation can have been executed: it waits to be sent.
    pub is_unsent: bool,
}

/// What an event changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Transition {
    /// Where the payment is now.
    pub to: PaymentState,
    /// Why.
    pub reason: Option<Reason>,
    /// Which money moves.
    pub movement: Movement,
    /// How many quotes have expired.
    pub expired_quotes: u32,
    /// What moved, or may move, without the payment.
    pub late: Option<Late>,
    /// What a person's word makes of an operation.
    pub mark: Option<Mark>,
    /// Whether operations are alerted.
    pub alerts: bool,
}

/// An event that the present state does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a payment that is {state} does not allow this")]
pub struct TransitionFault {
    /// The state's name.
    pub state: StateName,
    /// The code that says why.
    pub code: ErrorCode,
}

/// Applies an event. On an error nothing changes.
pub fn transition(standing: &Standing, event: PaymentEvent) -> Result<Transition, TransitionFault> {
    let changed = match event {
        PaymentEvent::Quoted => standing.quoted(),
        PaymentEvent::QuoteRefused(refusal) => standing.quote_refused(refusal),
        PaymentEvent::QuoteExpired => standing.quote_expired(),
        PaymentEvent::ConversionPrepared => standing.conversion_prepared(),
        PaymentEvent::ConversionSkipped => standing.conversion_skipped(),
        PaymentEvent::PayoutPrepared => standing.payout_prepared(),
        PaymentEvent::Operation(kind, news) => standing.operation(kind, news),
        PaymentEvent::StepFailed => Some(standing.step_failed()),
        PaymentEvent::Operator(act) => standing.act(act),
    };
    changed.ok_or_else(|| standing.refusal())
}

/// Steps of the engine.
impl Standing {
    fn quoted(&self) -> Option<Transition> {
        (self.state == PaymentState::Received).then(|| self.to(PaymentState::Quoted))
    }

    fn quote_refused(&self, refusal: QuoteRefusal) -> Option<Transition> {
        let failed = self.to(PaymentState::Failed(Held::Incoming)).because(refusal.reason());
        (self.state == PaymentState::Received).then_some(failed)
    }

    fn quote_expired(&self) -> Option<Transition> {
        (self.state == PaymentState::Quoted).then(|| self.another_quote(Movement::None))
    }

    /// Back for another quote, unless too many have expired.
    fn another_quote(&self, movement: Movement) -> Transition {
        let expired_quotes = self.expired_quotes.saturating_add(1);
        let next = if expired_quotes < EXPIRED_QUOTES_MAX {
            self.lands(PaymentState::Received, None)
        } else {
            self.lands(PaymentState::Failed(Held::Incoming), Some(Reason::QuoteRefused))
        };
        Transition { movement, expired_quotes, ..next }
    }

    fn conversion_prepared(&self) -> Option<Transition> {
        let converting = self.to(PaymentState::Converting).moving(Movement::BeginConversion);
        (self.state == PaymentState::Quoted).then_some(converting)
    }

    fn conversion_skipped(&self) -> Option<Transition> {
        let converted = self.to(PaymentState::Converted).moving(Movement::SkipConversion);
        (self.state == PaymentState::Quoted).then_some(converted)
    }

    fn payout_prepared(&self) -> Option<Transition> {
        let paying_out = self.to(PaymentState::PayingOut).moving(Movement::BeginPayout);
        (self.state == PaymentState::Converted).then_some(paying_out)
    }

    /// Our own fault: a person must look, and everybody else goes on. What has ended stays as it is.
    fn step_failed(&self) -> Transition {
        let to = match self.state {
            PaymentState::Received | PaymentState::Quoted => Review::Halted(Held::Incoming),
            PaymentState::Converted => Review::Halted(Held::Outgoing),
            PaymentState::Converting => Review::Conversion,
            PaymentState::PayingOut => Review::Payout,
            PaymentState::Refunding(held) => Review::Refund(held),
            PaymentState::NeedsReview(_)
            | PaymentState::Completed { .. }
            | PaymentState::Failed(_)
            | PaymentState::Refunded { .. } => return self.stays(),
        };
        self.to(PaymentState::NeedsReview(to)).because(Reason::UnexpectedFailure)
    }
}

/// What becomes known of operations.
impl Standing {
    fn operation(&self, kind: OperationKind, news: News) -> Option<Transition> {
        let flight = self.state.flight().filter(|flight| flight.kind == kind);
        match news {
            News::Succeeded => flight.map(|flight| self.done(flight)),
            News::Refused(refusal) => flight.map(|flight| self.refused(flight, refusal)),
            News::Unclear => flight.map(|flight| self.unclear(flight)),
            News::Returned => match flight {
                Some(flight) => Some(self.unclear(flight)),
                None => self.returned(kind, self.stays()),
            },
            News::LateSucceeded => {
                Some(self.halts(Late { kind, moved: true }).moving(Movement::MoveLate(kind)))
            }
            News::Revived => Some(self.halts(Late { kind, moved: false })),
            News::LateReturned => Some(self.late_returned(kind)),
        }
    }

    fn done(&self, flight: Flight) -> Transition {
        let (to, movement) = match flight.kind {
            OperationKind::Conversion => (PaymentState::Converted, Movement::Convert),
            OperationKind::Payout => (PaymentState::Completed { is_returned: false }, Movement::Complete),
            OperationKind::Refund => {
                (PaymentState::Refunded { is_returned: false }, Movement::Refund(flight.held))
            }
        };
        self.lands(to, None).moving(movement)
    }

    fn refused(&self, flight: Flight, refusal: Refusal) -> Transition {
        if self.state == PaymentState::Converting && refusal.quote_expired {
            return self.another_quote(Movement::AbandonConversion);
        }
        self.not_done(flight, refusal.code.reason())
    }

    /// The money is where it was before the operation.
    fn not_done(&self, flight: Flight, reason: Reason) -> Transition {
        let movement = match flight.kind {
            OperationKind::Conversion => Movement::AbandonConversion,
            OperationKind::Payout => Movement::AbandonPayout,
            OperationKind::Refund => Movement::AbandonRefund(flight.held),
        };
        self.lands(PaymentState::Failed(flight.held), Some(reason)).moving(movement)
    }

    /// Already under review it stays there, for the reason that it has.
    fn unclear(&self, flight: Flight) -> Transition {
        match self.state {
            PaymentState::NeedsReview(_) => self.stays(),
            _ => self.to(flight.review()).because(flight.kind.outcome_unknown()),
        }
    }

    /// Money that came back after the end: the state stays, the books tell, once.
    fn returned(&self, kind: OperationKind, again: Transition) -> Option<Transition> {
        let to = match (self.state, kind) {
            (PaymentState::Completed { is_returned: false }, OperationKind::Payout) => {
                PaymentState::Completed { is_returned: true }
            }
            (PaymentState::Refunded { is_returned: false }, OperationKind::Refund) => {
                PaymentState::Refunded { is_returned: true }
            }
            (PaymentState::Completed { is_returned: true }, OperationKind::Payout)
            | (PaymentState::Refunded { is_returned: true }, OperationKind::Refund) => return Some(again),
            _ => return None,
        };
        Some(Transition { alerts: true, ..self.to(to).moving(Movement::Return(kind)) })
    }

    /// An operation moves, or may move, without the payment. A final state stays, flagged.
    fn halts(&self, late: Late) -> Transition {
        let late = match self.late {
            // What is known to have moved outweighs what may move, and money that went out a conversion:
            // whoever says that the conversion was the payment's own lets its payout go out.
            Some(known) if known.moved && !late.moved => known,
            Some(known) if known.moved && known.kind != OperationKind::Conversion => known,
            Some(_) | None => late,
        };
        let unknown = late.kind.outcome_unknown();
        let halted = match (self.state.flight(), self.state.held()) {
            (Some(flight), _) => self.to(flight.review()).because(flight.kind.outcome_unknown()),
            (None, Some(held)) => self.to(PaymentState::NeedsReview(Review::Halted(held))).because(unknown),
            (None, None) => self.stays(),
        };
        Transition { late: Some(late), alerts: true, ..halted }
    }

    /// What had moved late has come back; a person still decides.
    fn late_returned(&self, kind: OperationKind) -> Transition {
        let late = self.late.map(|late| Late { moved: late.moved && late.kind != kind, ..late });
        Transition { late, alerts: true, ..self.stays().moving(Movement::ReturnLate(kind)) }
    }
}

/// Acts of operators.
impl Standing {
    fn act(&self, act: Act) -> Option<Transition> {
        match act {
            Act::Retry => self.stopped().map(|held| {
                let to = match held {
                    Held::Incoming => PaymentState::Received,
                    Held::Outgoing => PaymentState::Converted,
                };
                Transition { expired_quotes: 0, ..self.to(to) }
            }),
            Act::Refund => self
                .stopped()
                .map(|held| self.to(PaymentState::Refunding(held)).moving(Movement::BeginRefund(held))),
            Act::Cancel => self.cancelled(),
            Act::Returned => match self.state {
                PaymentState::Completed { is_returned: false } => {
                    self.returned(OperationKind::Payout, self.stays())
                }
                PaymentState::Refunded { is_returned: false } => {
                    self.returned(OperationKind::Refund, self.stays())
                }
                _ => None,
            },
            Act::Resolve(outcome) => match self.state.flight() {
                Some(flight) => self.resolved(flight, outcome),
                None => self.late_resolved(outcome),
            },
        }
    }

    /// What we hold of a payment that nothing but an operator leads on.
    fn stopped(&self) -> Option<Held> {
        match self.state {
            PaymentState::Failed(held) => Some(held),
            PaymentState::NeedsReview(Review::Halted(held)) if self.late.is_none() => Some(held),
            _ => None,
        }
    }

    fn cancelled(&self) -> Option<Transition> {
        let held = match self.state {
            PaymentState::Failed(_) => return None,
            PaymentState::NeedsReview(_) => self.stopped()?,
            _ => match self.state.flight() {
                // What its provider never got ends with it.
                Some(flight) if self.is_unsent => {
                    let failed = self.not_done(flight, refusal_of(flight.kind));
                    return Some(Transition { mark: Some(Mark::GivenUp), ..failed });
                }
                Some(_) => return None,
                None => self.state.held()?,
            },
        };
        let reason = match held {
            Held::Incoming => Reason::ConversionRefused,
            Held::Outgoing => Reason::PayoutRefused,
        };
        Some(self.to(PaymentState::Failed(held)).because(reason))
    }

    /// A person says what became of the operation in flight. While the provider says that it works on it,
    /// nobody else can know; and nobody unsays that it was done.
    fn resolved(&self, flight: Flight, outcome: Outcome) -> Option<Transition> {
        let is_reviewed = matches!(self.state, PaymentState::NeedsReview(_));
        let is_unknown = match self.operation {
            Some(OperationStatus::Unknown) => true,
            Some(OperationStatus::Accepted) => false,
            Some(OperationStatus::Succeeded) => is_reviewed && outcome.is_done(),
            Some(_) | None => is_reviewed,
        };
        if outcome.kind() != flight.kind || !is_unknown {
            return None;
        }
        let resolved = if outcome.is_done() {
            Transition { mark: Some(Mark::Succeeded), ..self.done(flight) }
        } else {
            Transition { mark: Some(Mark::GivenUp), ..self.not_done(flight, refusal_of(flight.kind)) }
        };
        Some(resolved)
    }

    /// A person says what became of a late operation: the payment's own after all, or the house's affair.
    fn late_resolved(&self, outcome: Outcome) -> Option<Transition> {
        let (PaymentState::NeedsReview(Review::Halted(held)), Some(late)) = (self.state, self.late) else {
            return None;
        };
        if outcome.kind() != late.kind {
            return None;
        }
        let settled = Standing { late: None, ..*self };
        if !outcome.is_done() {
            let failed = settled.to(PaymentState::Failed(held)).because(refusal_of(late.kind));
            return Some(failed);
        }
        let to = match (late.kind, held) {
            (OperationKind::Conversion, _) => PaymentState::Converted,
            (OperationKind::Payout, Held::Outgoing) => PaymentState::Completed { is_returned: false },
            // Nothing was bought that could have been paid out.
            (OperationKind::Payout, Held::Incoming) => return None,
            (OperationKind::Refund, _) => PaymentState::Refunded { is_returned: false },
        };
        // Another conversion has served the payment: the late one stays the house's.
        let is_houses = late.kind == OperationKind::Conversion && held == Held::Outgoing;
        let mark = (!is_houses).then_some(Mark::Adopted(late.kind));
        Some(Transition { mark, ..settled.to(to).moving(Movement::Adopt(late, held)) })
    }
}

/// The reason of a payment whose operation was not done, as a person says.
const fn refusal_of(kind: OperationKind) -> Reason {
    match kind {
        OperationKind::Conversion => Reason::ConversionRefused,
        OperationKind::Payout | OperationKind::Refund => Reason::PayoutRefused,
    }
}

/// How transitions are made.
impl Standing {
    /// Another state, and nothing else.
    fn to(&self, to: PaymentState) -> Transition {
        let was_reviewed = matches!(self.state, PaymentState::NeedsReview(_));
        Transition {
            to,
            reason: None,
            movement: Movement::None,
            expired_quotes: self.expired_quotes,
            late: self.late,
            mark: None,
            alerts: !was_reviewed && matches!(to, PaymentState::NeedsReview(_)),
        }
    }

    /// The same state, for the same reason.
    fn stays(&self) -> Transition {
        Transition { reason: self.reason, ..self.to(self.state) }
    }

    /// Another state, or a halt before it: nothing more is sent for a payment while something moved without
    /// it.
    fn lands(&self, to: PaymentState, reason: Option<Reason>) -> Transition {
        match (self.late, to.held()) {
            (Some(late), Some(held)) => {
                self.to(PaymentState::NeedsReview(Review::Halted(held))).because(late.kind.outcome_unknown())
            }
            (Some(_), None) | (None, _) => Transition { reason, ..self.to(to) },
        }
    }

    fn refusal(&self) -> TransitionFault {
        let code = match (self.state.flight(), self.operation) {
            (Some(_), Some(OperationStatus::Accepted)) => ErrorCode::ProviderStillProcessing,
            (Some(flight), Some(OperationStatus::Unknown)) => flight.kind.outcome_unknown().code(),
            (Some(flight), _) => match self.state {
                PaymentState::NeedsReview(_) => flight.kind.outcome_unknown().code(),
                _ => ErrorCode::ProviderStillProcessing,
            },
            (None, _) => match (self.state, self.late) {
                (PaymentState::NeedsReview(_), Some(late)) => late.kind.outcome_unknown().code(),
                _ => ErrorCode::Conflict,
            },
        };
        TransitionFault { state: self.state.name(), code }
    }
}

impl Transition {
    fn because(self, reason: Reason) -> Transition {
        Transition { reason: Some(reason), ..self }
    }

    fn moving(self, movement: Movement) -> Transition {
        Transition { movement, ..self }
    }
}
