//! Operators' OpenAPI document (the operator API, `/healthz`, `/readyz` and `/metrics`), and the docs page
//! that shows it.

use std::sync::LazyLock;

use axum::http::HeaderMap;
use axum::response::Response;
use utoipa::openapi::OpenApi;

use super::operations::{open, operations};
use crate::error::{ApiError, Unserializable};
use crate::http::Asset;
use crate::openapi::{Explained, Published, Surface, complete};
use crate::refusals::OPERATORS;
use crate::{docs, health};

const OPERATOR_API: Surface = Surface {
    title: "Settle for operators",
    description: "What operators ask of the service, on a listener of its own: payments and their \
        corridors and providers, recording settlements made elsewhere, merchants and their API keys, health and \
        metrics.\n\nEvery request under `/operator/v1` carries a token as \
        `Authorization: Bearer op_…`. Every error has one envelope; a 422 and a 409 say in `error.details` what is \
        wrong.\n\n`/operator/v1` only grows: fields, parameters and codes may be added.",
    tags: &[
        ("Settlements", "Completed settlements of all merchants."),
        ("Merchants", "The owners of settlements, keys and endpoints."),
        ("Keys", "The API keys of a merchant."),
        ("Corridors", "What was agreed for a merchant and a pair of assets, in versions."),
        (
            "Payments",
            "Pay-ins on their way: quoted, converted, paid out, and what an operator does about them.",
        ),
        ("Providers", "The systems outside that quote, convert, pay out and refund."),
        ("Ledger", "What is on the accounts, and whether providers agree with it."),
        ("Health", "Whether the service works, and how."),
    ],
    credential: [
        "operator_token",
        "op_ followed by lower-case hex",
        "The token of an operator, as `Authorization: Bearer op_…`: `settle operator create` makes one.",
    ],
    common: &OPERATORS,
    explained: Explained::Details,
};

fn document() -> OpenApi {
    let mut document = operations().into_openapi();
    document.merge(open().into_openapi());
    document.merge(health::operations().into_openapi());
    complete(document, &OPERATOR_API)
}

static PUBLISHED: LazyLock<Published> = LazyLock::new(|| Published::new(&document()));

static PAGE: LazyLock<Result<Asset, String>> = LazyLock::new(|| docs::operator_page(&document()));

/// `GET /docs` of the operator's listener.
pub(super) async fn page(headers: HeaderMap) -> Response {
    docs::served(&PAGE, &headers)
}

/// The document as text.
pub fn text() -> Result<&'static str, &'static Unserializable> {
    PUBLISHED.text()
}

/// `GET /openapi.json` of the operator's listener.
pub(super) async fn serve(headers: HeaderMap) -> Result<Response, ApiError> {
    PUBLISHED.answer(&headers)
}
