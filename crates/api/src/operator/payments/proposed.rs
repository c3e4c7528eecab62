//! An act on a payment that waits for a second person, as it is shown.

use serde::Serialize;
use settle_domain::actor::Actor;
use settle_domain::ids::{MerchantId, PaymentId, ProposalId};
use settle_domain::money::Decimal;
use settle_domain::time::Timestamp;
use settle_engine::acts::proposals;
use settle_store::{Proposal, Store, StoreResult};
use utoipa::ToSchema;

use super::super::names::Names;

/// An act that waits for a second person.
#[derive(Serialize, ToSchema)]
#[schema(as = Proposal)]
pub(in super::super) struct Proposed {
    #[schema(value_type = Uuid)]
    proposal_id: ProposalId,
    #[schema(value_type = Uuid)]
    merchant_id: MerchantId,
    #[schema(value_type = Uuid)]
    payment_id: PaymentId,
    /// The version of the payment that the proposer saw: of any other, nothing is done.
    version: u64,
    /// `retry`, `refund`, `returned` or `resolve_` and an outcome.
    #[schema(examples("resolve_not_paid"))]
    act: String,
    /// Where a retry pays out instead.
    destination_reference: Option<String>,
    /// What moved, as the proposer says: of a conversion what was bought.
    #[schema(value_type = Option<String>)]
    amount: Option<Decimal>,
    /// The provider's own name for the operation, as the proposer says.
    provider_reference: Option<String>,
    /// Why, and how the proposer knows.
    evidence: String,
    #[schema(value_type = String)]
    proposed_by: Actor,
    /// The proposer's name.
    #[schema(required)]
    proposed_by_name: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    proposed_at: Timestamp,
    /// When it is too late to approve it.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

impl Proposed {
    /// The proposals as they are shown.
    pub(in super::super) async fn all(
        store: &dyn Store,
        proposals: &[Proposal],
    ) -> StoreResult<Vec<Proposed>> {
        let names = Names::of(store, proposals.iter().map(|proposal| proposal.proposed_by)).await?;
        Ok(proposals.iter().map(|proposal| Proposed::new(proposal, &names)).collect())
    }

    /// A proposal as it is shown.
    fn new(proposal: &Proposal, names: &Names) -> Proposed {
        let deed = proposals::deed_of(proposal);
        let act = deed.as_ref().map(|deed| proposals::name_of(deed.act)).unwrap_or_default();
        let (destination_reference, amount, provider_reference, evidence) = deed
            .map(|deed| (deed.destination_reference, deed.amount, deed.provider_reference, deed.evidence))
            .unwrap_or_default();
        Proposed {
            act,
            destination_reference,
            amount,
            provider_reference,
            evidence,
            proposal_id: proposal.proposal_id,
            merchant_id: proposal.merchant_id,
            payment_id: proposal.payment_id,
            version: proposal.version,
            proposed_by: proposal.proposed_by,
            proposed_by_name: names.find(proposal.proposed_by),
            proposed_at: proposal.proposed_at,
            expires_at: proposal.expires_at,
        }
    }
}
