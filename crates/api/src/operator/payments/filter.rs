//! Which payments an operator looks for.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::time::{Timestamp, parse_duration};
use settle_store::PaymentFilter;
use utoipa::IntoParams;

use super::super::details::Details;
use crate::error::ApiError;
use crate::http::Parameters;

/// Which payments are listed.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(
    dead_code,
    reason = "only its description is used: `filter` reads them, to find every fault at once"
)]
pub(super) struct ListParameters {
    /// In this state. Without one, and without a flag, whatever is neither completed nor refunded.
    state: Option<String>,
    /// With this flag, whatever the state: `returned` (the money came back after the end) or `astray`
    /// (something moved after the payment had gone on without it).
    flag: Option<String>,
    /// Of this merchant.
    #[param(value_type = Option<Uuid>)]
    merchant_id: Option<String>,
    /// Blocked for this reason.
    blocked: Option<String>,
    /// Where it is for this reason.
    reason: Option<String>,
    /// Served by this provider.
    provider: Option<String>,
    /// With this pay-in reference.
    reference: Option<String>,
    /// In its state for so long or longer: a duration, or a number of seconds.
    #[param(example = "15m")]
    older_than: Option<String>,
    /// Page size, 1 to 200.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<i64>,
    /// The `next_after` of the page before; absent for the first page.
    after: Option<String>,
}

/// How long ago: a duration, or a number of seconds.
pub(super) struct Age(pub(super) Duration);

/// Text that is neither.
pub(super) struct AgeFault;

impl Age {
    /// What is expected, in words.
    pub(super) const EXPECTED: &str = "a duration such as 15m, or a number of seconds";
}

impl FromStr for Age {
    type Err = AgeFault;

    fn from_str(text: &str) -> Result<Age, AgeFault> {
        let seconds = text.parse().map(Duration::from_secs);
        seconds.ok().or_else(|| parse_duration(text)).map(Age).ok_or(AgeFault)
    }
}

impl fmt::Display for AgeFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "must be {}", Age::EXPECTED)
    }
}

/// A place in a list of payments: behind this one.
#[derive(Clone, Copy)]
pub(super) struct Place(pub(super) MerchantId, pub(super) PaymentId);

/// Text that is no place.
pub(super) struct PlaceFault;

impl FromStr for Place {
    type Err = PlaceFault;

    fn from_str(text: &str) -> Result<Place, PlaceFault> {
        let (merchant, payment) = text.split_once('.').ok_or(PlaceFault)?;
        let place = merchant.parse().ok().zip(payment.parse().ok());
        place.map(|(merchant, payment)| Place(merchant, payment)).ok_or(PlaceFault)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.0, self.1)
    }
}

impl fmt::Display for PlaceFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("is not the next_after of a page")
    }
}

/// Which payments, after which, and how many.
pub(super) type Asked = (PaymentFilter, Option<Place>, u32);

/// Reads a query string, and names every fault.
pub(super) fn filter(query: Option<&str>, now: Timestamp) -> Result<Asked, ApiError> {
    let parameters = Parameters::new(query);
    let mut details = Details::default();
    let limit = parameters.limit().unwrap_or_else(|_| {
        details.push(|| "limit: is a number from 1 to 200, given once".to_owned());
        0
    });
    let mut text = |name: &'static str| {
        parameters.once(name).unwrap_or_else(|_| {
            details.push(|| format!("{name}: is given once"));
            None
        })
    };
    let [state, flag, merchant_id, blocked, reason, provider, reference, older_than, after] =
        ["state", "flag", "merchant_id", "blocked", "reason", "provider", "reference", "older_than", "after"]
            .map(|name| text(name).map(str::to_owned));
    let filter = PaymentFilter {
        state: parsed("state", state, &mut details),
        flag: parsed("flag", flag, &mut details),
        merchant_id: parsed("merchant_id", merchant_id, &mut details),
        blocked: parsed("blocked", blocked, &mut details),
        reason: parsed("reason", reason, &mut details),
        provider: parsed("provider", provider, &mut details),
        reference,
        changed_by: parsed("older_than", older_than, &mut details).map(|Age(age)| now.minus(age)),
    };
    let after = parsed("after", after, &mut details);
    if details.is_empty() {
        Ok((filter, after, limit))
    } else {
        Err(ApiError::AdminValidation(details.into_list()))
    }
}

fn parsed<T: FromStr<Err: fmt::Display>>(
    name: &str,
    text: Option<String>,
    details: &mut Details,
) -> Option<T> {
    match text?.parse() {
        Ok(value) => Some(value),
        Err(fault) => {
            details.push(|| format!("{name}: {fault}"));
            None
        }
    }
}
