//! Conversions between the types of the domain and the columns of SQLite.
//!
//! A statement that needs many rows at once takes them as one JSON argument.

use std::str::FromStr;

use rusqlite::types::FromSql;
use rusqlite::{Row, RowIndex};
use serde::{Serialize, Serializer};
use settle_domain::credential::{CredentialHash, CredentialSeal};
use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;
use settle_store::{StoreError, StoreResult};
use uuid::Uuid;

/// A batch as the one argument that `jsonb_each` unfolds: a tuple is a row. `json_each` would write each row
/// as text and parse it again for every column.
#[expect(clippy::expect_used, reason = "strings and numbers cannot fail to serialize into memory")]
pub(crate) fn json_rows(rows: impl Iterator<Item = impl Serialize>) -> String {
    let rows: Vec<_> = rows.collect();
    serde_json::to_string(&rows).expect("rows are strings and numbers")
}

/// Bytes inside a JSON argument; the statement decodes them with `unhex`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hex<const N: usize>(pub(crate) [u8; N]);

impl<const N: usize> Serialize for Hex<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut digits = [[0; 2]; N];
        hex::encode_to_slice(self.0, digits.as_flattened_mut()).map_err(serde::ser::Error::custom)?;
        let text = std::str::from_utf8(digits.as_flattened()).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(text)
    }
}

/// An id inside a JSON argument.
pub(crate) fn hex(id: Uuid) -> Hex<16> {
    Hex(id.into_bytes())
}

/// Merchants as a JSON argument.
pub(crate) fn json_merchants(merchants: &[MerchantId]) -> String {
    json_rows(merchants.iter().map(|merchant| hex(merchant.0)))
}

/// Reads one column; the error names a column that is damaged.
pub(crate) fn column<T: FromSql>(row: &Row<'_>, column: impl RowIndex) -> StoreResult<T> {
    row.get(column).map_err(|fault| StoreError::Unexpected(fault.into()))
}

/// Reads text where it lies, in SQLite's memory; the error names a column that is damaged.
pub(crate) fn text<'a>(row: &'a Row<'_>, index: impl RowIndex + Copy) -> StoreResult<&'a str> {
    let text = row.get_ref(index).ok().and_then(|value| value.as_str().ok());
    text.ok_or_else(|| match column::<String>(row, index) {
        Err(fault) => fault,
        Ok(text) => StoreError::unexpected(format!("{text:?} is no text")),
    })
}

/// A limit or a number as SQL's signed integer. A larger one becomes the largest, which limits nothing.
pub(crate) fn signed(number: impl Into<u64>) -> i64 {
    i64::try_from(number.into()).unwrap_or(i64::MAX)
}

/// Reads a count, which is never negative.
pub(crate) fn number(row: &Row<'_>, index: impl RowIndex) -> StoreResult<u64> {
    let number: i64 = column(row, index)?;
    u64::try_from(number).map_err(|_| StoreError::unexpected(format!("a count of {number}")))
}

/// Reads text that names a value.
pub(crate) fn parsed<T: FromStr>(row: &Row<'_>, index: impl RowIndex + Copy) -> StoreResult<T> {
    parse(text(row, index)?)
}

/// Reads text that names a value, if there is one.
pub(crate) fn optional_parsed<T: FromStr>(
    row: &Row<'_>,
    index: impl RowIndex + Copy,
) -> StoreResult<Option<T>> {
    let text: Option<String> = column(row, index)?;
    text.as_deref().map(parse).transpose()
}

fn parse<T: FromStr>(text: &str) -> StoreResult<T> {
    text.parse().map_err(|_| StoreError::unexpected(format!("{text:?} is not what its column holds")))
}

pub(crate) fn id<T>(row: &Row<'_>, index: impl RowIndex, make: fn(Uuid) -> T) -> StoreResult<T> {
    column(row, index).map(make)
}

pub(crate) fn time(row: &Row<'_>, index: impl RowIndex) -> StoreResult<Timestamp> {
    column(row, index).map(Timestamp::from_micros)
}

pub(crate) fn optional_time(row: &Row<'_>, index: impl RowIndex) -> StoreResult<Option<Timestamp>> {
    let micros: Option<i64> = column(row, index)?;
    Ok(micros.map(Timestamp::from_micros))
}

pub(crate) fn hash(row: &Row<'_>, index: impl RowIndex) -> StoreResult<CredentialHash> {
    column(row, index).map(CredentialHash)
}

pub(crate) fn seal(row: &Row<'_>, index: impl RowIndex) -> StoreResult<Option<CredentialSeal>> {
    let seal: Option<Vec<u8>> = column(row, index)?;
    Ok(seal.map(CredentialSeal))
}
