//! Reads query parameters: a known one may stand once, unknown ones are ignored, and a refusal lists every
//! fault.

use settle_domain::error_code::{ErrorCode, FieldFault};
use settle_domain::page::{LIMIT_DEFAULT, LIMIT_MAX, OFFSET_MAX, PageRequest};
use utoipa::IntoParams;

/// The parameters of a query string.
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Splits a query string into its parameters.
    #[must_use]
    pub fn new(query: Option<&str>) -> Parameters {
        Parameters(form_urlencoded::parse(query.unwrap_or("").as_bytes()).into_owned().collect())
    }

    /// The text of a parameter, if the query has it. A parameter that stands there twice is a fault.
    pub fn once(&self, field: &'static str) -> Result<Option<&str>, FieldFault> {
        let mut values = self.0.iter().filter(|(name, _)| name == field);
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some((_, value)), None) => Ok(Some(value)),
            (Some(_), Some(_)) => Err(FieldFault::new(field, ErrorCode::ValidationFailed)),
        }
    }

    /// The page size, 50 unless the query says another.
    pub fn limit(&self) -> Result<u32, FieldFault> {
        self.integer("limit", LIMIT_DEFAULT, 1..=LIMIT_MAX)
    }

    fn integer(
        &self,
        field: &'static str,
        default: u32,
        range: std::ops::RangeInclusive<u32>,
    ) -> Result<u32, FieldFault> {
        let Some(text) = self.once(field)? else {
            return Ok(default);
        };
        let parsed = canonical_integer(text).filter(|value| range.contains(value));
        parsed.ok_or(FieldFault::new(field, ErrorCode::ValidationFailed))
    }
}

/// Describes `limit` and `offset` for the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(
    dead_code,
    reason = "only its description is used: `Paging` reads them, to find every fault at once"
)]
pub struct PagingParameters {
    /// Page size, 1 to 200.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<i64>,
    /// Rows to skip, 0 to 10000.
    #[param(minimum = 0, maximum = 10000, default = 0)]
    offset: Option<i64>,
}

/// Reads `limit` and `offset`.
#[derive(Debug, Clone, Copy)]
pub struct Paging;

impl Paging {
    /// Reads which page the caller wants, and adds the faults it finds to the list.
    pub fn parse(parameters: &Parameters, faults: &mut Vec<FieldFault>) -> Option<PageRequest> {
        let limit = parameters.limit();
        let offset = parameters.integer("offset", 0, 0..=OFFSET_MAX);
        match (limit, offset) {
            (Ok(limit), Ok(offset)) => PageRequest::new(limit, offset),
            (limit, offset) => {
                faults.extend(limit.err().into_iter().chain(offset.err()));
                None
            }
        }
    }
}

/// Reads a number written with digits alone: no sign, no leading zero.
fn canonical_integer(text: &str) -> Option<u32> {
    let canonical = text == "0" || (!text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit()));
    if canonical { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<(u32, u32), Vec<&'static str>> {
        let mut faults = Vec::new();
        match Paging::parse(&Parameters::new(Some(query)), &mut faults) {
            Some(page) => Ok((page.limit(), page.offset())),
            None => Err(faults.iter().map(|fault| fault.field).collect()),
        }
    }

    #[test]
    fn limit_is_1_to_200_and_50_unless_said() {
        assert_eq!(parse(""), Ok((50, 0)));
        assert_eq!(parse("limit=1"), Ok((1, 0)));
        assert_eq!(parse("limit=200&offset=10000"), Ok((200, 10_000)));
        for bad in [
            "0",
            "201",
            "-1",
            "abc",
            "",
            "1.0",
            "%2B5",
            "+5",
            "4294967297",
            "9223372036854775808",
            "01",
            "1e2",
            " 1",
            "１",
        ] {
            assert_eq!(parse(&format!("limit={bad}")), Err(vec!["limit"]), "{bad}");
        }
    }

    #[test]
    fn offset_is_0_to_10000() {
        for bad in ["-1", "10001", "", "x", "-0", "00"] {
            assert_eq!(parse(&format!("offset={bad}")), Err(vec!["offset"]), "{bad}");
        }
    }

    #[test]
    fn every_fault_is_found_and_a_repetition_is_one() {
        assert_eq!(parse("offset=x&limit=x"), Err(vec!["limit", "offset"]));
        assert_eq!(parse("limit=5&limit=5"), Err(vec!["limit"]));
        assert_eq!(parse("page=7&%ff=1&limit=5"), Ok((5, 0)));
    }
}
