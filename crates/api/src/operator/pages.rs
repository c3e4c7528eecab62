//! Pages of operators' lists: so many rows after the last one of the page before. A page costs the same
//! wherever it is in the list, and rows that come meanwhile move none.

use std::fmt::Display;
use std::str::FromStr;

use settle_domain::page::LIMIT_MAX;
use utoipa::IntoParams;
use uuid::Uuid;

use super::details::Details;
use crate::error::ApiError;
use crate::http::Parameters;

/// Describes `limit` and `after` for the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its description is used: `Asked` reads them, to find every fault at once")]
pub(super) struct PageParameters {
    /// Page size, 1 to 200.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<i64>,
    /// The `next_after` of the page before; absent for the first page.
    after: Option<Uuid>,
}

/// Which page the caller wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked<Id> {
    pub(super) after: Option<Id>,
    pub(super) limit: u32,
}

impl<Id: FromStr<Err: Display>> Asked<Id> {
    /// Reads a query string.
    pub(super) fn parse(query: Option<&str>) -> Result<Asked<Id>, ApiError> {
        let parameters = Parameters::new(query);
        let mut details = Details::default();
        let limit = parameters.limit().unwrap_or_else(|_| {
            details.push(|| format!("limit: is a number from 1 to {LIMIT_MAX}, given once"));
            0
        });
        let after = parameters.once("after").map_err(|_| "is given once".to_owned());
        let after =
            after.and_then(|text| text.map(Id::from_str).transpose().map_err(|fault| fault.to_string()));
        let after = after.unwrap_or_else(|problem| {
            details.push(|| format!("after: {problem}"));
            None
        });
        if details.is_empty() {
            Ok(Asked { after, limit })
        } else {
            Err(ApiError::AdminValidation(details.into_list()))
        }
    }
}

impl<Id> Asked<Id> {
    /// How many rows to read: one more than the page has, to see whether another follows.
    pub(super) fn rows(&self) -> u32 {
        self.limit + 1
    }

    /// Leaves the rows of the page; returns the last one's id if another follows.
    pub(super) fn cut<Row>(&self, rows: &mut Vec<Row>, id: impl Fn(&Row) -> Id) -> Option<Id> {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let is_more = rows.len() > limit;
        rows.truncate(limit);
        rows.last().filter(|_| is_more).map(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use settle_domain::ids::MerchantId;

    const ID: &str = "0190d3c4-7c00-7000-8000-0000000000ab";

    fn details(query: &str) -> Vec<String> {
        match Asked::<MerchantId>::parse(Some(query)) {
            Err(ApiError::AdminValidation(details)) => details,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_page_has_50_rows_unless_said_and_begins_at_the_start() {
        assert_eq!(Asked::<MerchantId>::parse(None).unwrap(), Asked { after: None, limit: 50 });
        let asked = Asked::parse(Some(&format!("limit=200&after={ID}&page=7"))).unwrap();
        assert_eq!(asked, Asked { after: Some(ID.parse::<MerchantId>().unwrap()), limit: 200 });
    }

    #[test]
    fn every_fault_is_named() {
        let limit = "limit: is a number from 1 to 200, given once";
        let after = "after: not a uuid such as 0190d3c4-7c00-7000-8000-000000000000";
        assert_eq!(details("after=&limit=0"), [limit, after]);
        assert_eq!(details("limit=201"), [limit]);
        assert_eq!(details("limit=1&limit=1"), [limit]);
        assert_eq!(details(&format!("after={ID}&after={ID}")), ["after: is given once"]);
    }

    #[test]
    fn a_page_says_where_the_next_one_begins_if_there_is_one() {
        let asked = Asked::<u32> { after: None, limit: 2 };
        assert_eq!(asked.rows(), 3);
        let cut = |mut rows: Vec<u32>| (asked.cut(&mut rows, |row| *row), rows);
        assert_eq!(cut(vec![]), (None, vec![]));
        assert_eq!(cut(vec![1, 2]), (None, vec![1, 2]));
        assert_eq!(cut(vec![1, 2, 3]), (Some(2), vec![1, 2]));
    }
}
