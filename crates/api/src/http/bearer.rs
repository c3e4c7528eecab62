//! The credential that a request carries.

use axum::http::{HeaderMap, header};
use settle_domain::credential::{Credential, CredentialKind};

/// Why a request carries no credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BearerFault {
    /// There is no `Authorization` header.
    Missing,
    /// The header is there more than once, or its credential does not have the right form.
    Malformed,
}

/// The credential in the one `Authorization` header, if it has the form of its kind.
pub fn bearer(kind: CredentialKind, headers: &HeaderMap) -> Result<Credential, BearerFault> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().ok_or(BearerFault::Missing)?;
    let is_only = values.next().is_none();
    let credential = || {
        let (scheme, text) = value.to_str().ok()?.split_once(' ')?;
        // RFC 9110 allows more than one blank between the scheme and the credentials.
        let text = scheme.eq_ignore_ascii_case("bearer").then(|| text.trim_start_matches(' '))?;
        Credential::parse(kind, text)
    };
    is_only.then(credential).flatten().ok_or(BearerFault::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn fault(values: &[&str]) -> Option<BearerFault> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        bearer(CredentialKind::ApiKey, &headers).err()
    }

    #[test]
    fn the_scheme_is_bearer_in_any_case_and_the_header_is_there_once() {
        for value in ["Bearer sk_00ff", "bearer sk_00ff", "BEARER  sk_00ff"] {
            assert_eq!(fault(&[value]), None, "{value}");
        }
        for value in [
            "",
            "Bearer",
            "Bearer ",
            "sk_00ff",
            "Basic sk_00ff",
            "Bearer sk_00FF",
            "Bearer sk_",
            "Bearer op_00ff",
            "Bearer sk_00ff,",
            "Bearer sk_00ff sk_00ff",
            "Bearer\tsk_00ff",
            "Bearer é",
        ] {
            assert_eq!(fault(&[value]), Some(BearerFault::Malformed), "{value}");
        }
        assert_eq!(fault(&["Bearer sk_00ff", "Bearer sk_00ff"]), Some(BearerFault::Malformed));
        assert_eq!(fault(&[]), Some(BearerFault::Missing));
    }
}
