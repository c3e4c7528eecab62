//! `/operator/v1/providers`: how the providers are, as this process sees them; pausing them; and the hints
//! that they give.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Serialize;
use serde_json::Value;
use settle_domain::actor::Actor;
use settle_domain::ids::OperationId;
use settle_domain::provider::ProviderName;
use settle_domain::time::Timestamp;
use settle_engine::acts::hint;
use settle_engine::pauses;
use settle_engine::providers::Station;
use settle_provider::signing;
use settle_store::{PausedProvider, ProviderPause, Store, StoreResult};
use utoipa::{IntoResponses, ToSchema};

use super::OperatorState;
use super::authentication::Operator;
use super::fields::Fields;
use super::names::Names;
use crate::error::ApiError;
use crate::http::{PathIds, read_body, serialized};
use crate::refusals::{Documentation, Refusal, responses};

/// The longest hint, in bytes.
const HINT_BYTES_MAX: usize = 64 * 1_024;

/// A provider, as this process sees it.
#[derive(Serialize, ToSchema)]
#[schema(as = Provider)]
pub(super) struct Shown {
    #[schema(value_type = String, examples("sandbox"))]
    name: ProviderName,
    /// `closed`: calls go through. `open`: it did not answer lately, and nothing is sent to it for a while.
    #[schema(examples("closed"))]
    circuit: &'static str,
    /// Calls of this process under way.
    in_flight: usize,
    /// When it last answered this process; null before it has.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    answered_at: Option<Timestamp>,
    /// Calls of this process in a row that it has not answered; five open its circuit.
    unanswered: u32,
    /// Whether it says of itself that it moves no real money; null before it has been asked.
    #[schema(required)]
    sandbox: Option<bool>,
    /// The memory that it has, as it says; null before it has been asked.
    #[schema(required)]
    instance: Option<String>,
    /// Whether an operator has paused it: nothing is sent to it, look-ups go on. It holds in every process.
    paused: bool,
    /// Who paused it.
    #[schema(required, value_type = Option<String>)]
    paused_by: Option<Actor>,
    /// The operator's name.
    #[schema(required)]
    paused_by_name: Option<String>,
    #[schema(required, value_type = Option<String>, format = DateTime)]
    paused_at: Option<Timestamp>,
}

/// The providers of the settings.
#[derive(Serialize, ToSchema)]
pub(super) struct Providers {
    providers: Vec<Shown>,
}

/// What an operator sets.
#[derive(ToSchema)]
#[schema(as = ProviderRequest)]
#[expect(dead_code, reason = "only its schema is used: `Fields` reads it, to name every fault")]
pub(super) struct RequestSchema {
    /// Whether nothing is sent to it.
    paused: bool,
}

/// What a provider says when something has become of an operation.
#[derive(ToSchema)]
#[schema(as = ProviderHint)]
#[expect(dead_code, reason = "only its schema is used: what is not a hint is no fault")]
pub(super) struct HintSchema {
    #[schema(value_type = Uuid)]
    operation_id: String,
}

/// What showing a provider can be refused for.
pub(super) struct ShowRefusals;

impl IntoResponses for ShowRefusals {
    fn responses() -> Documentation {
        responses(&[Refusal::UnknownProvider])
    }
}

/// What setting a provider can be refused for.
pub(super) struct SetRefusals;

impl IntoResponses for SetRefusals {
    fn responses() -> Documentation {
        responses(&[Refusal::InvalidBody, Refusal::UnknownProvider, Refusal::AdminValidation])
    }
}

/// List the providers
#[utoipa::path(
    get,
    path = "/operator/v1/providers",
    operation_id = "listProviders",
    tag = "Providers",
    responses((status = 200, description = "All providers of the settings.", body = Providers))
)]
pub(super) async fn list_providers(
    _operator: Operator,
    State(state): State<OperatorState>,
) -> Result<Response, ApiError> {
    let pauses = Pauses::read(&*state.store).await?;
    let providers = state.means.providers.all().map(|station| shown(station, &pauses)).collect();
    Ok(serialized(&Providers { providers })?)
}

/// Show a provider
#[utoipa::path(
    get,
    path = "/operator/v1/providers/{name}",
    operation_id = "showProvider",
    tag = "Providers",
    params(("name" = String, Path, description = "Its name in the settings.")),
    responses((status = 200, description = "The provider.", body = Shown), ShowRefusals)
)]
pub(super) async fn show_provider(
    _operator: Operator,
    State(state): State<OperatorState>,
    ids: PathIds,
) -> Result<Response, ApiError> {
    let station = station(&state, &ids)?;
    Ok(serialized(&shown(station, &Pauses::read(&*state.store).await?))?)
}

/// Pause a provider, or let it go on
#[utoipa::path(
    put,
    path = "/operator/v1/providers/{name}",
    operation_id = "setProvider",
    tag = "Providers",
    params(("name" = String, Path, description = "Its name in the settings.")),
    request_body = RequestSchema,
    responses((status = 200, description = "The provider as it is now.", body = Shown), SetRefusals)
)]
pub(super) async fn set_provider(
    operator: Operator,
    State(state): State<OperatorState>,
    ids: PathIds,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let station = station(&state, &ids)?;
    let mut fields = Fields::read(&headers, body, state.body_timeout).await?;
    let paused = fields.required_switch("paused");
    fields.end("a provider")?;
    let provider = station.name().clone();
    let mut tx = state.store.begin().await?;
    if paused {
        let paused_by = Actor::Operator(operator.id());
        let paused_at = state.envelope.clock.now();
        tx.provider_pause(&ProviderPause { provider: provider.clone(), paused_by, paused_at }).await?;
    } else {
        tx.provider_resume(&provider).await?;
    }
    tx.commit().await?;
    tracing::info!(%provider, paused, "an operator set a provider");
    // In this process at once; the others look every second.
    pauses::look(&state.means.providers, &*state.store).await?;
    Ok(serialized(&shown(station, &Pauses::read(&*state.store).await?))?)
}

/// Take a provider's hint that something has become of an operation
///
/// Signed as everything between Settle and the provider is. A hint makes the engine look the operation up,
/// and nothing that it says is believed. The answer is always 202, so that nobody learns anything from it.
#[utoipa::path(
    post,
    path = "/operator/v1/providers/{name}/callback",
    operation_id = "takeCallback",
    tag = "Providers",
    security(()),
    params(("name" = String, Path, description = "Its name in the settings.")),
    request_body = HintSchema,
    responses((status = 202, description = "Heard."))
)]
pub(super) async fn take_callback(
    State(state): State<OperatorState>,
    ids: PathIds,
    headers: HeaderMap,
    body: Body,
) -> StatusCode {
    if let Some(operation) = hinted(&state, &ids, &headers, body).await
        && let Err(fault) = hint(&state.means, &state.engine_wake, operation).await
    {
        // What is in flight is looked up by itself, only later; what has ended, when both sides are compared.
        tracing::warn!(%fault, operation = %operation.0, "a provider's hint was lost");
    }
    StatusCode::ACCEPTED
}

/// The operation that a hint names, if the provider has signed it.
async fn hinted(
    state: &OperatorState,
    ids: &PathIds,
    headers: &HeaderMap,
    body: Body,
) -> Option<OperationId> {
    let station = station(state, ids).ok()?;
    let body = read_body(headers, body, HINT_BYTES_MAX, state.body_timeout).await.ok()?;
    let secret = state.provider_secrets.get(station.name())?;
    if let Err(fault) = signing::verify(headers, secret, &body, state.envelope.clock.now()) {
        tracing::debug!(provider = %station.name(), %fault, "a hint that the provider has not signed");
        return None;
    }
    let body: Value = serde_json::from_slice(&body).ok()?;
    body.get("operation_id")?.as_str()?.parse().ok().map(OperationId)
}

fn station<'a>(state: &'a OperatorState, ids: &PathIds) -> Result<&'a Station, ApiError> {
    let name: ProviderName = ids.id("name").ok_or(ApiError::NotFound)?;
    state.means.providers.find(&name).map(|station| &**station).ok_or(ApiError::NotFound)
}

/// The pauses, and the names of those who made them.
struct Pauses(Vec<PausedProvider>, Names);

impl Pauses {
    async fn read(store: &dyn Store) -> StoreResult<Pauses> {
        let pauses = store.provider_pauses().await?;
        let names = Names::of(store, pauses.iter().filter_map(|pause| pause.paused_by)).await?;
        Ok(Pauses(pauses, names))
    }
}

fn shown(station: &Station, Pauses(pauses, names): &Pauses) -> Shown {
    let pause = pauses.iter().find(|pause| pause.provider == *station.name());
    Shown {
        name: station.name().clone(),
        circuit: if station.is_open() { "open" } else { "closed" },
        in_flight: station.in_flight(),
        answered_at: station.answered_at(),
        unanswered: station.unanswered(),
        sandbox: station.is_sandbox(),
        instance: station.instance(),
        paused: pause.is_some(),
        paused_by: pause.and_then(|pause| pause.paused_by),
        paused_by_name: pause.and_then(|pause| names.find(pause.paused_by?)),
        paused_at: pause.and_then(|pause| pause.paused_at),
    }
}
