//! Operators of the service.

use async_trait::async_trait;
use settle_domain::credential::CredentialHash;
use settle_domain::ids::OperatorId;
use settle_domain::time::Timestamp;
use settle_store::{
    NewOperator, Operator, OperatorReads, OperatorWrites, Revocation, StoreResult, StoredToken,
};
use sqlx::postgres::PgRow;

use crate::convert::{At, column, hash, id, optional_time, seal, time};
use crate::error::{store_error, unique_name_error};
use crate::{PostgresStore, PostgresTx};

settle_store::statements! {
    hot FIND = "
        SELECT operator_id, token_hash, seal FROM operators
        WHERE token_hash = $1 AND revoked_at IS NULL";
    cold "an operator's listing" LIST = "
        SELECT operator_id, name, created_at, revoked_at FROM operators ORDER BY created_at, operator_id";
    cold "an operator adds another" CREATE = "
        INSERT INTO operators (operator_id, name, token_hash, seal, created_at) VALUES ($1, $2, $3, $4, $5)";
    cold "an operator revokes another" REVOKE = "
        UPDATE operators SET revoked_at = $2, seal = NULL WHERE operator_id = $1 AND revoked_at IS NULL";
    cold "an operator revokes another" EXISTS = "SELECT count(*) FROM operators WHERE operator_id = $1";
}

#[async_trait]
impl OperatorReads for PostgresStore {
    async fn operator_find(&self, hash: CredentialHash) -> StoreResult<Option<StoredToken>> {
        let query = sqlx::query(FIND).bind(hash.0.as_slice());
        let row = query.fetch_optional(&self.pool).await.map_err(store_error)?;
        row.as_ref().map(stored).transpose()
    }

    async fn operator_list(&self) -> StoreResult<Vec<Operator>> {
        let rows = sqlx::query(LIST).fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(operator).collect()
    }
}

#[async_trait]
impl OperatorWrites for PostgresTx {
    async fn operator_create(&mut self, new: &NewOperator) -> StoreResult<()> {
        let operator = &new.operator;
        let query = sqlx::query(CREATE)
            .bind(operator.operator_id.0)
            .bind(&operator.name)
            .bind(new.hash.0.as_slice())
            .bind(new.seal.0.as_slice())
            .bind(At(operator.created_at));
        query.execute(&mut *self.inner).await.map_err(unique_name_error)?;
        Ok(())
    }

    async fn operator_revoke(&mut self, operator: OperatorId, at: Timestamp) -> StoreResult<Revocation> {
        let query = sqlx::query(REVOKE).bind(operator.0).bind(At(at));
        let revoked = query.execute(&mut *self.inner).await.map_err(store_error)?;
        if revoked.rows_affected() > 0 {
            return Ok(Revocation::Revoked);
        }
        let query = sqlx::query_scalar(EXISTS).bind(operator.0);
        let known: i64 = query.fetch_one(&mut *self.inner).await.map_err(store_error)?;
        Ok(if known > 0 { Revocation::AlreadyRevoked } else { Revocation::Unknown })
    }
}

pub(crate) fn stored(row: &PgRow) -> StoreResult<StoredToken> {
    Ok(StoredToken {
        operator_id: id(row, "operator_id", OperatorId)?,
        hash: hash(row, "token_hash")?,
        seal: seal(row, "seal")?,
    })
}

fn operator(row: &PgRow) -> StoreResult<Operator> {
    Ok(Operator {
        operator_id: id(row, "operator_id", OperatorId)?,
        name: column(row, "name")?,
        created_at: time(row, "created_at")?,
        revoked_at: optional_time(row, "revoked_at")?,
    })
}
