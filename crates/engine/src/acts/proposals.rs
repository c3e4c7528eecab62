//! What needs two people: one proposes it, another approves it within a day.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use settle_domain::actor::Actor;
use settle_domain::ids::{MerchantId, PaymentId, ProposalId};
use settle_domain::money::Decimal;
use settle_domain::payment::{Act, PaymentEvent};
use settle_domain::seams::Entropy;
use settle_store::{Proposal, StoreError, StoreResult};

use super::{ActError, People, act, judged};
use crate::advance::Deed;
use crate::case::{Case, json};
use crate::life::Means;
use crate::wake::EngineWake;

/// How long a proposal can be approved.
pub const PROPOSAL_LIFETIME: Duration = Duration::from_hours(24);

/// Proposals that are looked at to find those that can still be approved.
const LOOKED_AT_MAX: u32 = 1_000;

/// A deed as a proposal keeps it.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    act: String,
    evidence: String,
    destination_reference: Option<String>,
    amount: Option<Decimal>,
    provider_reference: Option<String>,
}

/// The name under which an act is kept and shown.
#[must_use]
pub fn name_of(act: Act) -> String {
    PaymentEvent::Operator(act).name()
}

/// What a proposal wants to do, in the proposer's name. `None` if it cannot be read.
#[must_use]
pub fn deed_of(proposal: &Proposal) -> Option<Deed> {
    let Kept { act, evidence, destination_reference, amount, provider_reference } =
        serde_json::from_str(&proposal.deed).ok()?;
    let act = Act::all().find(|known| name_of(*known) == act)?;
    let by = proposal.proposed_by;
    Some(Deed { act, by, evidence, destination_reference, amount, provider_reference })
}

/// Proposes a deed, if the payment as its operator saw it allows it.
pub async fn propose(
    means: &Means,
    entropy: &dyn Entropy,
    (merchant_id, payment_id): (MerchantId, PaymentId),
    version: u64,
    deed: &Deed,
) -> Result<Proposal, ActError> {
    judged(means, (merchant_id, payment_id), version, deed).await?;
    let now = means.clock.now();
    let kept = Kept {
        act: name_of(deed.act),
        evidence: deed.evidence.clone(),
        destination_reference: deed.destination_reference.clone(),
        amount: deed.amount,
        provider_reference: deed.provider_reference.clone(),
    };
    let proposal = Proposal {
        proposal_id: ProposalId::new(now, entropy),
        merchant_id,
        payment_id,
        version,
        deed: json(&kept),
        proposed_by: deed.by,
        proposed_at: now,
        expires_at: now.plus(PROPOSAL_LIFETIME),
        approved_by: None,
    };
    let mut tx = means.store.begin().await?;
    tx.proposal_create(&proposal).await?;
    tx.commit().await?;
    Ok(proposal)
}

/// The proposals that can still be approved, the oldest first, at most so many: somebody has only to say so.
pub async fn waiting(means: &Means, number: usize) -> StoreResult<Vec<Proposal>> {
    let mut waiting = Vec::new();
    let revoked = revoked(means).await?;
    for proposal in means.store.proposal_list(means.clock.now(), LOOKED_AT_MAX).await? {
        let is_valid = !revoked.contains(&proposal.proposed_by);
        if waiting.len() < number && is_valid && is_as_seen(means, &proposal).await? {
            waiting.push(proposal);
        }
    }
    Ok(waiting)
}

/// Who is no operator any more: a token is revoked because somebody else may have it, and what it proposed is
/// nobody's word.
async fn revoked(means: &Means) -> StoreResult<Vec<Actor>> {
    let operators = means.store.operator_list().await?;
    let revoked = operators.into_iter().filter(|operator| operator.revoked_at.is_some());
    Ok(revoked.map(|operator| Actor::Operator(operator.operator_id)).collect())
}

/// Whether the payment is as the proposer saw it. Of one that cannot be read nobody can say so.
async fn is_as_seen(means: &Means, proposal: &Proposal) -> StoreResult<bool> {
    match means.store.payment_find(proposal.merchant_id, proposal.payment_id).await {
        Ok(Some(row)) => Ok(Case::read(row, None, []).is_ok_and(|case| case.is_as_seen(proposal.version))),
        Ok(None) | Err(StoreError::Unexpected(_)) => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// A second person approves a proposal, and it is done.
pub async fn approve(
    means: &Means,
    wake: &EngineWake,
    proposal: ProposalId,
    by: Actor,
) -> Result<Case, ActError> {
    let proposal = means.store.proposal_find(proposal).await?.ok_or(ActError::Unknown)?;
    if proposal.proposed_by == by {
        return Err(ActError::OwnProposal);
    }
    let is_over = proposal.approved_by.is_some() || proposal.expires_at <= means.clock.now();
    if is_over || revoked(means).await?.contains(&proposal.proposed_by) {
        return Err(ActError::Expired);
    }
    let unreadable = || ActError::Store(Arc::new(StoreError::unexpected("a proposal that cannot be read")));
    let proposed = deed_of(&proposal).ok_or_else(unreadable)?;
    let evidence = format!("{} (proposed by {})", proposed.evidence, proposal.proposed_by);
    let deed = Deed { by, evidence, ..proposed };
    let payment = (proposal.merchant_id, proposal.payment_id);
    // The version fences it: whoever approves a second time finds the payment changed.
    let done = act(means, wake, payment, proposal.version, &deed, People::Two).await?;
    let mut tx = means.store.begin().await?;
    tx.proposal_approve(proposal.proposal_id, by).await?;
    tx.commit().await?;
    Ok(done)
}
