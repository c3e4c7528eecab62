//! Where a payment ends, and what it waits for, by what its provider says.

use settle_domain::operation::OperationKind;
use settle_domain::payment::StateName;
use settle_domain::reason::{Blocked, Reason};
use settle_provider::wire::OperationKind as Asked;

use super::teller::{Call, Says};

/// A step of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Quote,
    Conversion,
    Payout,
    Refund,
}

impl Step {
    pub(crate) const ALL: [Step; 4] = [Step::Quote, Step::Conversion, Step::Payout, Step::Refund];

    pub(crate) fn kind(self) -> Option<OperationKind> {
        match self {
            Step::Quote => None,
            Step::Conversion => Some(OperationKind::Conversion),
            Step::Payout => Some(OperationKind::Payout),
            Step::Refund => Some(OperationKind::Refund),
        }
    }

    pub(crate) fn asked(self) -> Option<Asked> {
        match self {
            Step::Quote => None,
            Step::Conversion => Some(Asked::Conversion),
            Step::Payout => Some(Asked::Payout),
            Step::Refund => Some(Asked::Refund),
        }
    }

    pub(crate) fn call(self) -> Call {
        self.asked().map_or(Call::Quote, Call::Send)
    }

    /// Where a payment ends when the step is done in the end: what was refused is refunded.
    pub(crate) fn done(self) -> End {
        let state = if self == Step::Refund { StateName::Refunded } else { StateName::Completed };
        End { state, reason: None, executed: self.executed(true, true) }
    }

    fn failed(self, reason: Reason) -> End {
        End { state: StateName::Failed, reason: Some(reason), executed: self.executed(false, false) }
    }

    /// A person must look; the provider has done it or not.
    fn reviewed(self, executes: bool) -> End {
        let reason = self.kind().map(OperationKind::outcome_unknown);
        End { state: StateName::NeedsReview, reason, executed: self.executed(executes, false) }
    }

    /// How often was converted, paid out and refunded, when the step was done or not, and the following ones
    /// were or not. A refund follows a payout that was refused.
    fn executed(self, is_done: bool, goes_on: bool) -> [usize; 3] {
        let (done, after) = (usize::from(is_done), usize::from(goes_on));
        match self {
            Step::Quote => [after, after, 0],
            Step::Conversion => [done, after, 0],
            Step::Payout => [1, done, 0],
            Step::Refund => [1, 0, done],
        }
    }
}

/// Where a payment ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) state: StateName,
    pub(crate) reason: Option<Reason>,
    /// How often was converted, paid out and refunded.
    pub(crate) executed: [usize; 3],
}

/// The end after this answer to a request, which was executed or not. `None` where that cannot be: what says
/// that nothing was done means it, and who was asked for a quote has no operation to speak of.
pub(crate) fn after_answer(step: Step, says: Says, executes: bool) -> Option<End> {
    let refused = match step {
        Step::Quote => Reason::QuoteRefused,
        Step::Conversion => Reason::ConversionRefused,
        Step::Payout | Step::Refund => Reason::PayoutRefused,
    };
    if step == Step::Quote {
        return match says {
            _ if executes => None,
            Says::Pending | Says::IsRefused | Says::IsRefusedElsewhere | Says::Returned => None,
            Says::Refused | Says::QuoteRefused | Says::RefusedOddly | Says::Short => {
                Some(step.failed(refused))
            }
            Says::SenderNotRegistered => Some(step.failed(Reason::SenderNotRegistered)),
            _ => Some(step.done()),
        };
    }
    match says {
        Says::NotSent
        | Says::TurnedAway
        | Says::RailInactive
        | Says::FxAccountsMissing
        | Says::OutOfGas
        | Says::Locked
        | Says::Unavailable => (!executes).then(|| step.done()),
        Says::Refused | Says::IsRefused | Says::IsRefusedElsewhere => {
            (!executes).then(|| step.failed(refused))
        }
        Says::QuoteExpired if step == Step::Conversion => (!executes).then(|| step.done()),
        Says::QuoteExpired => (!executes).then(|| step.failed(refused)),
        Says::SenderNotRegistered => (!executes).then(|| step.failed(Reason::SenderNotRegistered)),
        Says::QuoteRefused => (!executes).then(|| step.failed(Reason::QuoteRefused)),
        // A look-up of what is under review still finds what was done. What it was at and no longer knows
        // stays under review, as does what it calls another thing and does not know.
        Says::Conflict | Says::Pending => Some(if executes { step.done() } else { step.reviewed(false) }),
        Says::AsAsked | Says::OtherAmount => executes.then(|| step.done()),
        Says::Short | Says::Returned => executes.then(|| step.reviewed(true)),
        Says::TurnedAwayUnsigned
        | Says::RefusedOddly
        | Says::Absent
        | Says::AbsentElsewhere
        | Says::Garbage
        | Says::Unsigned
        | Says::AboutAnother
        | Says::Broken
        | Says::Timeout
        | Says::Closed => Some(step.done()),
    }
}

/// The end after this answer to the first look-up of a request that got none, and was executed or not.
pub(crate) fn after_look_up(step: Step, says: Says, executes: bool) -> Option<End> {
    match says {
        Says::AsAsked | Says::OtherAmount => executes.then(|| step.done()),
        Says::Short => None,
        Says::Returned => executes.then(|| step.reviewed(true)),
        Says::IsRefused if executes => None,
        Says::IsRefused if step == Step::Conversion => Some(step.failed(Reason::ConversionRefused)),
        Says::IsRefused => Some(step.failed(Reason::PayoutRefused)),
        Says::Pending if !executes => Some(step.reviewed(false)),
        // Nothing was learnt, or that it is not known yet: it is asked again, or sent again under its key.
        _ => Some(step.done()),
    }
}

/// What the payment waits for after this answer to a request. `None` if it need not wait.
pub(crate) fn wait_after(step: Step, says: Says) -> Option<(Option<Reason>, Option<Blocked>)> {
    let unknown = step.kind().map(OperationKind::outcome_unknown);
    let blocked = |blocked| Some((None, Some(blocked)));
    match says {
        Says::NotSent | Says::Locked | Says::Unavailable => blocked(Blocked::ProviderUnavailable),
        Says::TurnedAway => blocked(Blocked::ProviderCallFailed),
        Says::TurnedAwayUnsigned => Some((unknown, Some(Blocked::ProviderCallFailed))),
        Says::RailInactive => blocked(Blocked::RailInactive),
        Says::FxAccountsMissing => blocked(Blocked::FxAccountsMissing),
        Says::OutOfGas => blocked(Blocked::PayoutWalletOutOfGas),
        Says::Refused
        | Says::SenderNotRegistered
        | Says::QuoteRefused
        | Says::IsRefused
        | Says::IsRefusedElsewhere
        | Says::AsAsked => None,
        _ if step == Step::Quote => wait_for_quote(says).and_then(blocked),
        Says::QuoteExpired => None,
        Says::Pending => Some((Some(Reason::ProviderStillProcessing), None)),
        Says::RefusedOddly
        | Says::Conflict
        | Says::Absent
        | Says::AbsentElsewhere
        | Says::OtherAmount
        | Says::Short
        | Says::Returned
        | Says::Garbage
        | Says::Unsigned
        | Says::AboutAnother
        | Says::Broken
        | Says::Timeout
        | Says::Closed => Some((unknown, None)),
    }
}

/// What keeps a payment without a quote waiting: nothing is executed by a question, so it is asked again.
fn wait_for_quote(says: Says) -> Option<Blocked> {
    match says {
        Says::QuoteExpired | Says::Timeout | Says::Closed => Some(Blocked::ProviderUnavailable),
        Says::Conflict
        | Says::Absent
        | Says::AbsentElsewhere
        | Says::OtherAmount
        | Says::Garbage
        | Says::Unsigned
        | Says::AboutAnother
        | Says::Broken => Some(Blocked::ProviderCallFailed),
        _ => None,
    }
}
