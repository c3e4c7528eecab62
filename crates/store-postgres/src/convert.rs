//! Between the types of the domain and the columns of PostgreSQL.

use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;
use settle_store::{StoreError, StoreResult};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgRow, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Row, Type};
use uuid::Uuid;

/// Microseconds between 1970, where ours start, and 2000, where PostgreSQL's do.
const EPOCH_DIFFERENCE_MICROS: i64 = 946_684_800_000_000;

/// A time as `timestamptz`: both sides count microseconds, so nothing is lost on the way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At(pub Timestamp);

impl Type<Postgres> for At {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("timestamptz")
    }
}

impl PgHasArrayType for At {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("_timestamptz")
    }
}

impl Encode<'_, Postgres> for At {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode(self.0.as_micros() - EPOCH_DIFFERENCE_MICROS, buffer)
    }
}

impl<'r> Decode<'r, Postgres> for At {
    fn decode(value: PgValueRef<'r>) -> Result<At, BoxDynError> {
        let micros = <i64 as Decode<Postgres>>::decode(value)?;
        Ok(At(Timestamp::from_micros(micros.saturating_add(EPOCH_DIFFERENCE_MICROS))))
    }
}

/// One column of a batch as an array argument.
pub(crate) fn array<'a, Row, T>(rows: &'a [Row], value: impl Fn(&'a Row) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

/// Merchants as an array argument.
pub(crate) fn merchant_array(merchants: &[MerchantId]) -> Vec<Uuid> {
    merchants.iter().map(|merchant| merchant.0).collect()
}

/// Reads one column, and says which one is damaged.
pub(crate) fn column<'r, T>(row: &'r PgRow, name: &str) -> StoreResult<T>
where
    T: Decode<'r, Postgres> + Type<Postgres>,
{
    row.try_get(name).map_err(|fault| StoreError::Unexpected(fault.into()))
}

pub(crate) fn id<T>(row: &PgRow, name: &str, make: fn(Uuid) -> T) -> StoreResult<T> {
    column(row, name).map(make)
}

pub(crate) fn time(row: &PgRow, name: &str) -> StoreResult<Timestamp> {
    column(row, name).map(|At(time)| time)
}

pub(crate) fn optional_time(row: &PgRow, name: &str) -> StoreResult<Option<Timestamp>> {
    let time: Option<At> = column(row, name)?;
    Ok(time.map(|At(time)| time))
}
