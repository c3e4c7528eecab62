//! Answers that went well.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use serde::Serialize;

use crate::error::Unserializable;

/// A 200 with a body that is JSON already.
#[must_use]
pub fn json(body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A 200 with a value written as JSON.
pub fn serialized(value: &impl Serialize) -> Result<Response, Unserializable> {
    Ok(json(serde_json::to_vec(value)?))
}

/// Forbids caches to keep a response.
pub fn no_store(response: &mut Response) {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ApiError, ErrorBody};
    use crate::refusals::operation_errors;
    use axum::response::IntoResponse;
    use serde::Serializer;
    use serde::ser::Error;

    /// A value that refuses to be written.
    struct Broken;

    impl Serialize for Broken {
        fn serialize<S: Serializer>(&self, _serializer: S) -> Result<S::Ok, S::Error> {
            Err(S::Error::custom("broken"))
        }
    }

    operation_errors! {
        /// What an operation that can always be done can be refused for.
        OperationError {}
    }

    #[test]
    fn an_answer_that_cannot_be_written_is_a_fault_of_ours_with_its_cause() {
        let merchants = serialized(&Broken).map_err(OperationError::from).into_response();
        let operators = serialized(&Broken).map_err(ApiError::from).into_response();
        for response in [merchants, operators] {
            assert_eq!(response.status(), 500);
            let error = response.extensions().get::<ErrorBody>().unwrap();
            assert_eq!(error.wording.code().as_str(), "internal_error");
            assert_eq!(error.cause.as_deref(), Some("the answer cannot be written as JSON: broken"));
        }
    }

    #[test]
    fn an_answer_that_can_be_written_is_json() {
        let response = serialized(&["written"]).unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &HeaderValue::from_static("application/json"))
        );
    }
}
