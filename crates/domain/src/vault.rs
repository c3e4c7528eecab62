//! The master key ring: it seals webhook secrets, and peppers the hashes of credentials.
//!
//! The ring has one or more keys. The first key seals and hashes; all keys open and recognise. An operator
//! replaces a key by putting a new one in front, and drops the old one when nothing depends on it any more.
//!
//! The database stores a credential as an HMAC under a pepper derived from the master key. Somebody who can
//! write to the table, but has no master key, still cannot insert a credential that works. One read looks up
//! a credential under the peppers of all keys, so replacing the master key needs no pause.
//!
//! A sealed secret is `version (1) · key id (4) · nonce (24) · ciphertext and tag`, with the merchant's id as
//! associated data: copied to another merchant's row it does not open.

use std::fmt;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use hmac::Mac;
use secrecy::{ExposeSecret, SecretBox};
use zeroize::Zeroizing;

use crate::credential::{Credential, CredentialHash};
use crate::ids::MerchantId;
use crate::seams::{Entropy, random_bytes};
use crate::signature::hmac_sha256;
use crate::webhook_secret::{SealedSecret, WebhookSecret};

const VERSION: u8 = 1;
const KEY_ID_LENGTH: usize = 4;
const NONCE_LENGTH: usize = 24;
const HEAD_LENGTH: usize = 1 + KEY_ID_LENGTH + NONCE_LENGTH;
/// The bytes of one master key.
pub const MASTER_KEY_LENGTH: usize = 32;
/// The most keys in a ring: recognising a credential costs one hash per key.
pub const RING_LENGTH_MAX: usize = 8;

/// A text that is not a key ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RingFault {
    /// A key is not 32 bytes of hex.
    #[error("a master key is 64 hexadecimal digits; several are separated by commas, the newest first")]
    Malformed,
    /// More keys than a ring may have.
    #[error("a master key ring has at most {RING_LENGTH_MAX} keys")]
    TooMany,
}

/// A sealed secret that does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenFault {
    /// None of the ring's keys sealed it.
    #[error("no key of the master key ring has sealed this secret")]
    UnknownKey,
    /// Somebody changed it, or it belongs to another merchant.
    #[error("the sealed secret is damaged or belongs to another merchant")]
    Damaged,
}

/// The id of a master key; it reveals nothing about the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MasterKeyId(pub [u8; KEY_ID_LENGTH]);

/// The values derived from one master key; the key itself is not kept.
struct RingKey {
    id: [u8; KEY_ID_LENGTH],
    sealing: SecretBox<[u8; 32]>,
    pepper: SecretBox<[u8; 32]>,
}

/// The master keys, newest first. At least one.
pub struct KeyRing {
    newest: RingKey,
    older: Vec<RingKey>,
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "KeyRing({} keys)", 1 + self.older.len())
    }
}

impl KeyRing {
    /// Reads a ring from text: one or more keys of 64 hexadecimal digits, separated by commas, the newest
    /// first.
    pub fn parse(text: &str) -> Result<KeyRing, RingFault> {
        let mut keys = text.split(',').map(|part| {
            let mut key = Zeroizing::new([0u8; MASTER_KEY_LENGTH]);
            hex::decode_to_slice(part.trim(), key.as_mut_slice()).map_err(|_| RingFault::Malformed)?;
            Ok(RingKey::derive(&key))
        });
        let newest = keys.next().ok_or(RingFault::Malformed)??;
        let older = keys.collect::<Result<Vec<_>, _>>()?;
        if older.len() >= RING_LENGTH_MAX {
            return Err(RingFault::TooMany);
        }
        Ok(KeyRing { newest, older })
    }

    /// Seals a merchant's webhook secret under the newest key.
    #[must_use]
    pub fn seal(&self, merchant: MerchantId, secret: &WebhookSecret, entropy: &dyn Entropy) -> SealedSecret {
        let nonce: [u8; NONCE_LENGTH] = random_bytes(entropy);
        let mut blob = Vec::with_capacity(HEAD_LENGTH + secret.as_bytes().len() + 16);
        blob.push(VERSION);
        blob.extend_from_slice(&self.newest.id);
        blob.extend_from_slice(&nonce);
        blob.extend_from_slice(&self.newest.encrypt(nonce, merchant, secret.as_bytes()));
        SealedSecret(blob)
    }

    /// Opens a merchant's webhook secret.
    pub fn open(&self, merchant: MerchantId, sealed: &SealedSecret) -> Result<WebhookSecret, OpenFault> {
        let blob = &sealed.0;
        if blob.len() < HEAD_LENGTH || blob[0] != VERSION {
            return Err(OpenFault::Damaged);
        }
        let (head, ciphertext) = blob.split_at(HEAD_LENGTH);
        let (id, nonce) = head[1..].split_at(KEY_ID_LENGTH);
        let key = self.keys().find(|key| key.id == id).ok_or(OpenFault::UnknownKey)?;
        let nonce = XNonce::try_from(nonce).map_err(|_| OpenFault::Damaged)?;
        let payload = Payload { msg: ciphertext, aad: merchant.0.as_bytes() };
        let plain = key.cipher().decrypt(&nonce, payload).map_err(|_| OpenFault::Damaged)?;
        let text = String::from_utf8(plain).map_err(|_| OpenFault::Damaged)?;
        WebhookSecret::parse(text).map_err(|_| OpenFault::Damaged)
    }

    /// The hash to store for a new credential.
    #[must_use]
    pub fn hash(&self, credential: &Credential) -> CredentialHash {
        self.newest.hash(credential)
    }

    /// Every hash that the database may hold for a credential, one per key of the ring.
    #[must_use]
    pub fn hashes(&self, credential: &Credential) -> Vec<CredentialHash> {
        self.keys().map(|key| key.hash(credential)).collect()
    }

    /// The ids of the keys, newest first. They reveal nothing about the keys.
    #[must_use]
    pub fn ids(&self) -> Vec<MasterKeyId> {
        self.keys().map(|key| MasterKeyId(key.id)).collect()
    }

    fn keys(&self) -> impl Iterator<Item = &RingKey> {
        std::iter::once(&self.newest).chain(&self.older)
    }
}

impl RingKey {
    fn derive(master: &[u8; MASTER_KEY_LENGTH]) -> RingKey {
        // Each use has its own label, so that no derived key serves two purposes.
        let derived = |label: &str| -> [u8; 32] {
            hmac_sha256(master).chain_update(label.as_bytes()).finalize().into_bytes().into()
        };
        let mut id = [0; KEY_ID_LENGTH];
        id.copy_from_slice(&derived("settle: key id, v1")[..KEY_ID_LENGTH]);
        RingKey {
            id,
            sealing: SecretBox::new(Box::new(derived("settle: webhook secret sealing, v1"))),
            pepper: SecretBox::new(Box::new(derived("settle: credential pepper, v1"))),
        }
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&Key::from(*self.sealing.expose_secret()))
    }

    #[expect(
        clippy::expect_used,
        reason = "the cipher refuses only messages of 256 GiB; a secret has 256 bytes"
    )]
    fn encrypt(&self, nonce: [u8; NONCE_LENGTH], merchant: MerchantId, plain: &[u8]) -> Vec<u8> {
        let payload = Payload { msg: plain, aad: merchant.0.as_bytes() };
        self.cipher().encrypt(&XNonce::from(nonce), payload).expect("a secret is short")
    }

    fn hash(&self, credential: &Credential) -> CredentialHash {
        let mac = hmac_sha256(self.pepper.expose_secret()).chain_update(credential.expose().as_bytes());
        CredentialHash(mac.finalize().into_bytes().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credential::CredentialKind;
    use crate::seams::SeededEntropy;
    use uuid::Uuid;

    const OLD: &str = "1111111111111111111111111111111111111111111111111111111111111111";
    const NEW: &str = "2222222222222222222222222222222222222222222222222222222222222222";

    fn merchant(number: u128) -> MerchantId {
        MerchantId(Uuid::from_u128(number))
    }

    fn secret() -> WebhookSecret {
        WebhookSecret::parse("whsec_é".to_owned()).unwrap()
    }

    #[test]
    fn a_sealed_secret_opens_for_its_merchant_alone() {
        let ring = KeyRing::parse(NEW).unwrap();
        let sealed = ring.seal(merchant(1), &secret(), &SeededEntropy::new(1));
        assert_eq!(ring.open(merchant(1), &sealed).unwrap().as_bytes(), secret().as_bytes());
        assert_eq!(ring.open(merchant(2), &sealed).unwrap_err(), OpenFault::Damaged);
    }

    #[test]
    fn no_changed_byte_goes_unnoticed() {
        let ring = KeyRing::parse(NEW).unwrap();
        let sealed = ring.seal(merchant(1), &secret(), &SeededEntropy::new(1));
        for position in 0..sealed.0.len() {
            let mut changed = sealed.clone();
            changed.0[position] ^= 1;
            assert!(ring.open(merchant(1), &changed).is_err(), "byte {position}");
            changed.0.truncate(position);
            assert!(ring.open(merchant(1), &changed).is_err(), "cut at {position}");
        }
    }

    #[test]
    fn a_ring_seals_with_its_first_key_and_opens_with_all() {
        let (old, both) = (KeyRing::parse(OLD).unwrap(), KeyRing::parse(&format!("{NEW},{OLD}")).unwrap());
        let new = KeyRing::parse(NEW).unwrap();
        let sealed_before = old.seal(merchant(1), &secret(), &SeededEntropy::new(1));
        assert!(both.open(merchant(1), &sealed_before).is_ok());
        assert_eq!(new.open(merchant(1), &sealed_before).unwrap_err(), OpenFault::UnknownKey);
        let sealed_after = both.seal(merchant(1), &secret(), &SeededEntropy::new(2));
        assert!(new.open(merchant(1), &sealed_after).is_ok());
    }

    #[test]
    fn a_ring_recognises_a_credential_hashed_under_any_of_its_keys() {
        let (old, both) = (KeyRing::parse(OLD).unwrap(), KeyRing::parse(&format!("{NEW},{OLD}")).unwrap());
        let key = Credential::generate(CredentialKind::ApiKey, &SeededEntropy::new(3));
        assert!(both.hashes(&key).contains(&old.hash(&key)));
        assert_eq!(both.hashes(&key)[0], both.hash(&key));
        assert_ne!(both.hash(&key), old.hash(&key));
    }

    #[test]
    fn what_is_not_a_ring_is_refused_and_nothing_prints() {
        for text in ["", "abc", &NEW[1..], &format!("{NEW},"), &format!("{NEW}00")] {
            assert_eq!(KeyRing::parse(text).unwrap_err(), RingFault::Malformed, "{text}");
        }
        let nine = [NEW; 9].join(",");
        assert_eq!(KeyRing::parse(&nine).unwrap_err(), RingFault::TooMany);
        assert_eq!(format!("{:?}", KeyRing::parse(NEW).unwrap()), "KeyRing(1 keys)");
    }
}
