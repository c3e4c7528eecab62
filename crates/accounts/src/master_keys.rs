//! Retiring a master key: which rows need which key of the ring, and sealing them anew with the first.

use settle_domain::seams::Entropy;
use settle_domain::vault::{KeyRing, MasterKeyId, SealFault};
use settle_store::{
    MasterKeyUse, ResealedKey, ResealedSecret, ResealedToken, SealedKind, Store, StoreResult, StoredKey,
    StoredToken,
};

use crate::AccountError;

/// Rows sealed anew in one transaction. It holds the locks of so many merchants, for some milliseconds.
const PAGE: u32 = 200;

/// How many rows of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rows {
    /// Webhook secrets.
    pub secrets: u64,
    /// API keys that are not revoked.
    pub keys: u64,
    /// Operators' tokens that are not revoked.
    pub operators: u64,
}

impl Rows {
    /// Whether there are none.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Rows::default()
    }
}

/// What needs a master key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// The master key.
    pub key: MasterKeyId,
    /// Its place in the ring, from 0; `None` if it is not there.
    pub place: Option<usize>,
    /// What needs it.
    pub rows: Rows,
}

/// What sealing anew came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resealed {
    /// Sealed anew.
    pub rows: Rows,
    /// Left as they are, because their master key is not in the ring.
    pub unknown: u64,
    /// Left as they are, because somebody changed them: they work for nobody.
    pub damaged: u64,
}

/// What needs which master key: first those of the ring, in their order, then others that something needs.
pub async fn status(store: &dyn Store, ring: &KeyRing) -> Result<Vec<Needs>, AccountError> {
    let none = |(place, key)| Needs { key, place, rows: Rows::default() };
    let in_ring = ring.ids().into_iter().enumerate().map(|(place, key)| (Some(place), key));
    let mut needs: Vec<Needs> = in_ring.map(none).collect();
    for MasterKeyUse { kind, key, rows } in store.master_key_uses().await? {
        let known = needs.iter().position(|needed| needed.key == key).unwrap_or_else(|| {
            needs.push(none((None, key)));
            needs.len() - 1
        });
        let needed = &mut needs[known];
        match kind {
            SealedKind::WebhookSecret => needed.rows.secrets += rows,
            SealedKind::ApiKey => needed.rows.keys += rows,
            SealedKind::OperatorToken => needed.rows.operators += rows,
        }
    }
    Ok(needs)
}

/// Seals everything anew that another key than the first of the ring has sealed, page by page.
pub async fn reseal(
    store: &dyn Store,
    ring: &KeyRing,
    entropy: &dyn Entropy,
) -> Result<Resealed, AccountError> {
    let mut done = Resealed::default();
    reseal_secrets(store, ring, entropy, &mut done).await?;
    reseal_keys(store, ring, &mut done).await?;
    reseal_tokens(store, ring, &mut done).await?;
    Ok(done)
}

async fn reseal_secrets(
    store: &dyn Store,
    ring: &KeyRing,
    entropy: &dyn Entropy,
    done: &mut Resealed,
) -> StoreResult<()> {
    let mut after = None;
    loop {
        let page = store.master_key_stale_secrets(ring.newest(), after, PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(*last);
        let mut resealed = Vec::with_capacity(page.len());
        for (merchant_id, was) in page {
            match ring.open(merchant_id, &was) {
                Ok(secret) => {
                    let now = ring.seal(merchant_id, &secret, entropy);
                    resealed.push(ResealedSecret { merchant_id, was, now });
                }
                Err(settle_domain::vault::OpenFault::UnknownKey) => done.unknown += 1,
                Err(settle_domain::vault::OpenFault::Damaged) => done.damaged += 1,
            }
        }
        let merchants: Vec<_> = resealed.iter().map(|secret| secret.merchant_id).collect();
        let mut tx = store.begin().await?;
        let lock = tx.merchant_lock(&merchants).await?;
        done.rows.secrets += tx.master_key_reseal_secrets(&lock, &resealed).await?;
        tx.commit().await?;
    }
}

async fn reseal_keys(store: &dyn Store, ring: &KeyRing, done: &mut Resealed) -> StoreResult<()> {
    let mut after = None;
    loop {
        let page = store.master_key_stale_keys(ring.newest(), after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.key_id);
        let anew = |key: &StoredKey| {
            let verified = ring.recognise(key.holder(), key.hash, key.seal.as_ref());
            done.may_seal(verified.map(drop)).then(|| ResealedKey {
                key_id: key.key_id,
                hash: key.hash,
                seal: ring.seal_credential(key.holder(), key.hash),
            })
        };
        let resealed: Vec<ResealedKey> = page.iter().filter_map(anew).collect();
        let mut tx = store.begin().await?;
        done.rows.keys += tx.master_key_reseal_keys(&resealed).await?;
        tx.commit().await?;
    }
}

async fn reseal_tokens(store: &dyn Store, ring: &KeyRing, done: &mut Resealed) -> StoreResult<()> {
    let mut after = None;
    loop {
        let page = store.master_key_stale_tokens(ring.newest(), after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.operator_id);
        let anew = |token: &StoredToken| {
            let verified = ring.recognise(token.holder(), token.hash, token.seal.as_ref());
            done.may_seal(verified.map(drop)).then(|| ResealedToken {
                operator_id: token.operator_id,
                hash: token.hash,
                seal: ring.seal_credential(token.holder(), token.hash),
            })
        };
        let resealed: Vec<ResealedToken> = page.iter().filter_map(anew).collect();
        let mut tx = store.begin().await?;
        done.rows.operators += tx.master_key_reseal_tokens(&resealed).await?;
        tx.commit().await?;
    }
}

impl Resealed {
    /// Whether a credential may be sealed anew: only what a key of the ring has sealed, for else a row that
    /// somebody planted would become valid. Counts what is left as it is.
    fn may_seal(&mut self, verified: Result<(), SealFault>) -> bool {
        match verified {
            Ok(()) => return true,
            Err(SealFault::UnknownKey) => self.unknown += 1,
            Err(SealFault::Missing | SealFault::Forged) => self.damaged += 1,
        }
        false
    }
}
