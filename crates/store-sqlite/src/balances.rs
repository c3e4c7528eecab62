//! What is on each account of a merchant.

use async_trait::async_trait;
use rusqlite::{Row, params};
use settle_domain::ids::MerchantId;
use settle_domain::ledger::{Postings, SignedAmount};
use settle_store::{
    Balance, BalanceReads, BalanceWrites, MerchantLock, StoreError, StoreResult, sum_postings,
};
use uuid::Uuid;

use crate::convert::{id, parsed, signed};
use crate::error::store_error;
use crate::query::Query;
use crate::{SqliteStore, SqliteTx};

settle_store::statements! {
    cold "an operator's listing" OF = "
        SELECT merchant_id, account, asset, amount FROM balances WHERE merchant_id = ?1
        ORDER BY account, asset";
    cold "an operator's listing" LIST = "
        SELECT merchant_id, account, asset, amount FROM balances
        WHERE merchant_id IN (
            SELECT DISTINCT merchant_id FROM balances WHERE merchant_id > ?1 ORDER BY merchant_id LIMIT ?2 + 0)
        ORDER BY merchant_id, account, asset";
    hot AMOUNT = "
        SELECT amount FROM balances WHERE merchant_id = ?1 AND account = ?2 AND asset = ?3";
    hot PUT = "
        INSERT INTO balances (merchant_id, account, asset, amount) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (merchant_id, account, asset) DO UPDATE SET amount = excluded.amount";
}

#[async_trait]
impl BalanceReads for SqliteStore {
    async fn balance_of(&self, merchant: MerchantId) -> StoreResult<Vec<Balance>> {
        self.connections.read(|connection| connection.rows(OF, [merchant.0], balance))
    }

    async fn balance_list(&self, after: Option<MerchantId>, merchants: u32) -> StoreResult<Vec<Balance>> {
        let after = after.map_or(Uuid::nil(), |after| after.0);
        let asked = params![after, signed(merchants)];
        self.connections.read(|connection| connection.rows(LIST, asked, balance))
    }
}

#[async_trait]
impl BalanceWrites for SqliteTx {
    /// Differs because SQLite has no exact decimals: the sum is computed here, under the one writer's lock.
    async fn balance_post_many(
        &mut self,
        lock: &MerchantLock,
        postings: &[(MerchantId, Postings)],
    ) -> StoreResult<()> {
        self.number.check(lock, postings.iter().map(|(merchant, _)| *merchant))?;
        let connection = self.writer.connection()?;
        for change in sum_postings(postings)? {
            let (merchant, account, asset) =
                (change.merchant_id.0, change.account.as_str(), change.asset.code());
            let before: Option<SignedAmount> =
                connection.row(AMOUNT, params![merchant, account, asset], |row| parsed(row, 0))?;
            let before = before.unwrap_or_else(|| SignedAmount::zero(change.asset));
            let too_many = || StoreError::unexpected("a balance has too many digits");
            let after = before.plus(change.amount).ok_or_else(too_many)?.to_string();
            connection.change(PUT, params![merchant, account, asset, after]).map_err(store_error)?;
        }
        Ok(())
    }
}

fn balance(row: &Row<'_>) -> StoreResult<Balance> {
    Ok(Balance {
        merchant_id: id(row, 0, MerchantId)?,
        account: parsed(row, 1)?,
        asset: parsed(row, 2)?,
        amount: parsed(row, 3)?,
    })
}
