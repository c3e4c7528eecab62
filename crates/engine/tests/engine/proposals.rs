//! Acts that wait for a second person: those that can still be approved are listed.

use settle_domain::actor::Actor;
use settle_domain::credential::{CredentialHash, CredentialSeal};
use settle_domain::ids::{OperatorId, PaymentId, ProposalId};
use settle_domain::payment::{Act, Outcome, StateName};
use settle_domain::seams::{Clock, SeededEntropy};
use settle_engine::acts::ActError;
use settle_engine::acts::proposals::{PROPOSAL_LIFETIME, approve, propose, waiting};
use settle_engine::advance::Deed;
use settle_engine::wake::EngineWake;
use settle_store::conformance::ScratchStore;
use settle_store::{NewOperator, Operator};

use crate::desk::Lie;
use crate::notices::{deed, do_by_hand};
use crate::world::World;

settle_testing::on_both_stores! {
    what_can_no_longer_be_approved_is_not_listed,
    looking_a_payment_up_again_leaves_its_proposal,
    what_a_revoked_token_proposed_is_not_approved,
}

async fn proposed(world: &World, payment: PaymentId, act: Act, seed: u64) -> ProposalId {
    let version = world.row(payment).await.version;
    let entropy = SeededEntropy::new(seed);
    let proposal = propose(&world.means, &entropy, (world.merchant, payment), version, &deed(act)).await;
    proposal.unwrap().proposal_id
}

async fn listed(world: &World) -> Vec<ProposalId> {
    waiting(&world.means, 10).await.unwrap().iter().map(|proposal| proposal.proposal_id).collect()
}

async fn what_can_no_longer_be_approved_is_not_listed(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Refuse, Lie::Refuse]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    let refund = proposed(&world, payment, Act::Refund, 1).await;
    assert_eq!(listed(&world).await, [refund]);
    do_by_hand(&world, payment, Act::Retry).await;
    assert_eq!(listed(&world).await, [], "the payment has changed since");

    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    let expires = proposed(&world, payment, Act::Refund, 2).await;
    assert_eq!(listed(&world).await, [expires]);
    world.clock.set(world.clock.now().plus(PROPOSAL_LIFETIME));
    assert_eq!(listed(&world).await, [], "a day is over");

    let approved = proposed(&world, payment, Act::Refund, 3).await;
    let somebody = Actor::Operator(OperatorId(uuid::Uuid::from_u128(7)));
    approve(&world.means, &EngineWake::default(), approved, somebody).await.unwrap();
    assert_eq!(listed(&world).await, [], "it is done");
}

/// Somebody else may have had it.
async fn what_a_revoked_token_proposed_is_not_approved(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Refuse]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    let thief = OperatorId(uuid::Uuid::from_u128(8));
    let now = world.clock.now();
    let operator =
        Operator { operator_id: thief, name: format!("of {payment}"), created_at: now, revoked_at: None };
    let (hash, seal) = (CredentialHash([8; 32]), CredentialSeal(vec![8; 36]));
    let mut tx = world.store.begin().await.unwrap();
    tx.operator_create(&NewOperator { operator, hash, seal }).await.unwrap();
    tx.commit().await.unwrap();
    let version = world.row(payment).await.version;
    let elsewhere = Deed { by: Actor::Operator(thief), ..deed(Act::Retry) };
    let entropy = SeededEntropy::new(1);
    let proposal = propose(&world.means, &entropy, (world.merchant, payment), version, &elsewhere).await;
    let proposal = proposal.unwrap().proposal_id;
    assert_eq!(listed(&world).await, [proposal]);
    let mut tx = world.store.begin().await.unwrap();
    tx.operator_revoke(thief, now).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(listed(&world).await, []);
    let approved = approve(&world.means, &EngineWake::default(), proposal, Actor::Command).await;
    assert!(matches!(approved, Err(ActError::Expired)), "{approved:?}");
    assert_eq!(world.row(payment).await.standing.state, StateName::Failed);
}

async fn looking_a_payment_up_again_leaves_its_proposal(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Short]).await;
    world.go(payment).await;
    while world.row(payment).await.standing.state != StateName::NeedsReview {
        world.go_when_due(payment).await;
    }
    let proposal = proposed(&world, payment, Act::Resolve(Outcome::NotPaid), 1).await;
    let version = world.row(payment).await.version;
    assert!(world.go_when_due(payment).await.version > version);
    assert_eq!(listed(&world).await, [proposal]);
}
