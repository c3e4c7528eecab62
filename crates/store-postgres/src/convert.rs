//! Conversions between the types of the domain and the columns of PostgreSQL.

use std::str::FromStr;

use settle_domain::credential::{CredentialHash, CredentialSeal};
use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;
use settle_store::{StoreError, StoreResult};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgRow, PgTypeInfo, PgValueRef};
use sqlx::{ColumnIndex, Decode, Encode, Postgres, Row, Type};
use uuid::Uuid;

/// Microseconds from 1970, where our times start, to 2000, where PostgreSQL's start.
const EPOCH_DIFFERENCE_MICROS: i64 = 946_684_800_000_000;

/// PostgreSQL's ids of the types of a time and of an array of times, the same in every database.
const TIMESTAMPTZ: Oid = Oid(1184);
const TIMESTAMPTZ_ARRAY: Oid = Oid(1185);

/// A time as `timestamptz`: both sides count microseconds, so no precision is lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At(pub Timestamp);

impl Type<Postgres> for At {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIMESTAMPTZ)
    }
}

impl PgHasArrayType for At {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIMESTAMPTZ_ARRAY)
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

/// Reads one column; the error names a column that is damaged. Where there are many rows, callers give the
/// position: sqlx looks a name up again for each row.
pub(crate) fn column<'r, T>(row: &'r PgRow, column: impl ColumnIndex<PgRow>) -> StoreResult<T>
where
    T: Decode<'r, Postgres> + Type<Postgres>,
{
    row.try_get(column).map_err(|fault| StoreError::Unexpected(fault.into()))
}

/// A limit or a number as SQL's signed integer. A larger one becomes the largest, which limits nothing.
pub(crate) fn signed(number: impl Into<u64>) -> i64 {
    i64::try_from(number.into()).unwrap_or(i64::MAX)
}

/// Reads a count, which is never negative.
pub(crate) fn number(row: &PgRow, index: impl ColumnIndex<PgRow>) -> StoreResult<u64> {
    let number: i64 = column(row, index)?;
    u64::try_from(number).map_err(|_| StoreError::unexpected(format!("a count of {number}")))
}

/// A number that is small by nature, such as a version or an attempt, as SQL's integer.
pub(crate) fn small(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Reads text that names a value.
pub(crate) fn parsed<T: FromStr>(row: &PgRow, index: impl ColumnIndex<PgRow>) -> StoreResult<T> {
    parse(column(row, index)?)
}

/// Reads text that names a value, if there is one.
pub(crate) fn optional_parsed<T: FromStr>(
    row: &PgRow,
    index: impl ColumnIndex<PgRow>,
) -> StoreResult<Option<T>> {
    let text: Option<&str> = column(row, index)?;
    text.map(parse).transpose()
}

fn parse<T: FromStr>(text: &str) -> StoreResult<T> {
    text.parse().map_err(|_| StoreError::unexpected(format!("{text:?} is not what its column holds")))
}

pub(crate) fn id<T>(row: &PgRow, name: impl ColumnIndex<PgRow>, make: fn(Uuid) -> T) -> StoreResult<T> {
    column(row, name).map(make)
}

pub(crate) fn time(row: &PgRow, name: impl ColumnIndex<PgRow>) -> StoreResult<Timestamp> {
    column(row, name).map(|At(time)| time)
}

pub(crate) fn optional_time(row: &PgRow, name: impl ColumnIndex<PgRow>) -> StoreResult<Option<Timestamp>> {
    let time: Option<At> = column(row, name)?;
    Ok(time.map(|At(time)| time))
}

pub(crate) fn hash(row: &PgRow, name: impl ColumnIndex<PgRow>) -> StoreResult<CredentialHash> {
    column(row, name).map(CredentialHash)
}

pub(crate) fn seal(row: &PgRow, name: impl ColumnIndex<PgRow>) -> StoreResult<Option<CredentialSeal>> {
    let seal: Option<Vec<u8>> = column(row, name)?;
    Ok(seal.map(CredentialSeal))
}
