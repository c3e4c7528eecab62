//! Proposals: acts on payments that wait for a second person.

use async_trait::async_trait;
use settle_domain::actor::Actor;
use settle_domain::ids::{MerchantId, PaymentId, ProposalId};
use settle_domain::time::Timestamp;

use crate::StoreResult;

/// An act that one person proposes and another approves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// Its id.
    pub proposal_id: ProposalId,
    /// Whose payment.
    pub merchant_id: MerchantId,
    /// Which payment.
    pub payment_id: PaymentId,
    /// The version of the payment that the proposer saw: of any other, nothing is done.
    pub version: u64,
    /// What is to be done, as JSON that only the engine reads.
    pub deed: String,
    /// Who proposes it.
    pub proposed_by: Actor,
    /// When.
    pub proposed_at: Timestamp,
    /// When it is too late to approve it.
    pub expires_at: Timestamp,
    /// Who approved it, once somebody has.
    pub approved_by: Option<Actor>,
}

/// Questions about proposals.
#[async_trait]
pub trait ProposalReads {
    /// The proposals that wait for a second person and have not expired, the oldest first.
    async fn proposal_list(&self, now: Timestamp, limit: u32) -> StoreResult<Vec<Proposal>>;

    /// One proposal.
    async fn proposal_find(&self, proposal: ProposalId) -> StoreResult<Option<Proposal>>;
}

/// Changes to proposals.
#[async_trait]
pub trait ProposalWrites {
    /// Adds a proposal.
    async fn proposal_create(&mut self, proposal: &Proposal) -> StoreResult<()>;

    /// Notes who approved a proposal, unless somebody has.
    async fn proposal_approve(&mut self, proposal: ProposalId, by: Actor) -> StoreResult<bool>;
}
