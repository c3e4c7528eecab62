//! What is on each account of a merchant.

use async_trait::async_trait;
use settle_domain::ids::MerchantId;
use settle_domain::ledger::{Postings, SignedAmount};
use settle_domain::money::Asset;
use settle_store::{
    Balance, BalanceReads, BalanceWrites, MerchantLock, StoreError, StoreResult, sum_postings,
};
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::convert::{array, id, parsed, signed};
use crate::error::store_error;
use crate::{PostgresStore, PostgresTx};

settle_store::statements! {
    cold "an operator's listing" OF = "
        SELECT merchant_id, account, asset, amount::text FROM balances WHERE merchant_id = $1
        ORDER BY account, asset";
    cold "an operator's listing" LIST = "
        SELECT merchant_id, account, asset, amount::text FROM balances
        WHERE merchant_id IN (
            SELECT DISTINCT merchant_id FROM balances WHERE merchant_id > $1 ORDER BY merchant_id LIMIT $2)
        ORDER BY merchant_id, account, asset";
    hot POST = "
        INSERT INTO balances (merchant_id, account, asset, amount)
        SELECT merchant_id, account, asset, amount::numeric
        FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS row (merchant_id, account, asset, amount)
        ON CONFLICT (merchant_id, account, asset) DO UPDATE SET amount = balances.amount + excluded.amount";
}

#[async_trait]
impl BalanceReads for PostgresStore {
    async fn balance_of(&self, merchant: MerchantId) -> StoreResult<Vec<Balance>> {
        let rows = sqlx::query(OF).bind(merchant.0).fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(balance).collect()
    }

    async fn balance_list(&self, after: Option<MerchantId>, merchants: u32) -> StoreResult<Vec<Balance>> {
        let after = after.map_or(Uuid::nil(), |after| after.0);
        let query = sqlx::query(LIST).bind(after).bind(signed(merchants));
        let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(balance).collect()
    }
}

#[async_trait]
impl BalanceWrites for PostgresTx {
    async fn balance_post_many(
        &mut self,
        lock: &MerchantLock,
        postings: &[(MerchantId, Postings)],
    ) -> StoreResult<()> {
        self.number.check(lock, postings.iter().map(|(merchant, _)| *merchant))?;
        let changes = sum_postings(postings)?;
        if changes.is_empty() {
            return Ok(());
        }
        let query = sqlx::query(POST)
            .bind(array(&changes, |change| change.merchant_id.0))
            .bind(array(&changes, |change| change.account.as_str()))
            .bind(array(&changes, |change| change.asset.code()))
            .bind(array(&changes, |change| change.amount.to_string()));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }
}

/// The server gives a sum the scale of its parts, which is the asset's; a sum of zero keeps it too.
fn balance(row: &PgRow) -> StoreResult<Balance> {
    let (asset, amount): (Asset, SignedAmount) = (parsed(row, 2)?, parsed(row, 3)?);
    let damaged = || StoreError::unexpected("a balance that its asset cannot have");
    Ok(Balance {
        merchant_id: id(row, 0, MerchantId)?,
        account: parsed(row, 1)?,
        asset,
        amount: amount.at_scale(asset).ok_or_else(damaged)?,
    })
}
