//! Between the types of the domain and the columns of SQLite.

use serde_json::{Value, json};
use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;
use settle_store::{StoreError, StoreResult};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

/// A batch as the one argument that `json_each` unfolds.
pub(crate) fn json_rows(rows: impl Iterator<Item = Value>) -> String {
    Value::Array(rows.collect()).to_string()
}

/// Bytes inside a JSON argument; the statement turns them back with `unhex`.
pub(crate) fn hex(bytes: &[u8]) -> Value {
    json!(hex::encode(bytes))
}

/// Merchants as a JSON argument.
pub(crate) fn json_merchants(merchants: &[MerchantId]) -> String {
    json_rows(merchants.iter().map(|merchant| hex(merchant.0.as_bytes())))
}

/// Reads one column, and says which one is damaged.
pub(crate) fn column<'r, T>(row: &'r SqliteRow, name: &str) -> StoreResult<T>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    row.try_get(name).map_err(|fault| StoreError::Unexpected(fault.into()))
}

pub(crate) fn id<T>(row: &SqliteRow, name: &str, make: fn(Uuid) -> T) -> StoreResult<T> {
    column(row, name).map(make)
}

pub(crate) fn time(row: &SqliteRow, name: &str) -> StoreResult<Timestamp> {
    column(row, name).map(Timestamp::from_micros)
}

pub(crate) fn optional_time(row: &SqliteRow, name: &str) -> StoreResult<Option<Timestamp>> {
    let micros: Option<i64> = column(row, name)?;
    Ok(micros.map(Timestamp::from_micros))
}
