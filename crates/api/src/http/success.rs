//! Answers that went well.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;

/// A 200 with a JSON body.
#[must_use]
pub fn json(body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Tells everybody on the way not to keep a response.
pub fn no_store(response: &mut Response) {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}
