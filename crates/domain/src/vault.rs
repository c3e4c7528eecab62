//! The master key ring: it seals webhook secrets, and the hashes of credentials.
//!
//! The ring has one or more keys. The first key seals; all keys open and verify. An operator replaces a key
//! by putting a new one in front, seals everything anew, and drops the old one when nothing needs it any
//! more.
//!
//! **Credentials.** The database finds a credential by a hash that needs no key: it has 32 random bytes, and
//! nobody finds those from a hash. What admits the caller is the seal beside the hash: an HMAC, under a key
//! derived from the master key, of the hash and of the row's holder. Somebody who can write to the table, but
//! has no master key, can neither insert a credential that works nor move one to another merchant's row.
//!
//! A pepper in the hash itself would do as much, but such a hash can be made anew only from the credential:
//! an API key that nobody uses would bind us to a leaked master key for ever. A seal is made anew from the
//! row alone, and the look-up is one step however long the ring is.
//!
//! **Secrets.** A sealed secret is `version (1) · key id (4) · nonce (24) · ciphertext and tag`, with the
//! merchant's id as associated data: copied to another merchant's row it does not open.

use std::fmt;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use secrecy::{ExposeSecret, SecretBox};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::credential::{CredentialHash, CredentialSeal, Holder};
use crate::ids::MerchantId;
use crate::seams::{Entropy, random_bytes};
use crate::signature::hmac_sha256;
use crate::webhook_secret::{SealedSecret, WebhookSecret};

const VERSION: u8 = 1;
const KEY_ID_LENGTH: usize = 4;
const NONCE_LENGTH: usize = 24;
const HEAD_LENGTH: usize = 1 + KEY_ID_LENGTH + NONCE_LENGTH;
const SEAL_LENGTH: usize = KEY_ID_LENGTH + 32;
/// The bytes of one master key.
pub const MASTER_KEY_LENGTH: usize = 32;
/// The most keys in a ring: two are enough to replace one.
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

/// A stored credential that admits nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealFault {
    /// It has no seal: it was revoked, or nobody sealed it.
    #[error("the credential has no seal")]
    Missing,
    /// None of the ring's keys sealed it.
    #[error("no key of the master key ring has sealed this credential")]
    UnknownKey,
    /// Somebody changed its row, or wrote it without a master key.
    #[error("the seal of the credential does not fit its row")]
    Forged,
}

/// How well a valid credential is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recognition {
    /// The newest key sealed it.
    Current,
    /// An older key sealed it: it should be sealed anew.
    Stale,
}

/// The id of a master key, printed as eight hexadecimal digits; it reveals nothing about the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MasterKeyId(pub [u8; KEY_ID_LENGTH]);

impl fmt::Display for MasterKeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex::encode(self.0))
    }
}

/// The values derived from one master key; the key itself is not kept.
struct RingKey {
    id: [u8; KEY_ID_LENGTH],
    sealing: SecretBox<[u8; 32]>,
    /// Keyed already, because keying is two of the five blocks that are hashed to judge a credential. In a
    /// box, so that moving the ring leaves no copy behind.
    credentials: Box<Hmac<Sha256>>,
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

    /// Seals a credential for its holder under the newest key.
    #[must_use]
    pub fn seal_credential(&self, holder: Holder, hash: CredentialHash) -> CredentialSeal {
        let mac = self.newest.credential_mac(holder, hash).finalize().into_bytes();
        CredentialSeal([&self.newest.id[..], &mac[..]].concat())
    }

    /// Judges a stored credential: whether a master key of the ring sealed this hash for this holder.
    pub fn recognise(
        &self,
        holder: Holder,
        hash: CredentialHash,
        seal: Option<&CredentialSeal>,
    ) -> Result<Recognition, SealFault> {
        let seal = &seal.ok_or(SealFault::Missing)?.0;
        if seal.len() != SEAL_LENGTH {
            return Err(SealFault::Forged);
        }
        let (id, mac) = seal.split_at(KEY_ID_LENGTH);
        let key = self.keys().find(|key| key.id == id).ok_or(SealFault::UnknownKey)?;
        key.credential_mac(holder, hash).verify_slice(mac).map_err(|_| SealFault::Forged)?;
        Ok(if key.id == self.newest.id { Recognition::Current } else { Recognition::Stale })
    }

    /// The id of the key that seals.
    #[must_use]
    pub fn newest(&self) -> MasterKeyId {
        MasterKeyId(self.newest.id)
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
            credentials: Box::new(hmac_sha256(&Zeroizing::new(derived("settle: credential seal, v1"))[..])),
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

    /// Each kind of holder has its own label and a fixed length, so that no two rows give the same bytes.
    fn credential_mac(&self, holder: Holder, hash: CredentialHash) -> Hmac<Sha256> {
        let mac = Hmac::clone(&self.credentials);
        let mac = match holder {
            Holder::Merchant { merchant_id, key_id } => {
                mac.chain_update(b"merchant").chain_update(merchant_id.0).chain_update(key_id.0)
            }
            Holder::Operator(operator_id) => mac.chain_update(b"operator").chain_update(operator_id.0),
        };
        mac.chain_update(hash.0)
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
