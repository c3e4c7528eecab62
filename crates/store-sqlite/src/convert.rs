//! Between the types of the domain and the columns of SQLite.
//!
//! Batches go in as one JSON argument, and large results come out as one JSON text: a value that crosses from
//! SQLite's thread to ours one by one is copied, sent and looked up by its name.

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;
use settle_store::{StoreError, StoreResult};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

/// A batch as the one argument that `jsonb_each` unfolds: a tuple is a row. `json_each` would write each row
/// as text, to be read again for every column.
#[expect(clippy::expect_used, reason = "strings and numbers cannot fail to serialize into memory")]
pub(crate) fn json_rows(rows: impl Iterator<Item = impl Serialize>) -> String {
    let rows: Vec<_> = rows.collect();
    serde_json::to_string(&rows).expect("rows are strings and numbers")
}

/// Bytes inside a JSON argument; the statement turns them back with `unhex`.
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

/// An id inside a JSON text, as `hex` writes it.
pub(crate) struct HexId(pub(crate) Uuid);

impl<'de> Deserialize<'de> for HexId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HexId, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = HexId;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("the digits of an id")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<HexId, E> {
                Uuid::try_parse(text).map(HexId).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Digits)
    }
}

/// Bytes inside a JSON text, as `hex` writes them.
pub(crate) struct HexBytes(pub(crate) Vec<u8>);

impl<'de> Deserialize<'de> for HexBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HexBytes, D::Error> {
        let text = <&str>::deserialize(deserializer)?;
        hex::decode(text).map(HexBytes).map_err(D::Error::custom)
    }
}

/// What a statement gave as JSON.
pub(crate) fn from_json<'text, T: Deserialize<'text>>(text: &'text str) -> StoreResult<T> {
    serde_json::from_str(text).map_err(|fault| StoreError::Unexpected(fault.into()))
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
