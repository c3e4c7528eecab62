//! The docs page: one page that works offline, under a content security policy that allows no script at all.
//!
//! People write the guide in `page.html`; the service renders the reference below it from the OpenAPI
//! document and the error codes, so that it says what the service does. Each sample that checks a signature
//! is a file of its own, so that the tests run the very text that the page shows.

mod codes;
mod examples;
mod markup;
mod reference;
mod render;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use crate::error::ApiError;

const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

static PAGE: LazyLock<Result<String, String>> = LazyLock::new(render::page);

/// `GET /docs`.
pub(crate) async fn page() -> Response {
    match &*PAGE {
        Ok(page) => served(page, "text/html; charset=utf-8"),
        Err(cause) => ApiError::Internal(format!("the docs page: {cause}")).into_response(),
    }
}

/// `GET /docs/style.css`.
pub(crate) async fn style() -> Response {
    served(include_str!("style.css"), "text/css; charset=utf-8")
}

fn served(body: &'static str, content_type: &'static str) -> Response {
    let mut response = Response::new(body.into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
