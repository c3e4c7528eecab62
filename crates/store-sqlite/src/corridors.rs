//! Corridors and their versions.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Row, params};
use settle_domain::corridor::{Corridor, CorridorTerms, CorridorVersion, VersionedCorridor};
use settle_domain::ids::MerchantId;
use settle_domain::pricing::CorridorPricing;
use settle_store::{
    CorridorKey, CorridorReads, CorridorWrites, MerchantLock, NewCorridor, StoreError, StoreResult,
    StoredCorridor,
};

use crate::convert::{column, hex, id, json_rows, number, optional_parsed, parsed, signed, time};
use crate::error::store_error;
use crate::query::Query;
use crate::{SqliteStore, SqliteTx};

settle_store::statements! {
    cold "an operator's listing" LIST = "
        SELECT merchant_id, incoming, outgoing, version, fee_percentage, fee_fixed, minimum, maximum, provider,
               alert_after_seconds, made_by, made_at, spread, partner, commission
        FROM corridors JOIN corridor_pricing USING (merchant_id, incoming, outgoing, version)
        WHERE merchant_id = ?1 ORDER BY incoming, outgoing, version DESC";
    hot FIND = "
        SELECT c.merchant_id, c.incoming, c.outgoing, c.version, fee_percentage, fee_fixed, minimum, maximum,
               provider, alert_after_seconds, made_by, made_at, spread, partner, commission
        FROM json_each(?1) AS asked
        CROSS JOIN corridors AS c
            ON c.merchant_id = unhex(asked.value ->> 0) AND c.incoming = asked.value ->> 1
               AND c.outgoing = asked.value ->> 2 AND c.version = (
                   SELECT version FROM corridors
                   WHERE merchant_id = unhex(asked.value ->> 0) AND incoming = asked.value ->> 1
                     AND outgoing = asked.value ->> 2
                   ORDER BY version DESC LIMIT 1)
        CROSS JOIN corridor_pricing AS p
            ON p.merchant_id = c.merchant_id AND p.incoming = c.incoming AND p.outgoing = c.outgoing
               AND p.version = c.version";
    hot VERSION = "
        SELECT merchant_id, incoming, outgoing, version, fee_percentage, fee_fixed, minimum, maximum, provider,
               alert_after_seconds, made_by, made_at, spread, partner, commission
        FROM corridors JOIN corridor_pricing USING (merchant_id, incoming, outgoing, version)
        WHERE merchant_id = ?1 AND incoming = ?2 AND outgoing = ?3 AND version = ?4";
    cold "an operator sets a corridor" PUT = "
        INSERT INTO corridors (merchant_id, incoming, outgoing, version, fee_percentage, fee_fixed, minimum,
                               maximum, provider, alert_after_seconds, made_by, made_at)
        VALUES (?1, ?2, ?3, 1 + ifnull((
            SELECT max(version) FROM corridors WHERE merchant_id = ?1 AND incoming = ?2 AND outgoing = ?3), 0),
            ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
        RETURNING version";
    cold "an operator sets a corridor" PUT_PRICING = "
        INSERT INTO corridor_pricing (merchant_id, incoming, outgoing, version, spread, partner, commission)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
}

#[async_trait]
impl CorridorReads for SqliteStore {
    async fn corridor_list(&self, merchant: MerchantId) -> StoreResult<Vec<StoredCorridor>> {
        self.connections.read(|connection| connection.rows(LIST, [merchant.0], corridor))
    }

    async fn corridor_find_many(&self, keys: &[CorridorKey]) -> StoreResult<Vec<StoredCorridor>> {
        let row = |key: &CorridorKey| (hex(key.merchant_id.0), key.incoming.code(), key.outgoing.code());
        let keys = json_rows(keys.iter().map(row));
        self.connections.read(|connection| connection.rows(FIND, [keys], corridor))
    }

    async fn corridor_version(
        &self,
        key: CorridorKey,
        version: CorridorVersion,
    ) -> StoreResult<Option<StoredCorridor>> {
        let asked = params![key.merchant_id.0, key.incoming.code(), key.outgoing.code(), version.0];
        self.connections.read(|connection| connection.row(VERSION, asked, corridor))
    }
}

#[async_trait]
impl CorridorWrites for SqliteTx {
    async fn corridor_put(&mut self, lock: &MerchantLock, new: &NewCorridor) -> StoreResult<CorridorVersion> {
        self.number.check(lock, [new.merchant_id])?;
        let (merchant, terms) = (new.merchant_id.0, new.corridor.terms());
        let (incoming, outgoing) = (terms.incoming.code(), terms.outgoing.code());
        let connection = self.writer.connection()?;
        let put = params![
            merchant,
            incoming,
            outgoing,
            terms.fee_percentage.to_string(),
            terms.fee_fixed.to_string(),
            terms.minimum.map(|amount| amount.to_string()),
            terms.maximum.map(|amount| amount.to_string()),
            terms.provider.as_str(),
            signed(terms.alert_after.as_secs()),
            new.made_by.to_string(),
            new.made_at.as_micros()
        ];
        let version: Option<u32> = connection.row(PUT, put, |row| column(row, 0))?;
        let version = version.ok_or_else(|| StoreError::unexpected("a version without a number"))?;
        let partner = new.pricing.partner();
        let priced = params![
            merchant,
            incoming,
            outgoing,
            version,
            new.pricing.spread().to_string(),
            partner.map(|partner| &partner.name),
            partner.map(|partner| partner.commission.to_string())
        ];
        connection.change(PUT_PRICING, priced).map_err(store_error)?;
        Ok(CorridorVersion(version))
    }
}

fn corridor(row: &Row<'_>) -> StoreResult<StoredCorridor> {
    let damaged = || StoreError::unexpected("a corridor that could not have been agreed");
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
            version: CorridorVersion(column(row, 3)?),
            corridor: Corridor::new(terms).map_err(|_| damaged())?,
            made_by: parsed(row, 10)?,
            made_at: time(row, 11)?,
        },
        pricing: pricing.map_err(|_| damaged())?,
    })
}
