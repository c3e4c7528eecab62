//! Retrying many payments at once: those that a filter finds.
//!
//! The filters are the list's, so that who has looked at a list retries what stands there. Some of them hold
//! nothing that can be retried: then nothing is found.

use std::str::FromStr;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use futures::stream::{self, StreamExt};
use serde::Serialize;
use settle_domain::actor::Actor;
use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::payment::{Act, StateName, check_evidence};
use settle_engine::acts::{ActError, People, act};
use settle_engine::advance::Deed;
use settle_store::{PaymentFilter, PaymentRow};
use utoipa::{IntoResponses, ToSchema};

use super::super::OperatorState;
use super::super::authentication::Operator;
use super::super::fields::Fields;
use super::filter::{Age, Place};
use crate::error::ApiError;
use crate::http::serialized;
use crate::refusals::{Documentation, Refusal, responses};

/// Payments that one call retries at most. A second call goes on behind them; without a place it finds those
/// again that were refused.
const RETRIED_MAX: u32 = 1_000;
/// Of them, so many at once.
const RETRIED_AT_ONCE: usize = 64;
/// The last one begins after this part of the time that the answer may take.
const BEGUN_SHARE: u32 = 3;

/// Which payments are retried, with the filters of the list: what is absent narrows nothing down.
#[derive(ToSchema)]
#[schema(as = RetryRequest)]
#[expect(dead_code, reason = "only its schema is used: `Fields` reads them, to name every fault")]
pub(in super::super) struct RetrySchema {
    /// In this state; without one, the failed ones. Those that need review can be retried, with evidence,
    /// where nothing is in flight; in any other state nothing is found.
    #[schema(examples("failed"))]
    state: Option<String>,
    /// With this flag: `returned` or `astray`.
    flag: Option<String>,
    #[schema(value_type = Option<Uuid>)]
    merchant_id: Option<String>,
    /// Blocked for this reason. A failed payment never is.
    blocked: Option<String>,
    /// Failed, or to be reviewed, for this reason.
    #[schema(examples("payout_refused"))]
    reason: Option<String>,
    provider: Option<String>,
    /// With this pay-in reference.
    reference: Option<String>,
    /// In its state for so long or longer: a duration, or a number of seconds.
    #[schema(examples("15m"))]
    older_than: Option<String>,
    /// How many at most, 1 to 1,000.
    #[schema(minimum = 1, maximum = 1000, default = 1000)]
    limit: Option<i64>,
    /// The `next_after` of the call before, or of a page of the list; absent for the first ones.
    after: Option<String>,
    /// Why. It stands in the timeline of each.
    evidence: Option<String>,
    /// Only say which would be retried.
    dry_run: Option<bool>,
}

/// What became of the payments that were found.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct Retried {
    /// Those that are on their way again, or with `dry_run` those that were found: a retry may still be
    /// refused.
    payments: Vec<RetriedPayment>,
    /// Those that were not retried, because somebody else had changed them meanwhile or they may not be. With
    /// `internal_error` nobody knows: look at the payment.
    refused: Vec<RetryRefused>,
    /// Whether there are more than one call takes, or than it had time for. Another call goes on with
    /// `next_after`; without it, it finds those again that were refused.
    more: bool,
    /// The `after` of the next call; null when there are no more, or when a first call had no time for any.
    #[schema(required)]
    next_after: Option<String>,
}

/// How many payments one call retries.
struct Limit(u32);

/// Text that is no such number.
struct LimitFault;

impl FromStr for Limit {
    type Err = LimitFault;

    fn from_str(text: &str) -> Result<Limit, LimitFault> {
        let number = text.parse().ok().filter(|number| (1..=RETRIED_MAX).contains(number));
        number.map(Limit).ok_or(LimitFault)
    }
}

#[derive(Serialize, ToSchema)]
struct RetriedPayment {
    #[schema(value_type = Uuid)]
    merchant_id: MerchantId,
    #[schema(value_type = Uuid)]
    payment_id: PaymentId,
}

#[derive(Serialize, ToSchema)]
struct RetryRefused {
    #[schema(value_type = Uuid)]
    merchant_id: MerchantId,
    #[schema(value_type = Uuid)]
    payment_id: PaymentId,
    /// Why: a code of the contract.
    code: &'static str,
}

/// What retrying can be refused for.
pub(in super::super) struct RetryRefusals;

impl IntoResponses for RetryRefusals {
    fn responses() -> Documentation {
        responses(&[Refusal::InvalidBody, Refusal::AdminValidation])
    }
}

/// Let the engine try payments again: those that a filter finds, up to 1,000
#[utoipa::path(
    post,
    path = "/operator/v1/payments/retry",
    operation_id = "retryPayments",
    tag = "Payments",
    request_body = RetrySchema,
    responses((status = 200, description = "What became of each.", body = Retried), RetryRefusals)
)]
pub(in super::super) async fn retry_payments(
    operator: Operator,
    State(state): State<OperatorState>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let now = state.envelope.clock.now();
    let mut fields = Fields::read(&headers, body, state.body_timeout).await?;
    let older_than = fields.optional_such::<Age>("older_than", Age::EXPECTED);
    let filter = PaymentFilter {
        state: Some(fields.optional_as("state").unwrap_or(StateName::Failed)),
        merchant_id: fields.optional_as("merchant_id"),
        flag: fields.optional_as("flag"),
        blocked: fields.optional_as("blocked"),
        reason: fields.optional_as("reason"),
        provider: fields.optional_as("provider"),
        reference: fields.optional("reference"),
        changed_by: older_than.map(|Age(age)| now.minus(age)),
    };
    let Limit(limit) = fields.optional_such("limit", "a number from 1 to 1000").unwrap_or(Limit(RETRIED_MAX));
    let after: Option<Place> = fields.optional_as("after");
    let evidence = fields.optional_checked("evidence", check_evidence).unwrap_or_default();
    let dry_run = fields.switch("dry_run");
    if filter.state == Some(StateName::NeedsReview) && evidence.is_empty() && !dry_run {
        fields.fault("evidence: is required for payments that need review");
    }
    fields.end("a retry")?;
    let mut found = if filter.state.is_some_and(can_be_retried) {
        let after = after.map(|Place(merchant, payment)| (merchant, payment));
        state.store.payment_search(&filter, after, limit + 1).await?
    } else {
        Vec::new()
    };
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let by = Actor::Operator(operator.id());
    let deed = Deed {
        act: Act::Retry,
        by,
        evidence,
        destination_reference: None,
        amount: None,
        provider_reference: None,
    };
    // Side by side, so that many share a commit. A provider may have to be asked about each: none is begun
    // that the answer would not wait for.
    let number = found.len();
    let outcomes: Vec<_> = stream::iter(found)
        .take_until(tokio::time::sleep(state.envelope.request_timeout / BEGUN_SHARE))
        .map(|row| retry(&state, row, &deed, dry_run))
        .buffered(RETRIED_AT_ONCE)
        .collect()
        .await;
    let more = more || outcomes.len() < number;
    let last = outcomes.last().map(|outcome| match outcome {
        Ok(RetriedPayment { merchant_id, payment_id })
        | Err(RetryRefused { merchant_id, payment_id, .. }) => Place(*merchant_id, *payment_id),
    });
    let next_after = last.or(after).filter(|_| more).map(|place| place.to_string());
    let mut retried = Retried { payments: Vec::new(), refused: Vec::new(), more, next_after };
    for outcome in outcomes {
        match outcome {
            Ok(payment) => retried.payments.push(payment),
            Err(refused) => retried.refused.push(refused),
        }
    }
    Ok(serialized(&retried)?)
}

/// Whether a payment in this state can be retried, whatever else it is.
fn can_be_retried(state: StateName) -> bool {
    matches!(state, StateName::Failed | StateName::NeedsReview)
}

/// Retries one payment, if it is still as it was found.
async fn retry(
    state: &OperatorState,
    PaymentRow { merchant_id, payment_id, version, .. }: PaymentRow,
    deed: &Deed,
    dry_run: bool,
) -> Result<RetriedPayment, RetryRefused> {
    let retried = RetriedPayment { merchant_id, payment_id };
    if dry_run {
        return Ok(retried);
    }
    let payment = (merchant_id, payment_id);
    let done = act(&state.means, &state.engine_wake, payment, version, deed, People::One).await;
    done.map(|_| retried).map_err(|fault| {
        // What became of the others is told all the same.
        if let ActError::Store(fault) = &fault {
            tracing::warn!(%merchant_id, %payment_id, %fault, "a payment could not be retried");
        }
        RetryRefused { merchant_id, payment_id, code: fault.code().as_str() }
    })
}
