//! Acts on payments that wait for a second person.

use async_trait::async_trait;
use rusqlite::{Row, params};
use settle_domain::actor::Actor;
use settle_domain::ids::{MerchantId, PaymentId, ProposalId};
use settle_domain::time::Timestamp;
use settle_store::{Proposal, ProposalReads, ProposalWrites, StoreResult};

use crate::convert::{column, id, number, optional_parsed, parsed, signed, time};
use crate::error::store_error;
use crate::query::Query;
use crate::{SqliteStore, SqliteTx};

settle_store::statements! {
    cold "an operator's listing" LIST = "
        SELECT proposal_id, merchant_id, payment_id, version, deed, proposed_by, proposed_at, expires_at, approved_by
        FROM proposals WHERE approved_by IS NULL AND expires_at > ?1 ORDER BY proposal_id LIMIT ?2 + 0";
    cold "an operator approves" FIND = "
        SELECT proposal_id, merchant_id, payment_id, version, deed, proposed_by, proposed_at, expires_at, approved_by
        FROM proposals WHERE proposal_id = ?1";
    cold "an operator proposes" CREATE = "
        INSERT INTO proposals (proposal_id, merchant_id, payment_id, version, deed, proposed_by, proposed_at, expires_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    cold "an operator approves" APPROVE = "
        UPDATE proposals SET approved_by = ?2 WHERE proposal_id = ?1 AND approved_by IS NULL";
}

#[async_trait]
impl ProposalReads for SqliteStore {
    async fn proposal_list(&self, now: Timestamp, limit: u32) -> StoreResult<Vec<Proposal>> {
        self.connections.read(|connection| connection.rows(LIST, params![now.as_micros(), limit], proposal))
    }

    async fn proposal_find(&self, asked: ProposalId) -> StoreResult<Option<Proposal>> {
        self.connections.read(|connection| connection.row(FIND, [asked.0], proposal))
    }
}

#[async_trait]
impl ProposalWrites for SqliteTx {
    async fn proposal_create(&mut self, proposal: &Proposal) -> StoreResult<()> {
        let row = params![
            proposal.proposal_id.0,
            proposal.merchant_id.0,
            proposal.payment_id.0,
            signed(proposal.version),
            proposal.deed,
            proposal.proposed_by.to_string(),
            proposal.proposed_at.as_micros(),
            proposal.expires_at.as_micros()
        ];
        self.writer.connection()?.change(CREATE, row).map_err(store_error)?;
        Ok(())
    }

    async fn proposal_approve(&mut self, proposal: ProposalId, by: Actor) -> StoreResult<bool> {
        let approved = self.writer.connection()?.change(APPROVE, params![proposal.0, by.to_string()]);
        Ok(approved.map_err(store_error)? > 0)
    }
}

fn proposal(row: &Row<'_>) -> StoreResult<Proposal> {
    Ok(Proposal {
        proposal_id: id(row, 0, ProposalId)?,
        merchant_id: id(row, 1, MerchantId)?,
        payment_id: id(row, 2, PaymentId)?,
        version: number(row, 3)?,
        deed: column(row, 4)?,
        proposed_by: parsed(row, 5)?,
        proposed_at: time(row, 6)?,
        expires_at: time(row, 7)?,
        approved_by: optional_parsed(row, 8)?,
    })
}
