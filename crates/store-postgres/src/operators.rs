//! Operators of the service.

use async_trait::async_trait;
use settle_domain::credential::CredentialHash;
use settle_domain::ids::OperatorId;
use settle_domain::time::Timestamp;
use settle_store::{NewOperator, Operator, OperatorReads, OperatorWrites, Revocation, StoreResult};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::convert::{At, column, id, optional_time, time};
use crate::error::{store_error, unique_name_error};
use crate::{PostgresStore, PostgresTx};

settle_store::statements! {
    hot AUTHENTICATE = "
        SELECT operator_id FROM operators
        WHERE token_hash = ANY ($1) AND revoked_at IS NULL";
    cold "an operator's listing" LIST = "
        SELECT operator_id, name, created_at, revoked_at FROM operators ORDER BY created_at, operator_id";
    cold "an operator adds another" CREATE = "
        INSERT INTO operators (operator_id, name, token_hash, created_at) VALUES ($1, $2, $3, $4)";
    cold "an operator revokes another" REVOKE = "
        UPDATE operators SET revoked_at = $2 WHERE operator_id = $1 AND revoked_at IS NULL";
    cold "an operator revokes another" EXISTS = "SELECT count(*) FROM operators WHERE operator_id = $1";
}

#[async_trait]
impl OperatorReads for PostgresStore {
    async fn operator_authenticate(&self, hashes: &[CredentialHash]) -> StoreResult<Option<OperatorId>> {
        let hashes: Vec<&[u8]> = hashes.iter().map(|hash| hash.0.as_slice()).collect();
        let query = sqlx::query_scalar(AUTHENTICATE).bind(hashes);
        let operator: Option<Uuid> = query.fetch_optional(&self.pool).await.map_err(store_error)?;
        Ok(operator.map(OperatorId))
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

fn operator(row: &PgRow) -> StoreResult<Operator> {
    Ok(Operator {
        operator_id: id(row, "operator_id", OperatorId)?,
        name: column(row, "name")?,
        created_at: time(row, "created_at")?,
        revoked_at: optional_time(row, "revoked_at")?,
    })
}
