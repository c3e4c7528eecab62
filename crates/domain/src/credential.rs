//! API keys and operator tokens: a prefix and 32 random bytes in lower-case hex. We show a credential once
//! and store only its hash, with a seal that says whose it is. Why so stands in [`vault`](crate::vault).

use std::fmt;
use std::sync::LazyLock;

use hmac::{Hmac, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

use crate::ids::{KeyId, MerchantId, OperatorId};
use crate::seams::{Entropy, random_bytes};
use crate::signature::hmac_sha256;

/// Sets the hash of a credential apart from every other hash. It is no secret.
const HASH_LABEL: &[u8] = b"settle: credential hash, v1";
/// Keyed with the label once: almost every request has a credential.
static HASHING: LazyLock<Hmac<Sha256>> = LazyLock::new(|| hmac_sha256(HASH_LABEL));

/// Who authenticates with the credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialKind {
    /// A merchant: `sk_…`.
    ApiKey,
    /// An operator: `op_…`.
    OperatorToken,
}

impl CredentialKind {
    /// The text that a credential of this kind starts with.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::ApiKey => "sk_",
            Self::OperatorToken => "op_",
        }
    }
}

/// Longer texts are refused unread; our own credentials have 67 characters.
const LENGTH_MAX: usize = 256;

/// A credential in plain text. Neither `Debug` nor an error prints it.
#[derive(Clone)]
pub struct Credential(SecretString);

impl Credential {
    /// A new credential from fresh randomness.
    #[must_use]
    pub fn generate(kind: CredentialKind, entropy: &dyn Entropy) -> Credential {
        let bytes: [u8; 32] = random_bytes(entropy);
        Credential(format!("{}{}", kind.prefix(), hex::encode(bytes)).into())
    }

    /// Reads a credential of the given kind: the prefix and lower-case hex, nothing else.
    #[must_use]
    pub fn parse(kind: CredentialKind, text: &str) -> Option<Credential> {
        let digits = text.strip_prefix(kind.prefix())?;
        let is_hex = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let well_formed = is_hex && !digits.is_empty() && text.len() <= LENGTH_MAX;
        well_formed.then(|| Credential(text.to_owned().into()))
    }

    /// The plain text. Show it only when the credential is created.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// The hash by which the database finds it. It needs no master key, so that replacing one leaves it as it
    /// is; nobody finds 32 random bytes from it.
    #[must_use]
    pub fn hash(&self) -> CredentialHash {
        let mac = HASHING.clone().chain_update(self.expose().as_bytes());
        CredentialHash(mac.finalize().into_bytes().into())
    }

    /// The last four characters, for display.
    #[must_use]
    pub fn last_four(&self) -> String {
        let text = self.expose();
        text[text.len().saturating_sub(4)..].to_owned()
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credential(…)")
    }
}

/// The hash by which the database finds a credential. Alone it admits nobody: see [`CredentialSeal`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CredentialHash(pub [u8; 32]);

impl fmt::Debug for CredentialHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CredentialHash(…)")
    }
}

/// Whose a stored credential is, and in which row it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// A merchant, with one of its API keys.
    Merchant {
        /// Whose key.
        merchant_id: MerchantId,
        /// Which key.
        key_id: KeyId,
    },
    /// An operator.
    Operator(OperatorId),
}

/// What makes a stored credential valid: the id of a master key, and an HMAC under that key of the
/// credential's hash and its holder. Without the master key nobody can insert a credential that works, nor
/// move one to another merchant.
#[derive(Clone, PartialEq, Eq)]
pub struct CredentialSeal(pub Vec<u8>);

impl fmt::Debug for CredentialSeal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CredentialSeal(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seams::SeededEntropy;

    #[test]
    fn a_key_is_sk_and_64_hex_digits() {
        let key = Credential::generate(CredentialKind::ApiKey, &SeededEntropy::new(7));
        assert_eq!(key.expose().len(), 67);
        assert!(Credential::parse(CredentialKind::ApiKey, key.expose()).is_some());
        assert_eq!(key.last_four(), key.expose()[63..]);
    }

    #[test]
    fn the_hash_is_what_earlier_versions_stored() {
        // printf sk_00ff | openssl dgst -sha256 -hmac 'settle: credential hash, v1'
        let key = Credential::parse(CredentialKind::ApiKey, "sk_00ff").unwrap();
        let expected = "3c0a95aecbed4669532a59e2937bd8562eb009a42335dccbec5943f38a1fd841";
        assert_eq!(hex::encode(key.hash().0), expected);
        assert_eq!(hex::encode(key.hash().0), expected, "again");
    }

    #[test]
    fn neither_a_key_nor_what_is_stored_of_it_prints() {
        let key = Credential::generate(CredentialKind::ApiKey, &SeededEntropy::new(7));
        assert_eq!(format!("{key:?}"), "Credential(…)");
        assert_eq!(format!("{:?}", key.hash()), "CredentialHash(…)");
        assert_eq!(format!("{:?}", CredentialSeal(vec![1])), "CredentialSeal(…)");
    }

    #[test]
    fn only_the_prefix_and_lower_case_hex_is_a_key() {
        let longest = format!("sk_{}", "a".repeat(LENGTH_MAX - 3));
        assert!(Credential::parse(CredentialKind::ApiKey, &longest).is_some());
        let long = format!("{longest}a");
        for text in
            ["", "sk_", "sk_ABC", "sk_xyz", "op_00ff", "SK_00ff", "sk_00ff ", " sk_00ff", "00ff", &long]
        {
            assert!(Credential::parse(CredentialKind::ApiKey, text).is_none(), "{text}");
        }
        assert!(Credential::parse(CredentialKind::ApiKey, "sk_00ff").is_some());
        assert!(Credential::parse(CredentialKind::OperatorToken, "op_00ff").is_some());
    }
}
