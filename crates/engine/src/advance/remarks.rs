//! What the engine remarks in a payment's timeline: how it came to know what it knows. Whoever reads that a
//! payout was made also wants to read that its answer was lost, and that a look-up found it.

use settle_domain::ids::OperationId;
use settle_domain::ledger::Postings;
use settle_domain::operation::{Answer, Judgement, Memory, Refusal, Report, Seen};
use settle_domain::payment::PaymentState;

use super::Advance;

/// Characters of a provider's own words that are kept.
const WORDS_MAX: usize = 200;

/// How an outcome became known; `None` if it was the answer to the only send.
pub(super) fn of_outcome(before: Memory, seen: Seen, report: Option<&Report>) -> Option<String> {
    let told = match seen {
        Seen::Answered(Answer::Succeeded(Judgement::AsAsked)) if before.was_unknown => {
            "it was sent again under the same key"
        }
        Seen::Found(Answer::Succeeded(Judgement::AsAsked)) if before.was_unknown => "a look-up found it",
        Seen::Voided(Answer::Succeeded(Judgement::AsAsked)) => "it was to be voided, and had been done",
        Seen::Voided(Answer::Refused(_)) => "it was voided: the provider will never begin it",
        Seen::Answered(Answer::Refused(refusal)) | Seen::Found(Answer::Refused(refusal)) => {
            return words(report).filter(|_| !refusal.quote_expired);
        }
        _ => return None,
    };
    Some(told.to_owned())
}

/// Why the payment does not hear of its operation yet, when that is news.
pub(super) fn of_doubt(before: Memory, after: Memory, seen: Seen) -> Option<&'static str> {
    if before.was_unknown || !after.was_unknown {
        return None;
    }
    Some(match seen {
        Seen::Answered(Answer::Succeeded(_)) => {
            "the answer does not fit what was asked; it is looked up, and nothing else is sent"
        }
        _ => "no answer says what became of it; it is looked up, and nothing else is sent",
    })
}

/// Before a provider is asked never to begin an operation.
pub(super) const VOIDS: &str =
    "the provider does not know it, and may have forgotten its key; it is asked never to begin it";

/// What an operator said, and how the provider's word came about that decided.
pub(super) fn of_witness(said: &str, seen: Seen, remark: Option<String>) -> String {
    let remark = match seen.judgement() {
        Some(Judgement::AsAsked) => Some("but the provider says that it was done".to_owned()),
        Some(Judgement::Otherwise) => Some("but the provider says that it did something else".to_owned()),
        None => remark,
    };
    match remark {
        Some(remark) if said.is_empty() => remark,
        Some(remark) => format!("{said}; {remark}"),
        None => said.to_owned(),
    }
}

fn words(report: Option<&Report>) -> Option<String> {
    let said =
        report?.reason.as_deref().filter(|said| !said.is_empty() && *said != Refusal::QUOTE_EXPIRED)?;
    Some(format!("the provider says: {}", said.chars().take(WORDS_MAX).collect::<String>()))
}

impl Advance {
    /// A line of the timeline that changes nothing. Under review there are none: look-ups go on for ever.
    pub(super) fn remark(&mut self, operation: OperationId, remark: &str) {
        let state = self.case.payment.state;
        if !matches!(state, PaymentState::NeedsReview(_)) {
            self.write_step(Some(state), Some(operation), Postings::none(), Some(remark));
        }
    }
}
