//! Operators of the service.

use async_trait::async_trait;
use rusqlite::{Row, params};
use settle_domain::credential::CredentialHash;
use settle_domain::ids::OperatorId;
use settle_domain::time::Timestamp;
use settle_store::{
    NewOperator, Operator, OperatorReads, OperatorWrites, Revocation, StoreResult, StoredToken,
};

use crate::convert::{column, hash, id, optional_time, seal, time};
use crate::error::{store_error, unique_name_error};
use crate::query::Query;
use crate::{SqliteStore, SqliteTx};

settle_store::statements! {
    hot FIND = "
        SELECT operator_id, token_hash, seal FROM operators
        WHERE token_hash = ?1 AND revoked_at IS NULL";
    cold "an operator's listing" LIST = "
        SELECT operator_id, name, created_at, revoked_at FROM operators ORDER BY created_at, operator_id";
    cold "an operator adds another" CREATE = "
        INSERT INTO operators (operator_id, name, token_hash, seal, created_at) VALUES (?1, ?2, ?3, ?4, ?5)";
    cold "an operator revokes another" REVOKE = "
        UPDATE operators SET revoked_at = ?2, seal = NULL WHERE operator_id = ?1 AND revoked_at IS NULL";
    cold "an operator revokes another" EXISTS = "SELECT 1 FROM operators WHERE operator_id = ?1";
}

#[async_trait]
impl OperatorReads for SqliteStore {
    async fn operator_find(&self, hash: CredentialHash) -> StoreResult<Option<StoredToken>> {
        self.connections.read(|connection| connection.row(FIND, [hash.0], stored))
    }

    async fn operator_list(&self) -> StoreResult<Vec<Operator>> {
        self.connections.read(|connection| connection.rows(LIST, [], operator))
    }
}

#[async_trait]
impl OperatorWrites for SqliteTx {
    async fn operator_create(&mut self, new: &NewOperator) -> StoreResult<()> {
        let operator = &new.operator;
        let created = params![
            operator.operator_id.0,
            operator.name,
            new.hash.0,
            new.seal.0,
            operator.created_at.as_micros()
        ];
        self.writer.connection()?.change(CREATE, created).map_err(unique_name_error)?;
        Ok(())
    }

    async fn operator_revoke(&mut self, operator: OperatorId, at: Timestamp) -> StoreResult<Revocation> {
        if self
            .writer
            .connection()?
            .change(REVOKE, params![operator.0, at.as_micros()])
            .map_err(store_error)?
            > 0
        {
            return Ok(Revocation::Revoked);
        }
        let known = self.writer.connection()?.row(EXISTS, [operator.0], |_| Ok(()))?;
        Ok(if known.is_some() { Revocation::AlreadyRevoked } else { Revocation::Unknown })
    }
}

pub(crate) fn stored(row: &Row<'_>) -> StoreResult<StoredToken> {
    Ok(StoredToken {
        operator_id: id(row, "operator_id", OperatorId)?,
        hash: hash(row, "token_hash")?,
        seal: seal(row, "seal")?,
    })
}

fn operator(row: &Row<'_>) -> StoreResult<Operator> {
    Ok(Operator {
        operator_id: id(row, "operator_id", OperatorId)?,
        name: column(row, "name")?,
        created_at: time(row, "created_at")?,
        revoked_at: optional_time(row, "revoked_at")?,
    })
}
