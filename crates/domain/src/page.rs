//! The bounds of a list request, and the page that answers it.

/// Rows on a page when the caller names no `limit`.
pub const LIMIT_DEFAULT: u32 = 50;
/// Rows on a page at most.
pub const LIMIT_MAX: u32 = 200;
/// Rows a caller may skip at most.
pub const OFFSET_MAX: u32 = 10_000;

/// A request for a page: always inside the bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest {
    limit: u32,
    offset: u32,
}

impl PageRequest {
    /// A page request, or `None` where a number is out of bounds.
    #[must_use]
    pub fn new(limit: u32, offset: u32) -> Option<PageRequest> {
        let inside = (1..=LIMIT_MAX).contains(&limit) && offset <= OFFSET_MAX;
        inside.then_some(PageRequest { limit, offset })
    }

    /// Rows on the page at most.
    #[must_use]
    pub fn limit(self) -> u32 {
        self.limit
    }

    /// Rows to skip.
    #[must_use]
    pub fn offset(self) -> u32 {
        self.offset
    }
}

/// A page of rows with the number of all rows that match, both from one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<Row> {
    /// The rows, in the order of the list.
    pub rows: Vec<Row>,
    /// All rows that match, on any page.
    pub total: u64,
}
