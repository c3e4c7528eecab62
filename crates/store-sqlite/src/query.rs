//! Executing statements. Each connection prepares a statement once.

use rusqlite::{Connection, Params, Row};
use settle_store::StoreResult;

use crate::error::store_error;

/// The ways to execute a statement on a connection.
pub(crate) trait Query {
    /// Changes rows, and says how many.
    fn change(&self, sql: &str, params: impl Params) -> rusqlite::Result<usize>;

    /// All rows that a statement returns.
    fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>>;

    /// The first row, if there is one.
    fn row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> StoreResult<T>,
    ) -> StoreResult<Option<T>>;
}

impl Query for Connection {
    fn change(&self, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
        self.prepare_cached(sql)?.execute(params)
    }

    fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>> {
        let mut statement = self.prepare_cached(sql).map_err(store_error)?;
        let mut rows = statement.query(params).map_err(store_error)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(store_error)? {
            found.push(read(row)?);
        }
        Ok(found)
    }

    fn row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> StoreResult<T>,
    ) -> StoreResult<Option<T>> {
        let mut statement = self.prepare_cached(sql).map_err(store_error)?;
        let mut rows = statement.query(params).map_err(store_error)?;
        rows.next().map_err(store_error)?.map(read).transpose()
    }
}
