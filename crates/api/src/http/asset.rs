//! Public text that never changes while the service runs: it is compressed once, and who has it already gets
//! a 304. Anybody may ask for it as often as they like, so an answer must cost next to nothing.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;

/// A text in both forms, and its tag.
pub struct Asset {
    plain: Bytes,
    gzip: Bytes,
    content_type: HeaderValue,
    /// Weak, because both forms have the same one.
    tag: HeaderValue,
}

impl Asset {
    /// Compresses the text.
    pub fn new(text: impl Into<Bytes>, content_type: &'static str) -> std::io::Result<Asset> {
        let plain: Bytes = text.into();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&plain)?;
        let gzip = encoder.finish()?.into();
        let mut hasher = DefaultHasher::new();
        plain.hash(&mut hasher);
        let tag = HeaderValue::try_from(format!("W/\"{:016x}\"", hasher.finish()));
        let tag = tag.map_err(std::io::Error::other)?;
        Ok(Asset { plain, gzip, content_type: HeaderValue::from_static(content_type), tag })
    }

    /// The answer to a request with these headers.
    #[must_use]
    pub fn answer(&self, headers: &HeaderMap) -> Response {
        let mut response = Response::default();
        if self.is_known(headers) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else if accepts_gzip(headers) {
            *response.body_mut() = self.gzip.clone().into();
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        } else {
            *response.body_mut() = self.plain.clone().into();
        }
        let answered = response.headers_mut();
        answered.insert(header::CONTENT_TYPE, self.content_type.clone());
        answered.insert(header::ETAG, self.tag.clone());
        answered.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        response
    }

    /// Whether the caller has the text already, by `If-None-Match`.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        let tag = self.tag.to_str().unwrap_or_default();
        let is_ours = |known: &str| known == "*" || known == tag || tag.strip_prefix("W/") == Some(known);
        elements(headers, &header::IF_NONE_MATCH).any(is_ours)
    }
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    elements(headers, &header::ACCEPT_ENCODING).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let quality = quality.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse);
        name.trim().eq_ignore_ascii_case("gzip") && quality.is_ok_and(|quality: f32| quality > 0.0)
    })
}

/// The elements of a header that is a list.
fn elements<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use http_body_util::BodyExt;
    use std::io::Read;

    async fn asked(name: header::HeaderName, value: &str) -> (u16, HeaderMap, Vec<u8>) {
        let asset = Asset::new("long text ".repeat(1_000), "text/plain").unwrap();
        let headers = HeaderMap::from_iter([(name, HeaderValue::try_from(value).unwrap())]);
        let (head, body) = asset.answer(&headers).into_parts();
        (head.status.as_u16(), head.headers, body.collect().await.unwrap().to_bytes().to_vec())
    }

    #[tokio::test]
    async fn who_takes_gzip_gets_it_and_others_the_plain_text() {
        let text = "long text ".repeat(1_000);
        for value in ["gzip", "br, GZIP;q=0.5", "deflate,gzip ; q=1"] {
            let (status, headers, body) = asked(header::ACCEPT_ENCODING, value).await;
            assert_eq!((status, headers.get("content-encoding").unwrap().as_bytes()), (200, &b"gzip"[..]));
            let mut unpacked = String::new();
            GzDecoder::new(&*body).read_to_string(&mut unpacked).unwrap();
            assert!(body.len() < 200 && unpacked == text, "{value}");
        }
        for value in ["", "identity", "gzip;q=0", "br", "gzip;q=x"] {
            let (status, headers, body) = asked(header::ACCEPT_ENCODING, value).await;
            assert_eq!((status, headers.get("content-encoding"), &*body), (200, None, text.as_bytes()));
            assert_eq!(headers["vary"], "Accept-Encoding");
        }
    }

    #[tokio::test]
    async fn who_has_the_text_gets_a_304_without_a_body() {
        let (_, headers, _) = asked(header::ACCEPT, "*/*").await;
        let tag = headers["etag"].to_str().unwrap().to_owned();
        for value in [tag.as_str(), &tag[2..], &format!("\"other\", {tag}"), "*"] {
            let (status, headers, body) = asked(header::IF_NONE_MATCH, value).await;
            assert_eq!(
                (status, headers["etag"].to_str().unwrap(), &*body),
                (304, &*tag, &b""[..]),
                "{value}"
            );
        }
        assert_eq!(asked(header::IF_NONE_MATCH, "\"other\"").await.0, 200);
    }
}
