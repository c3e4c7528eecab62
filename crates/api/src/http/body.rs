//! Reading a JSON body: bounded in size and in time.

use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::error::BodyFault;
use crate::limits::Limits;

/// Reads a request body as a JSON object of the given shape.
pub async fn read_json<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Body,
    limits: &Limits,
) -> Result<T, BodyFault> {
    let bytes = read_body(headers, body, limits.body_bytes_max, limits.body_timeout).await?;
    parse_json(&bytes)
}

/// Parses a JSON object of the given shape.
pub fn parse_json<T: DeserializeOwned>(json: &[u8]) -> Result<T, BodyFault> {
    // serde also reads a struct from an array; the contract allows an object only.
    if json.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(BodyFault::Unreadable);
    }
    serde_json::from_slice(json).map_err(|_| BodyFault::Unreadable)
}

/// Reads a request body whose `Content-Type` says JSON, or that has none.
pub async fn read_body(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
    timeout: Duration,
) -> Result<Bytes, BodyFault> {
    if !is_json(headers) {
        return Err(BodyFault::WrongType);
    }
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: usize| length > bytes_max) {
        return Err(BodyFault::TooLarge);
    }
    let read = read_whole(Limited::new(body, bytes_max));
    let read = tokio::time::timeout(timeout, read).await.map_err(|_| BodyFault::Unreadable)?;
    read.map_err(|fault| {
        if fault.downcast_ref::<LengthLimitError>().is_some() {
            BodyFault::TooLarge
        } else {
            BodyFault::Unreadable
        }
    })
}

/// Copies the parts of a body. Each of them keeps the buffer that it was read into, of 8 KiB, however short
/// it is: who sends a byte at a time would have thousands of buffers.
async fn read_whole(mut body: Limited<Body>) -> Result<Bytes, BoxError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes.into())
}

/// Accepts `application/json` and types with the suffix `+json`, whatever their parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let Some(value) = values.next() else { return true };
    let Ok(text) = value.to_str() else { return false };
    let media_type = text.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    let json = media_type == "application/json"
        || (media_type.starts_with("application/") && media_type.ends_with("+json"));
    json && values.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use std::convert::Infallible;
    use std::sync::Arc;

    /// A part of a body that can be counted.
    struct Part(Arc<[u8]>);

    impl AsRef<[u8]> for Part {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    #[tokio::test]
    async fn the_parts_of_a_body_are_not_kept() {
        let held: Arc<[u8]> = Arc::from(*b"x");
        let parts = (0..100).map(move |_| {
            assert!(Arc::strong_count(&held) <= 2, "at most the part before");
            Ok::<_, Infallible>(Bytes::from_owner(Part(held.clone())))
        });
        let body = Body::from_stream(futures::stream::iter(parts));
        let read = read_body(&HeaderMap::new(), body, 100, Duration::from_secs(1)).await;
        assert_eq!(read.ok().unwrap(), [b'x'; 100].as_slice());
    }

    #[test]
    fn json_types_are_json_and_nothing_else_is() {
        let of = |value: &'static str| {
            HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(value))])
        };
        assert!(is_json(&HeaderMap::new()));
        for value in ["application/json", "Application/JSON; charset=utf-8", "application/vnd.settle+json"] {
            assert!(is_json(&of(value)), "{value}");
        }
        for value in
            ["", "text/plain", "text/json", "application/jsonp", "application/x-www-form-urlencoded", "json"]
        {
            assert!(!is_json(&of(value)), "{value}");
        }
    }
}
