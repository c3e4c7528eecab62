//! Acts on payments that wait for a second person.

use std::time::Duration;

use settle_domain::actor::Actor;
use settle_domain::ids::{MerchantId, OperatorId, PaymentId, ProposalId};

use super::fixtures::{at, unique_uuid};
use crate::{Proposal, Store};

/// It is listed until somebody approves it or it expires, and approved once.
pub async fn a_proposal_is_approved_once(store: &dyn Store) {
    let proposal = |proposed: u64| Proposal {
        proposal_id: ProposalId(unique_uuid()),
        merchant_id: MerchantId(unique_uuid()),
        payment_id: PaymentId(unique_uuid()),
        version: 7,
        deed: "{\"act\":\"refund\"}".to_owned(),
        proposed_by: Actor::Operator(OperatorId(unique_uuid())),
        proposed_at: at(proposed),
        expires_at: at(proposed).plus(Duration::from_secs(10)),
        approved_by: None,
    };
    let (early, late) = (proposal(1), proposal(5));
    let mut tx = store.begin().await.unwrap();
    tx.proposal_create(&early).await.unwrap();
    tx.proposal_create(&late).await.unwrap();
    tx.commit().await.unwrap();

    let listed = async |second: u64| {
        let mut listed = store.proposal_list(at(second), 1_000).await.unwrap();
        listed.retain(|known| [early.proposal_id, late.proposal_id].contains(&known.proposal_id));
        listed.sort_by_key(|known| known.proposed_at);
        listed
    };
    assert_eq!(listed(10).await, [early.clone(), late.clone()]);
    assert_eq!(listed(11).await, std::slice::from_ref(&late), "the other has expired");
    assert_eq!(
        store.proposal_find(early.proposal_id).await.unwrap(),
        Some(early.clone()),
        "it is still known"
    );

    let by = Actor::Operator(OperatorId(unique_uuid()));
    for expected in [true, false] {
        let mut tx = store.begin().await.unwrap();
        assert_eq!(tx.proposal_approve(late.proposal_id, by).await.unwrap(), expected);
        tx.commit().await.unwrap();
    }
    assert_eq!(listed(10).await, [early]);
    let approved = store.proposal_find(late.proposal_id).await.unwrap().unwrap();
    assert_eq!(approved.approved_by, Some(by));
    assert_eq!(store.proposal_find(ProposalId(unique_uuid())).await.unwrap(), None);
}
