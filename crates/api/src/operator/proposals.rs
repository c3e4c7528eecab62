//! `/operator/v1/proposals`: acts on payments that wait for a second person.

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use settle_domain::actor::Actor;
use settle_domain::ids::ProposalId;
use settle_engine::acts::proposals;
use utoipa::{IntoResponses, ToSchema};

use super::OperatorState;
use super::authentication::Operator;
use super::payments::{Payment, Proposed, refused, whole};
use crate::error::ApiError;
use crate::http::{PathIds, serialized};
use crate::refusals::{Documentation, Refusal, responses};

/// Proposals that one answer lists; whoever has more has another problem.
const LISTED_MAX: usize = 200;

/// What waits for a second person, the oldest first.
#[derive(Serialize, ToSchema)]
pub(super) struct Proposals {
    proposals: Vec<Proposed>,
}

/// List what waits for a second person
///
/// What can no longer be approved, because the payment has changed since or a day is over, is not listed.
#[utoipa::path(
    get,
    path = "/operator/v1/proposals",
    operation_id = "listProposals",
    tag = "Payments",
    responses((status = 200, description = "What waits, the oldest first.", body = Proposals))
)]
pub(super) async fn list_proposals(
    _operator: Operator,
    State(state): State<OperatorState>,
) -> Result<Response, ApiError> {
    let listed = proposals::waiting(&state.means, LISTED_MAX).await?;
    Ok(serialized(&Proposals { proposals: Proposed::all(&*state.store, &listed).await? })?)
}

/// What approving can be refused for.
pub(super) struct ApproveRefusals;

impl IntoResponses for ApproveRefusals {
    fn responses() -> Documentation {
        responses(&[Refusal::UnknownProposal, Refusal::AdminValidation, Refusal::IllegalAct])
    }
}

/// Approve what somebody else proposed: it is done at once
#[utoipa::path(
    post,
    path = "/operator/v1/proposals/{proposal_id}/approve",
    operation_id = "approveProposal",
    tag = "Payments",
    params(("proposal_id" = Uuid, Path, description = "The proposal.")),
    responses((status = 200, description = "The payment as it is now.", body = Payment), ApproveRefusals)
)]
pub(super) async fn approve_proposal(
    operator: Operator,
    State(state): State<OperatorState>,
    ids: PathIds,
) -> Result<Response, ApiError> {
    let proposal: ProposalId = ids.id("proposal_id").ok_or(ApiError::NotFound)?;
    let by = Actor::Operator(operator.id());
    let approved = proposals::approve(&state.means, &state.engine_wake, proposal, by).await;
    let case = approved.map_err(refused)?;
    tracing::info!(%proposal, "an operator approved an act on a payment");
    whole(&state, case).await
}
