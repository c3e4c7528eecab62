//! The secret that signs a merchant's notifications: in plain text, and sealed for the database.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

use crate::error_code::ErrorCode;

/// The longest webhook secret, in bytes of UTF-8.
pub const SECRET_BYTES_MAX: usize = 256;

/// A webhook secret in plain text: 1 to 256 bytes, no control characters. It does not print.
#[derive(Clone)]
pub struct WebhookSecret(SecretString);

impl WebhookSecret {
    /// Parses a secret as the merchant sent it, or gives the code that refuses the field.
    pub fn parse(text: String) -> Result<WebhookSecret, ErrorCode> {
        if text.is_empty() {
            return Err(ErrorCode::Required);
        }
        if text.len() > SECRET_BYTES_MAX || text.chars().any(char::is_control) {
            return Err(ErrorCode::ValidationFailed);
        }
        Ok(WebhookSecret(text.into()))
    }

    /// The bytes, used verbatim as the HMAC key.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.expose_secret().as_bytes()
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WebhookSecret(…)")
    }
}

/// A webhook secret as the database stores it.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedSecret(pub Vec<u8>);

impl fmt::Debug for SealedSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SealedSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_1_to_256_bytes_and_no_control_characters() {
        let parse = |text: &str| WebhookSecret::parse(text.to_owned()).map(|_| ());
        assert_eq!(parse(""), Err(ErrorCode::Required));
        assert_eq!(parse(&"é".repeat(128)), Ok(()));
        assert_eq!(parse(&"é".repeat(129)), Err(ErrorCode::ValidationFailed));
        for text in ["a\0", "a\n", "\u{7f}", "\u{85}"] {
            assert_eq!(parse(text), Err(ErrorCode::ValidationFailed));
        }
        assert!(!format!("{:?}", WebhookSecret::parse("hush".to_owned()).unwrap()).contains("hush"));
    }
}
