//! Rows that this version can read, among some that it cannot.

use crate::{StoreError, StoreResult};

/// One row of many. If this version cannot read it, that is logged and the others go on.
pub fn left_out<T>(what: &'static str, read: StoreResult<T>) -> StoreResult<Option<T>> {
    match read {
        Err(StoreError::Unexpected(fault)) => {
            tracing::error!(%fault, what, "a row cannot be read and is left out");
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// A page in the making. What is left out of it makes room for the rows behind.
#[derive(Debug)]
pub struct ReadablePage<Place, Row> {
    found: Vec<Row>,
    after: Place,
    limit: usize,
    is_full: bool,
}

impl<Place: Copy, Row> ReadablePage<Place, Row> {
    /// A page of at most so many rows behind a place.
    #[must_use]
    pub fn new(after: Place, limit: u32) -> ReadablePage<Place, Row> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        ReadablePage { found: Vec::new(), after, limit, is_full: limit == 0 }
    }

    /// The place to go on behind, and how many rows to ask for. Nothing once the page is full or no row is
    /// left.
    #[must_use]
    pub fn wants(&self) -> Option<(Place, i64)> {
        let missing = self.limit.saturating_sub(self.found.len());
        (!self.is_full).then(|| (self.after, i64::try_from(missing).unwrap_or(i64::MAX)))
    }

    /// The rows that were asked for, in order, each with its place.
    pub fn take(&mut self, rows: Vec<(Place, Option<Row>)>) {
        let is_last = rows.len() < self.limit.saturating_sub(self.found.len());
        if let Some((place, _)) = rows.last() {
            self.after = *place;
        }
        self.found.extend(rows.into_iter().filter_map(|(_, row)| row));
        self.is_full = is_last || self.found.len() >= self.limit;
    }

    /// What was found.
    #[must_use]
    pub fn found(self) -> Vec<Row> {
        self.found
    }
}
