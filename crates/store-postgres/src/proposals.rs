//! Acts on payments that wait for a second person.

use async_trait::async_trait;
use settle_domain::actor::Actor;
use settle_domain::ids::{MerchantId, PaymentId, ProposalId};
use settle_domain::time::Timestamp;
use settle_store::{Proposal, ProposalReads, ProposalWrites, StoreResult};
use sqlx::postgres::PgRow;

use crate::convert::{At, column, id, number, optional_parsed, parsed, signed, time};
use crate::error::store_error;
use crate::{PostgresStore, PostgresTx};

settle_store::statements! {
    cold "an operator's listing" LIST = "
        SELECT proposal_id, merchant_id, payment_id, version, deed, proposed_by, proposed_at, expires_at, approved_by
        FROM proposals WHERE approved_by IS NULL AND expires_at > $1 ORDER BY proposal_id LIMIT $2";
    cold "an operator approves" FIND = "
        SELECT proposal_id, merchant_id, payment_id, version, deed, proposed_by, proposed_at, expires_at, approved_by
        FROM proposals WHERE proposal_id = $1";
    cold "an operator proposes" CREATE = "
        INSERT INTO proposals (proposal_id, merchant_id, payment_id, version, deed, proposed_by, proposed_at, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    cold "an operator approves" APPROVE = "
        UPDATE proposals SET approved_by = $2 WHERE proposal_id = $1 AND approved_by IS NULL";
}

#[async_trait]
impl ProposalReads for PostgresStore {
    async fn proposal_list(&self, now: Timestamp, limit: u32) -> StoreResult<Vec<Proposal>> {
        let query = sqlx::query(LIST).bind(At(now)).bind(signed(limit));
        query.fetch_all(&self.pool).await.map_err(store_error)?.iter().map(proposal).collect()
    }

    async fn proposal_find(&self, asked: ProposalId) -> StoreResult<Option<Proposal>> {
        let row = sqlx::query(FIND).bind(asked.0).fetch_optional(&self.pool).await.map_err(store_error)?;
        row.as_ref().map(proposal).transpose()
    }
}

#[async_trait]
impl ProposalWrites for PostgresTx {
    async fn proposal_create(&mut self, proposal: &Proposal) -> StoreResult<()> {
        let query = sqlx::query(CREATE)
            .bind(proposal.proposal_id.0)
            .bind(proposal.merchant_id.0)
            .bind(proposal.payment_id.0)
            .bind(signed(proposal.version))
            .bind(&proposal.deed)
            .bind(proposal.proposed_by.to_string())
            .bind(At(proposal.proposed_at))
            .bind(At(proposal.expires_at));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }

    async fn proposal_approve(&mut self, proposal: ProposalId, by: Actor) -> StoreResult<bool> {
        let query = sqlx::query(APPROVE).bind(proposal.0).bind(by.to_string());
        let approved = query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(approved.rows_affected() > 0)
    }
}

fn proposal(row: &PgRow) -> StoreResult<Proposal> {
    Ok(Proposal {
        proposal_id: id(row, "proposal_id", ProposalId)?,
        merchant_id: id(row, "merchant_id", MerchantId)?,
        payment_id: id(row, "payment_id", PaymentId)?,
        version: number(row, "version")?,
        deed: column(row, "deed")?,
        proposed_by: parsed(row, "proposed_by")?,
        proposed_at: time(row, "proposed_at")?,
        expires_at: time(row, "expires_at")?,
        approved_by: optional_parsed(row, "approved_by")?,
    })
}
