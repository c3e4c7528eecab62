//! What is to be done with a case: decided from what is written, without I/O.

use settle_domain::payment::PaymentState;
use settle_domain::provider::ProviderName;

use crate::case::{Case, Errand};

/// What is to be done with a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errands {
    /// Ask for a quote, or freeze the amounts without one.
    Quote,
    /// Prepare the payout of what is reserved.
    PayOut,
    /// A send whose answer nobody has: it is unclear.
    Lost(usize),
    /// Send again.
    Resend(usize),
    /// Ask about an operation.
    LookUp(usize),
    /// Ask that an operation is never begun.
    Void(usize),
    /// What is known of the operation has not reached the payment yet.
    CatchUp(usize),
    /// Nothing.
    Nothing,
}

/// Decides what is to be done with a case that was read from the database.
#[must_use]
pub fn errands(case: &Case) -> Errands {
    // Before anything is sent: it may be a reason to send nothing more. If its provider says nothing, what is
    // in flight gets its turn.
    if let Some(place) = case.hinted().filter(|_| case.payment.blocked.is_none() || !is_in_flight(case)) {
        return Errands::LookUp(place);
    }
    match case.payment.state {
        PaymentState::Received | PaymentState::Quoted => Errands::Quote,
        PaymentState::Converted => Errands::PayOut,
        _ => {
            if let Some(place) = case.awaited() {
                return errand(case, place);
            }
            // Every look-up makes a version, so that several operations are looked up in turn.
            let watched = case.watched();
            let turn = case.payment.version % u64::try_from(watched.len().max(1)).unwrap_or(1);
            let place = usize::try_from(turn).ok().and_then(|turn| watched.get(turn));
            place.map_or(Errands::Nothing, |place| Errands::LookUp(*place))
        }
    }
}

/// Whether the payment waits for an operation that was sent: its turn sends nothing before it was looked up.
fn is_in_flight(case: &Case) -> bool {
    case.awaited().is_some_and(|place| !matches!(errand(case, place), Errands::Resend(_)))
}

fn errand(case: &Case, place: usize) -> Errands {
    let tracked = &case.operations[place];
    if !tracked.operation.memory.status.is_open() {
        return Errands::CatchUp(place);
    }
    match tracked.errand {
        Errand::Sending => Errands::Lost(place),
        // What waited to be sent when the payment stopped is not sent.
        Errand::Send if matches!(case.payment.state, PaymentState::NeedsReview(_)) => Errands::LookUp(place),
        // The same key was to be sent again, and had to wait. Meanwhile the first send may have been
        // executed, its provider may have got another memory, or the key may be forgotten: a look-up tells.
        Errand::Send if tracked.operation.memory.was_unknown => Errands::LookUp(place),
        Errand::Send => Errands::Resend(place),
        Errand::Void => Errands::Void(place),
        Errand::LookUp | Errand::None => Errands::LookUp(place),
    }
}

/// The provider that is asked next, unless only the newest terms of the corridor say that.
pub(crate) fn provider(case: &Case) -> Option<&ProviderName> {
    match errands(case) {
        Errands::Lost(place)
        | Errands::Resend(place)
        | Errands::LookUp(place)
        | Errands::Void(place)
        | Errands::CatchUp(place) => Some(&case.operations[place].operation.provider),
        Errands::Quote | Errands::PayOut | Errands::Nothing => case.payment.provider.as_ref(),
    }
}
