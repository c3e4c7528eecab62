//! Whether a provider's word on an operation is what we hold: pure.

use serde::Serialize;
use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::money::Decimal;
use settle_domain::operation::{OperationKind, OperationRequest, OperationStatus};
use settle_domain::provider::ProviderName;
use settle_domain::reconciliation::FindingKind;
use settle_provider::wire::{self, Operation};

use crate::case::{Tracked, json};

/// What comes of comparing both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    /// Both say the same, or ours follows by itself.
    Agrees,
    /// They differ, and a look-up would teach us nothing.
    Differs(FindingKind),
    /// The provider's word is news to us: it is looked up.
    News(FindingKind),
}

/// Compares a provider's word with what we hold.
pub(super) fn compare(theirs: &Operation, held: &Tracked) -> Comparison {
    use Comparison::{Agrees, Differs, News};
    use OperationStatus as Ours;
    use wire::OperationStatus as Theirs;
    let status = held.operation.memory.status;
    match (theirs.status, status) {
        (Theirs::Succeeded, Ours::Succeeded) | (Theirs::Returned, Ours::Returned) => {
            if !is_same(theirs, held) {
                Differs(FindingKind::OtherAmounts)
            } else if !is_same_reference(theirs, held) {
                Differs(FindingKind::OtherReference)
            } else {
                Agrees
            }
        }
        (Theirs::Succeeded, Ours::Returned) => Differs(FindingKind::SucceededThere),
        (Theirs::Succeeded, _) if !is_outlay(theirs, &held.operation.request) => {
            News(FindingKind::OtherAmounts)
        }
        (Theirs::Succeeded, _) => News(FindingKind::SucceededThere),
        (Theirs::Returned, _) => News(FindingKind::Returned),
        (Theirs::Refused, Ours::Refused | Ours::GivenUp)
        | (Theirs::Pending, Ours::Prepared | Ours::Accepted | Ours::Unknown) => Agrees,
        (Theirs::Refused, Ours::Succeeded | Ours::Returned) => Differs(FindingKind::RefusedThere),
        (Theirs::Refused, Ours::Prepared | Ours::Accepted | Ours::Unknown) => News(FindingKind::RefusedThere),
        (Theirs::Pending, Ours::Refused | Ours::GivenUp) => News(FindingKind::PendingThere),
        (Theirs::Pending, Ours::Succeeded | Ours::Returned) => Differs(FindingKind::PendingThere),
    }
}

/// Whether what was done is what we hold, to the last unit.
fn is_same(theirs: &Operation, held: &Tracked) -> bool {
    let request = &held.operation.request;
    is_outlay(theirs, request)
        && match request {
            OperationRequest::Conversion { buy, .. } => {
                let bought = theirs.bought_amount.and_then(|amount| buy.amount(amount));
                let known = held.operation.bought_amount.and_then(|amount| buy.amount(amount));
                theirs.bought_asset.as_deref() == Some(buy.code()) && bought.is_some() && bought == known
            }
            OperationRequest::Payout { destination_reference, .. } => {
                theirs.destination_reference.as_ref().is_none_or(|told| told == destination_reference)
            }
            OperationRequest::Refund { .. } => true,
        }
}

/// Whether both call it the same. Somebody may have said it by hand, and the merchant's record has it: a rail
/// finds nothing under another. Who names none does not contradict.
fn is_same_reference(theirs: &Operation, held: &Tracked) -> bool {
    let both = theirs.provider_reference.as_ref().zip(held.operation.provider_reference.as_ref());
    both.is_none_or(|(theirs, ours)| theirs == ours)
}

fn is_outlay(theirs: &Operation, request: &OperationRequest) -> bool {
    let (asset, amount) = request.outlay();
    let kind = theirs.kind.map(|kind| match kind {
        wire::OperationKind::Conversion => OperationKind::Conversion,
        wire::OperationKind::Payout => OperationKind::Payout,
        wire::OperationKind::Refund => OperationKind::Refund,
    });
    kind == Some(request.kind())
        && theirs.asset.as_deref() == Some(asset.code())
        && theirs.amount.is_some_and(|told| told == amount)
}

/// What we hold of an operation, for people.
#[derive(Serialize)]
struct Ours<'a> {
    merchant_id: MerchantId,
    payment_id: PaymentId,
    attempt: u32,
    provider: &'a ProviderName,
    status: OperationStatus,
    provider_reference: Option<&'a str>,
    bought_amount: Option<Decimal>,
    request: &'a OperationRequest,
}

/// What we hold of an operation, as JSON.
pub(super) fn ours(held: &Tracked) -> String {
    let operation = &held.operation;
    json(&Ours {
        merchant_id: operation.merchant_id,
        payment_id: operation.payment_id,
        attempt: operation.attempt,
        provider: &operation.provider,
        status: operation.memory.status,
        provider_reference: operation.provider_reference.as_deref(),
        bought_amount: operation.bought_amount,
        request: &operation.request,
    })
}
