//! What a call to a provider has seen, in the domain's words: the rows of the classification.

use settle_domain::operation::{
    Answer, OperationKind, OperationRequest, Promise, Refusal, RefusalCode, Report, ReportStatus,
    Seen as Verdict,
};
use settle_domain::payment::QuoteRefusal;
use settle_domain::quoting::ProviderQuote;
use settle_domain::reason::Blocked;
use settle_provider::seen::Seen;
use settle_provider::wire::{self, Operation, OperationStatus, Problem, ProblemCode, Quote};

/// What was seen of a send.
#[must_use]
pub fn of_send(
    seen: Seen<Operation>,
    request: &OperationRequest,
    promise: Option<&Promise>,
) -> (Verdict, Option<Report>) {
    match seen {
        Seen::NotSent(_) => (Verdict::NotSent, None),
        Seen::TurnedAway { problem, .. } => (Verdict::Unauthorised { signed: problem.is_some() }, None),
        Seen::Blocked { problem, .. } => (Verdict::TurnedAway(blocked(&problem.code)), None),
        Seen::Conflict(_) => (Verdict::Conflict, None),
        Seen::Refused(problem) => match refusal(&problem) {
            Some(refusal) => {
                let report = Report::refused(refusal, problem.reason);
                (Verdict::Answered(Answer::Refused(refusal)), Some(report))
            }
            None => (Verdict::Unclear, None),
        },
        Seen::Answered(operation) => {
            let report = report(operation);
            (Verdict::Answered(report.answer(request, promise)), Some(report))
        }
        Seen::Absent(_) | Seen::Unusable { .. } | Seen::NoAnswer(_) => (Verdict::Unclear, None),
    }
}

/// What was seen of a look-up. Another memory than the one that the operation was sent to can know that
/// something moved, and never that nothing did: its absence and its refusal say nothing. What has no memory
/// yet was never sent, and whoever answers for it is the provider.
#[must_use]
pub fn of_look_up(
    seen: Seen<Operation>,
    request: &OperationRequest,
    promise: Option<&Promise>,
    instance: Option<&str>,
) -> (Verdict, Option<Report>) {
    let is_same = |told: &str| instance.is_none_or(|known| known == told);
    match seen {
        Seen::Answered(operation)
            if operation.status == OperationStatus::Refused && !is_same(&operation.instance) =>
        {
            (Verdict::LookupFailed, None)
        }
        Seen::Answered(operation) => {
            let report = report(operation);
            (Verdict::Found(report.answer(request, promise)), Some(report))
        }
        Seen::Absent(absence) if is_same(&absence.instance) => (Verdict::Absent, None),
        _ => (Verdict::LookupFailed, None),
    }
}

/// What was seen of a void.
#[must_use]
pub fn of_void(
    seen: Seen<Operation>,
    request: &OperationRequest,
    promise: Option<&Promise>,
    instance: Option<&str>,
) -> (Verdict, Option<Report>) {
    match seen {
        Seen::Answered(operation) if instance.is_none_or(|known| known == operation.instance) => {
            let report = report(operation);
            (Verdict::Voided(report.answer(request, promise)), Some(report))
        }
        _ => (Verdict::VoidFailed, None),
    }
}

/// What came of asking for a quote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Quoted {
    /// A quote.
    Offer(ProviderQuote),
    /// There is none, for good.
    Refused(QuoteRefusal),
    /// Not now.
    Blocked(Blocked),
    /// The provider does not accept our credentials.
    TurnedAway,
}

/// What was seen of a question for a quote. Nothing is executed by one, so whatever is unclear is asked
/// again.
#[must_use]
pub fn of_quote(seen: Seen<Quote>) -> Quoted {
    match seen {
        Seen::Answered(Quote { quote_id, sell_amount, buy_amount, rate, expires_at, .. }) => {
            Quoted::Offer(ProviderQuote { quote_id, sell_amount, buy_amount, rate, expires_at })
        }
        Seen::Refused(problem) if problem.code == ProblemCode::SenderNotRegistered => {
            Quoted::Refused(QuoteRefusal::SenderNotRegistered)
        }
        // A quote that had expired before it was given can be asked for again.
        Seen::Refused(problem) if problem.reason.as_deref() == Some(Problem::QUOTE_EXPIRED) => {
            Quoted::Blocked(Blocked::ProviderUnavailable)
        }
        Seen::Refused(_) => Quoted::Refused(QuoteRefusal::Refused),
        Seen::Blocked { problem, .. } => Quoted::Blocked(blocked(&problem.code)),
        Seen::NotSent(_) | Seen::NoAnswer(_) => Quoted::Blocked(Blocked::ProviderUnavailable),
        Seen::TurnedAway { .. } => Quoted::TurnedAway,
        Seen::Conflict(_) | Seen::Absent(_) | Seen::Unusable { .. } => {
            Quoted::Blocked(Blocked::ProviderCallFailed)
        }
    }
}

fn blocked(code: &ProblemCode) -> Blocked {
    match code {
        ProblemCode::RailInactive => Blocked::RailInactive,
        ProblemCode::FxAccountsMissing => Blocked::FxAccountsMissing,
        ProblemCode::PayoutWalletOutOfGas => Blocked::PayoutWalletOutOfGas,
        _ => Blocked::ProviderUnavailable,
    }
}

fn refusal(problem: &Problem) -> Option<Refusal> {
    let code = match problem.code {
        ProblemCode::PayoutRefused => RefusalCode::PayoutRefused,
        ProblemCode::ConversionRefused => RefusalCode::ConversionRefused,
        ProblemCode::QuoteRefused => RefusalCode::QuoteRefused,
        ProblemCode::SenderNotRegistered => RefusalCode::SenderNotRegistered,
        _ => return None,
    };
    let quote_expired = problem.reason.as_deref() == Some(Refusal::QUOTE_EXPIRED);
    Some(Refusal { code, quote_expired })
}

/// What a provider says of an operation.
#[must_use]
pub fn report(operation: Operation) -> Report {
    let status = match operation.status {
        OperationStatus::Pending => ReportStatus::Pending,
        OperationStatus::Succeeded => ReportStatus::Succeeded,
        OperationStatus::Refused => ReportStatus::Refused,
        OperationStatus::Returned => ReportStatus::Returned,
    };
    let refusal = operation.code.as_deref().and_then(|code| code.parse().ok()).map(|code| Refusal {
        code,
        quote_expired: operation.reason.as_deref() == Some(Refusal::QUOTE_EXPIRED),
    });
    Report {
        kind: operation.kind.map(|kind| match kind {
            wire::OperationKind::Conversion => OperationKind::Conversion,
            wire::OperationKind::Payout => OperationKind::Payout,
            wire::OperationKind::Refund => OperationKind::Refund,
        }),
        status,
        asset: operation.asset,
        amount: operation.amount,
        bought_asset: operation.bought_asset,
        bought_amount: operation.bought_amount,
        destination_reference: operation.destination_reference,
        provider_reference: operation.provider_reference,
        refusal,
        reason: operation.reason,
    }
}
