//! The docs pages, one for merchants and one for operators: each works offline, under a content security
//! policy that allows one script, by its hash.
//!
//! The script is ours and stands in the page. It adds buttons that copy samples, and marks in the contents
//! where the reader is; without it nothing else is missing.
//!
//! People write the guides in `page.html` and `operator.html`, which also shows `docs/settling.md`; the
//! service renders the reference below from the OpenAPI document and the error codes, so that it says what
//! the service does. Each receiver is a file of its own, so that the tests run the very text that the page
//! shows.

mod codes;
mod examples;
mod guide;
mod markup;
mod reference;
mod render;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};
use utoipa::openapi::OpenApi;

use crate::error::ApiError;
use crate::http::Asset;

const SCRIPT: &str = include_str!("script.js");

/// Nothing but the style, and the page's own script: any other text has another hash.
static POLICY: LazyLock<Result<HeaderValue, String>> = LazyLock::new(|| {
    let hash = BASE64.encode(Sha256::digest(SCRIPT));
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{hash}'; style-src 'self'; img-src 'self' data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).map_err(|fault| fault.to_string())
});

static PAGE: LazyLock<Result<Asset, String>> =
    LazyLock::new(|| asset(render::page()?, "text/html; charset=utf-8"));
static SETTLING: LazyLock<Result<Asset, String>> =
    LazyLock::new(|| asset(include_str!("../../../../docs/settling.svg"), "image/svg+xml"));
static STYLE: LazyLock<Result<Asset, String>> =
    LazyLock::new(|| asset(include_str!("style.css"), "text/css; charset=utf-8"));

fn asset(text: impl Into<Bytes>, content_type: &'static str) -> Result<Asset, String> {
    Asset::new(text, content_type).map_err(|fault| fault.to_string())
}

/// `GET /docs`.
pub(crate) async fn page(headers: HeaderMap) -> Response {
    served(&PAGE, &headers)
}

/// The page for operators, from the document of their API.
pub(crate) fn operator_page(document: &OpenApi) -> Result<Asset, String> {
    asset(render::operator_page(document)?, "text/html; charset=utf-8")
}

/// `GET /docs/settling.svg`: the states of a payment. The picture brings its own style.
pub(crate) async fn settling(headers: HeaderMap) -> Response {
    let mut response = served(&SETTLING, &headers);
    let policy = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'");
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

/// `GET /docs/style.css`.
pub(crate) async fn style(headers: HeaderMap) -> Response {
    served(&STYLE, &headers)
}

/// Answers with a part of a page, under the policy.
pub(crate) fn served(asset: &Result<Asset, String>, headers: &HeaderMap) -> Response {
    let (asset, policy) = match (asset, &*POLICY) {
        (Ok(asset), Ok(policy)) => (asset, policy),
        (Err(cause), _) | (_, Err(cause)) => {
            return ApiError::Internal(format!("the docs page: {cause}")).into_response();
        }
    };
    let mut response = asset.answer(headers);
    let answered = response.headers_mut();
    answered.insert(header::CONTENT_SECURITY_POLICY, policy.clone());
    answered.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
