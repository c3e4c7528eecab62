//! `/operator/v1/merchants/{merchant_id}/corridors/{incoming}/{outgoing}`: what was agreed, in versions.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Serialize;
use settle_domain::actor::Actor;
use settle_domain::corridor::{ALERT_AFTER, Corridor, CorridorFault, CorridorTerms};
use settle_domain::ids::MerchantId;
use settle_domain::money::{Asset, Decimal};
use settle_domain::pricing::CorridorPricing;
use settle_domain::provider::ProviderName;
use settle_domain::time::Timestamp;
use settle_engine::obstacles::Obstacle;
use settle_store::{NewCorridor, Store, StoreResult, StoredCorridor};
use utoipa::{IntoResponses, ToSchema};

use super::OperatorState;
use super::authentication::Operator;
use super::fields::Fields;
use super::names::Names;
use crate::error::ApiError;
use crate::http::{PathIds, serialized};
use crate::refusals::{Documentation, Refusal, responses};

/// What is agreed for a merchant, an incoming currency and an outgoing asset.
#[derive(ToSchema)]
#[schema(as = CorridorRequest)]
#[expect(dead_code, reason = "only its schema is used: `Fields` reads them, to name every fault")]
pub(super) struct RequestSchema {
    /// The fee in percent of the gross outgoing amount.
    #[schema(examples("1.5"))]
    fee_percentage: String,
    /// The fixed fee, in the outgoing asset.
    #[schema(examples("0.25"))]
    fee_fixed: String,
    /// The provider that quotes, converts, pays out and refunds: a name of the settings.
    #[schema(examples("sandbox"))]
    provider: String,
    /// The smallest incoming amount.
    minimum: Option<String>,
    /// The largest incoming amount.
    maximum: Option<String>,
    /// After how many seconds of being blocked or in progress operations are alerted; 900 if absent.
    #[schema(examples("900"))]
    alert_after_seconds: Option<String>,
    /// The spread in percent of the provider's rate; 0 if absent.
    spread: Option<String>,
    /// Who gets a part of the spread.
    partner: Option<String>,
    /// The partner's part of the spread, in percent.
    commission: Option<String>,
}

/// One version of a corridor.
#[derive(Serialize, ToSchema)]
#[schema(as = CorridorVersion)]
pub(super) struct Version {
    /// The first is 1.
    version: u32,
    incoming_currency: String,
    outgoing_currency: String,
    #[schema(value_type = String)]
    fee_percentage: Decimal,
    #[schema(value_type = String)]
    fee_fixed: Decimal,
    #[schema(required, value_type = Option<String>)]
    minimum: Option<Decimal>,
    #[schema(required, value_type = Option<String>)]
    maximum: Option<Decimal>,
    #[schema(value_type = String)]
    provider: ProviderName,
    alert_after_seconds: u64,
    #[schema(value_type = String)]
    spread: Decimal,
    #[schema(required)]
    partner: Option<String>,
    #[schema(required, value_type = Option<String>)]
    commission: Option<Decimal>,
    /// Who made it: `operator:` and an id, or `command`.
    #[schema(value_type = String)]
    made_by: Actor,
    /// The operator's name.
    #[schema(required)]
    made_by_name: Option<String>,
    #[schema(value_type = String, format = DateTime, examples("2026-01-31T09:30:00.000000+00:00"))]
    made_at: Timestamp,
    /// Only where a version was just made: what may keep it from working.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    warning: Option<String>,
}

impl Version {
    /// The versions as they are shown.
    async fn all(store: &dyn Store, stored: &[StoredCorridor]) -> StoreResult<Vec<Version>> {
        let names = Names::of(store, stored.iter().map(|stored| stored.versioned.made_by)).await?;
        Ok(stored.iter().map(|stored| Version::new(stored, &names)).collect())
    }

    /// A version as it is shown.
    fn new(stored: &StoredCorridor, names: &Names) -> Version {
        let terms = stored.versioned.corridor.terms().clone();
        let partner = stored.pricing.partner().cloned();
        Version {
            version: stored.versioned.version.0,
            incoming_currency: terms.incoming.code().to_owned(),
            outgoing_currency: terms.outgoing.code().to_owned(),
            fee_percentage: terms.fee_percentage,
            fee_fixed: terms.fee_fixed,
            minimum: terms.minimum,
            maximum: terms.maximum,
            provider: terms.provider,
            alert_after_seconds: terms.alert_after.as_secs(),
            spread: stored.pricing.spread(),
            commission: partner.as_ref().map(|partner| partner.commission),
            partner: partner.map(|partner| partner.name),
            made_by: stored.versioned.made_by,
            made_by_name: names.find(stored.versioned.made_by),
            made_at: stored.versioned.made_at,
            warning: None,
        }
    }
}

/// All versions of a corridor, the newest first.
#[derive(Serialize, ToSchema)]
pub(super) struct CorridorVersions {
    versions: Vec<Version>,
}

/// List the corridors of a merchant, with all their versions
#[utoipa::path(
    get,
    path = "/operator/v1/merchants/{merchant_id}/corridors",
    operation_id = "listCorridors",
    tag = "Corridors",
    params(("merchant_id" = Uuid, Path, description = "The merchant.")),
    responses((status = 200, description = "All versions of all corridors.", body = CorridorVersions), ShowRefusals)
)]
pub(super) async fn list_corridors(
    _operator: Operator,
    State(state): State<OperatorState>,
    ids: PathIds,
) -> Result<Response, ApiError> {
    let merchant_id: MerchantId = ids.id("merchant_id").ok_or(ApiError::NotFound)?;
    let versions = state.store.corridor_list(merchant_id).await?;
    if versions.is_empty() && state.store.merchant_find(merchant_id).await?.is_none() {
        return Err(ApiError::NotFound);
    }
    Ok(serialized(&CorridorVersions { versions: Version::all(&*state.store, &versions).await? })?)
}

/// What setting a corridor can be refused for.
pub(super) struct PutRefusals;

impl IntoResponses for PutRefusals {
    fn responses() -> Documentation {
        responses(&[Refusal::InvalidBody, Refusal::UnknownMerchant, Refusal::AdminValidation])
    }
}

/// Set a corridor: a new version of what was agreed
#[utoipa::path(
    put,
    path = "/operator/v1/merchants/{merchant_id}/corridors/{incoming}/{outgoing}",
    operation_id = "setCorridor",
    tag = "Corridors",
    params(
        ("merchant_id" = Uuid, Path, description = "The merchant."),
        ("incoming" = String, Path, description = "The currency that comes in."),
        ("outgoing" = String, Path, description = "The asset that goes out.")
    ),
    request_body = RequestSchema,
    responses((status = 200, description = "The new version.", body = Version), PutRefusals)
)]
pub(super) async fn set_corridor(
    operator: Operator,
    State(state): State<OperatorState>,
    ids: PathIds,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let (merchant_id, incoming, outgoing) = corridor_of(&ids)?;
    let fields = Fields::read(&headers, body, state.body_timeout).await?;
    let (corridor, pricing) = agreed(fields, incoming, outgoing)?;
    let new = NewCorridor {
        merchant_id,
        corridor,
        pricing,
        made_by: Actor::Operator(operator.id()),
        made_at: state.envelope.clock.now(),
    };
    let mut tx = state.store.begin().await?;
    let lock = tx.merchant_lock(&[merchant_id]).await?;
    if !lock.holds(merchant_id) {
        return Err(ApiError::NotFound);
    }
    let version = tx.corridor_put(&lock, &new).await?;
    tx.commit().await?;
    tracing::info!(%merchant_id, %incoming, %outgoing, version = version.0, "corridor set");
    let stored = state.store.corridor_version(key(merchant_id, incoming, outgoing), version).await?;
    let made = Version::all(&*state.store, stored.as_slice()).await?.pop().ok_or(ApiError::NotFound)?;
    // Not refused: the settings of the processes that settle may have it.
    let is_known = state.means.providers.find(&made.provider).is_some();
    let warning = (!is_known).then(|| Obstacle::Unknown(made.provider.clone()).to_string());
    Ok(serialized(&Version { warning, ..made })?)
}

/// Reads what is to be agreed, and names every fault.
fn agreed(
    mut fields: Fields,
    incoming: Asset,
    outgoing: Asset,
) -> Result<(Corridor, CorridorPricing), ApiError> {
    let fee_percentage = fields.required_as("fee_percentage");
    let fee_fixed = fields.required_as("fee_fixed");
    let provider = fields.required_as::<ProviderName>("provider");
    let (minimum, maximum) = (fields.optional_as("minimum"), fields.optional_as("maximum"));
    let alert_after = fields
        .optional_such("alert_after_seconds", "a whole number of seconds, such as 900")
        .map_or(ALERT_AFTER, Duration::from_secs);
    let spread = fields.optional_as("spread").unwrap_or(Decimal::ZERO);
    let (partner, commission) = (fields.optional("partner"), fields.optional_as("commission"));
    fields.end("a corridor")?;
    let (Some(fee_percentage), Some(fee_fixed), Some(provider)) = (fee_percentage, fee_fixed, provider)
    else {
        return Err(ApiError::AdminValidation(Vec::new()));
    };
    let terms = CorridorTerms {
        incoming,
        outgoing,
        fee_percentage,
        fee_fixed,
        minimum,
        maximum,
        provider,
        alert_after,
    };
    let corridor = Corridor::new(terms).map_err(|faults| refused(&faults))?;
    let pricing = CorridorPricing::new(spread, partner, commission).map_err(|faults| refused(&faults))?;
    Ok((corridor, pricing))
}

/// What reading a corridor can be refused for.
pub(super) struct ShowRefusals;

impl IntoResponses for ShowRefusals {
    fn responses() -> Documentation {
        responses(&[Refusal::UnknownMerchant])
    }
}

/// Show a corridor: all versions, and who made them
#[utoipa::path(
    get,
    path = "/operator/v1/merchants/{merchant_id}/corridors/{incoming}/{outgoing}",
    operation_id = "showCorridor",
    tag = "Corridors",
    params(
        ("merchant_id" = Uuid, Path, description = "The merchant."),
        ("incoming" = String, Path, description = "The currency that comes in."),
        ("outgoing" = String, Path, description = "The asset that goes out.")
    ),
    responses((status = 200, description = "All versions.", body = CorridorVersions), ShowRefusals)
)]
pub(super) async fn show_corridor(
    _operator: Operator,
    State(state): State<OperatorState>,
    ids: PathIds,
) -> Result<Response, ApiError> {
    let (merchant_id, incoming, outgoing) = corridor_of(&ids)?;
    let asked = key(merchant_id, incoming, outgoing);
    let mut versions = state.store.corridor_list(merchant_id).await?;
    versions.retain(|stored| stored.key() == asked);
    if versions.is_empty() {
        return Err(ApiError::NotFound);
    }
    Ok(serialized(&CorridorVersions { versions: Version::all(&*state.store, &versions).await? })?)
}

fn corridor_of(ids: &PathIds) -> Result<(MerchantId, Asset, Asset), ApiError> {
    let found = || Some((ids.id("merchant_id")?, ids.id("incoming")?, ids.id("outgoing")?));
    found().ok_or(ApiError::NotFound)
}

fn key(merchant_id: MerchantId, incoming: Asset, outgoing: Asset) -> settle_store::CorridorKey {
    settle_store::CorridorKey { merchant_id, incoming, outgoing }
}

/// Each fault under the name that its field has in the body.
fn refused(faults: &[CorridorFault]) -> ApiError {
    let told = |fault: &CorridorFault| match fault.field {
        "alert_after" => format!("alert_after_seconds: {}", fault.problem),
        _ => fault.to_string(),
    };
    ApiError::AdminValidation(faults.iter().map(told).collect())
}

#[cfg(test)]
mod fuzz;
