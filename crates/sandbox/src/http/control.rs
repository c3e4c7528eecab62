//! What tests ask the sandbox itself. Nothing here is signed: whoever reaches a sandbox may steer it.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use serde::{Deserialize, Serialize};
use settle_domain::money::{Decimal, asset_decimals};

use super::{after, cut};
use crate::desk::Desk;
use crate::journal::Entry;
use crate::ledger::Execution;

pub(super) fn routes() -> Router<Arc<Desk>> {
    Router::new()
        .route("/sandbox/executions", get(executions))
        .route("/sandbox/gas", put(set_gas))
        .route("/sandbox/rates/{sell}/{buy}", put(set_rate))
}

#[derive(Serialize)]
struct ExecutionPage {
    executions: Vec<Execution>,
    next: Option<String>,
}

async fn executions(State(desk): State<Arc<Desk>>, RawQuery(query): RawQuery) -> Response {
    let after = match after(query.as_deref()) {
        Ok(after) => after,
        Err(fault) => return refused(&fault.to_string()),
    };
    match desk.held(|ledger, now, journal| ledger.executions(after, now, journal)).await {
        Ok((executions, next)) => {
            let next = next.map(|next| next.to_string());
            json(StatusCode::OK, &ExecutionPage { executions, next })
        }
        Err(_) => cut(),
    }
}

#[derive(Deserialize, Serialize)]
struct Gas {
    filled: bool,
}

async fn set_gas(State(desk): State<Arc<Desk>>, body: Bytes) -> Response {
    match serde_json::from_slice::<Gas>(&body) {
        Ok(gas) => set(&desk, Entry::Gas { filled: gas.filled }, &gas).await,
        Err(fault) => refused(&fault.to_string()),
    }
}

#[derive(Deserialize, Serialize)]
struct Rate {
    rate: Decimal,
}

async fn set_rate(
    State(desk): State<Arc<Desk>>,
    Path((sell, buy)): Path<(String, String)>,
    body: Bytes,
) -> Response {
    if sell == buy || asset_decimals(&sell).is_none() || asset_decimals(&buy).is_none() {
        return refused("a rate is between two different assets that the sandbox knows");
    }
    match serde_json::from_slice::<Rate>(&body) {
        Ok(Rate { rate }) if rate.is_zero() => refused("a rate is more than zero"),
        Ok(rate) => set(&desk, Entry::Rate { sell, buy, rate: rate.rate }, &rate).await,
        Err(fault) => refused(&fault.to_string()),
    }
}

async fn set(desk: &Desk, entry: Entry, told: &impl Serialize) -> Response {
    match desk.held(|ledger, _, journal| ((), ledger.record(entry, journal))).await {
        Ok(()) => json(StatusCode::OK, told),
        Err(_) => cut(),
    }
}

fn refused(reason: &str) -> Response {
    json(StatusCode::UNPROCESSABLE_ENTITY, &serde_json::json!({ "code": "invalid_body", "reason": reason }))
}

fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
