//! Corridors and their versions.

use std::time::Duration;

use async_trait::async_trait;
use settle_domain::corridor::{Corridor, CorridorTerms, CorridorVersion, VersionedCorridor};
use settle_domain::ids::MerchantId;
use settle_domain::pricing::CorridorPricing;
use settle_store::{
    CorridorKey, CorridorReads, CorridorWrites, MerchantLock, NewCorridor, StoreError, StoreResult,
    StoredCorridor,
};
use sqlx::postgres::PgRow;

use crate::convert::{At, array, column, id, number, optional_parsed, parsed, signed, small, time};
use crate::error::store_error;
use crate::{PostgresStore, PostgresTx};

settle_store::statements! {
    cold "an operator's listing" LIST = "
        SELECT merchant_id, incoming, outgoing, version, fee_percentage, fee_fixed, minimum, maximum, provider,
               alert_after_seconds, made_by, made_at, spread, partner, commission
        FROM corridors JOIN corridor_pricing USING (merchant_id, incoming, outgoing, version)
        WHERE merchant_id = $1 ORDER BY incoming, outgoing, version DESC";
    hot FIND = "
        SELECT asked.merchant_id, asked.incoming, asked.outgoing, newest.version, newest.fee_percentage,
               newest.fee_fixed, newest.minimum, newest.maximum, newest.provider, newest.alert_after_seconds,
               newest.made_by, newest.made_at, priced.spread, priced.partner, priced.commission
        FROM unnest($1::uuid[], $2::text[], $3::text[]) AS asked (merchant_id, incoming, outgoing)
        CROSS JOIN LATERAL (
            SELECT * FROM corridors
            WHERE merchant_id = asked.merchant_id AND incoming = asked.incoming AND outgoing = asked.outgoing
            ORDER BY version DESC LIMIT 1
        ) AS newest
        CROSS JOIN LATERAL (
            SELECT spread, partner, commission FROM corridor_pricing
            WHERE merchant_id = asked.merchant_id AND incoming = asked.incoming AND outgoing = asked.outgoing
              AND version = newest.version LIMIT 1
        ) AS priced";
    hot VERSION = "
        SELECT merchant_id, incoming, outgoing, version, fee_percentage, fee_fixed, minimum, maximum, provider,
               alert_after_seconds, made_by, made_at, spread, partner, commission
        FROM corridors JOIN corridor_pricing USING (merchant_id, incoming, outgoing, version)
        WHERE merchant_id = $1 AND incoming = $2 AND outgoing = $3 AND version = $4";
    cold "an operator sets a corridor" PUT = "
        INSERT INTO corridors (merchant_id, incoming, outgoing, version, fee_percentage, fee_fixed, minimum,
                               maximum, provider, alert_after_seconds, made_by, made_at)
        VALUES ($1, $2, $3, 1 + coalesce((
            SELECT max(version) FROM corridors WHERE merchant_id = $1 AND incoming = $2 AND outgoing = $3), 0),
            $4, $5, $6, $7, $8, $9, $10, $11)
        RETURNING version";
    cold "an operator sets a corridor" PUT_PRICING = "
        INSERT INTO corridor_pricing (merchant_id, incoming, outgoing, version, spread, partner, commission)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
}

#[async_trait]
impl CorridorReads for PostgresStore {
    async fn corridor_list(&self, merchant: MerchantId) -> StoreResult<Vec<StoredCorridor>> {
        let rows = sqlx::query(LIST).bind(merchant.0).fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(corridor).collect()
    }

    async fn corridor_find_many(&self, keys: &[CorridorKey]) -> StoreResult<Vec<StoredCorridor>> {
        let query = sqlx::query(FIND)
            .bind(array(keys, |key| key.merchant_id.0))
            .bind(array(keys, |key| key.incoming.code()))
            .bind(array(keys, |key| key.outgoing.code()));
        let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(corridor).collect()
    }

    async fn corridor_version(
        &self,
        key: CorridorKey,
        version: CorridorVersion,
    ) -> StoreResult<Option<StoredCorridor>> {
        let query = sqlx::query(VERSION)
            .bind(key.merchant_id.0)
            .bind(key.incoming.code())
            .bind(key.outgoing.code())
            .bind(small(version.0));
        let row = query.fetch_optional(&self.pool).await.map_err(store_error)?;
        row.as_ref().map(corridor).transpose()
    }
}

#[async_trait]
impl CorridorWrites for PostgresTx {
    async fn corridor_put(&mut self, lock: &MerchantLock, new: &NewCorridor) -> StoreResult<CorridorVersion> {
        self.number.check(lock, [new.merchant_id])?;
        let (merchant, terms) = (new.merchant_id.0, new.corridor.terms());
        let (incoming, outgoing) = (terms.incoming.code(), terms.outgoing.code());
        let put = sqlx::query(PUT)
            .bind(merchant)
            .bind(incoming)
            .bind(outgoing)
            .bind(terms.fee_percentage.to_string())
            .bind(terms.fee_fixed.to_string())
            .bind(terms.minimum.map(|amount| amount.to_string()))
            .bind(terms.maximum.map(|amount| amount.to_string()))
            .bind(terms.provider.as_str())
            .bind(signed(terms.alert_after.as_secs()))
            .bind(new.made_by.to_string())
            .bind(At(new.made_at));
        let row = put.fetch_one(&mut *self.inner).await.map_err(store_error)?;
        let version: i32 = column(&row, 0)?;
        let partner = new.pricing.partner();
        let priced = sqlx::query(PUT_PRICING)
            .bind(merchant)
            .bind(incoming)
            .bind(outgoing)
            .bind(version)
            .bind(new.pricing.spread().to_string())
            .bind(partner.map(|partner| &partner.name))
            .bind(partner.map(|partner| partner.commission.to_string()));
        priced.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(CorridorVersion(version.unsigned_abs()))
    }
}

fn corridor(row: &PgRow) -> StoreResult<StoredCorridor> {
    let damaged = || StoreError::unexpected("a corridor that could not have been agreed");
    let version: i32 = column(row, 3)?;
    let terms = CorridorTerms {
        incoming: parsed(row, 1)?,
        outgoing: parsed(row, 2)?,
        fee_percentage: parsed(row, 4)?,
        fee_fixed: parsed(row, 5)?,
        minimum: optional_parsed(row, 6)?,
        maximum: optional_parsed(row, 7)?,
        provider: parsed(row, 8)?,
        alert_after: Duration::from_secs(number(row, 9)?),
    };
    let pricing = CorridorPricing::new(parsed(row, 12)?, column(row, 13)?, optional_parsed(row, 14)?);
    Ok(StoredCorridor {
        merchant_id: id(row, 0, MerchantId)?,
        versioned: VersionedCorridor {
            version: CorridorVersion(version.unsigned_abs()),
            corridor: Corridor::new(terms).map_err(|_| damaged())?,
            made_by: parsed(row, 10)?,
            made_at: time(row, 11)?,
        },
        pricing: pricing.map_err(|_| damaged())?,
    })
}
