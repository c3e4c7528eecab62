//! API keys.

use settle_domain::credential::{CredentialHash, CredentialSeal};
use settle_domain::ids::{KeyId, MerchantId};

use super::fixtures::{at, merchant, unique_uuid};
use crate::{Key, NewKey, Revocation, Store, StoreError, StoredKey};

/// A key whose hash and seal consist of one byte.
pub(super) fn new_key(merchant: MerchantId, byte: u8) -> NewKey {
    let key = Key {
        key_id: KeyId(unique_uuid()),
        merchant_id: merchant,
        label: byte.is_multiple_of(2).then(|| "back office".to_owned()),
        last_four: "beef".to_owned(),
        created_at: at(u64::from(byte)),
        revoked_at: None,
    };
    NewKey { key, hash: CredentialHash([byte; 32]), seal: CredentialSeal(vec![byte; 36]) }
}

pub(super) async fn create(store: &dyn Store, key: &NewKey) -> Result<(), StoreError> {
    let mut tx = store.begin().await.unwrap();
    tx.key_create(key).await?;
    tx.commit().await
}

pub(super) async fn revoke(store: &dyn Store, key: KeyId) -> Revocation {
    let mut tx = store.begin().await.unwrap();
    let revocation = tx.key_revoke(key, at(100)).await.unwrap();
    tx.commit().await.unwrap();
    revocation
}

/// With its seal, which the caller judges.
pub async fn a_key_is_found_by_its_hash(store: &dyn Store) {
    let merchant = merchant(store).await;
    let new = new_key(merchant, 1);
    create(store, &new).await.unwrap();
    let found = StoredKey {
        key_id: new.key.key_id,
        merchant_id: merchant,
        hash: new.hash,
        seal: Some(new.seal.clone()),
    };
    assert_eq!(store.key_find(new.hash).await.unwrap(), Some(found));
    assert_eq!(store.key_find(CredentialHash([9; 32])).await.unwrap(), None);
}

/// A revocation is effective from the commit on: there is no cache in between.
pub async fn a_revoked_key_is_gone_at_once(store: &dyn Store) {
    let merchant = merchant(store).await;
    let (revoked, other) = (new_key(merchant, 1), new_key(merchant, 2));
    create(store, &revoked).await.unwrap();
    create(store, &other).await.unwrap();
    assert!(store.key_find(revoked.hash).await.unwrap().is_some());
    assert_eq!(revoke(store, revoked.key.key_id).await, Revocation::Revoked);
    assert_eq!(store.key_find(revoked.hash).await.unwrap(), None);
    assert!(store.key_find(other.hash).await.unwrap().is_some());
    assert_eq!(revoke(store, revoked.key.key_id).await, Revocation::AlreadyRevoked);
    assert_eq!(revoke(store, KeyId(unique_uuid())).await, Revocation::Unknown);
}

/// In the order of their ids, revoked ones included; each page starts after the last key of the page before.
pub async fn keys_are_listed_for_their_merchant_alone(store: &dyn Store) {
    let (merchant, other) = (merchant(store).await, merchant(store).await);
    let mut made = [1, 2, 3].map(|byte| new_key(merchant, byte));
    for key in made.iter().chain([&new_key(other, 4)]) {
        create(store, key).await.unwrap();
    }
    revoke(store, made[0].key.key_id).await;
    made[0].key.revoked_at = Some(at(100));
    let mut made = made.map(|new| new.key);
    made.sort_by_key(|key| key.key_id);
    let page = async |after, limit| store.key_list(merchant, after, limit).await.unwrap();
    assert_eq!(page(None, 10).await, made);
    assert_eq!(page(None, 2).await, made[..2]);
    assert_eq!(page(Some(made[1].key_id), 2).await, made[2..]);
    assert_eq!(page(Some(made[2].key_id), 2).await, []);
}

/// Revoked or not; nobody finds it under another merchant.
pub async fn a_key_is_shown_under_its_merchant_alone(store: &dyn Store) {
    let (merchant, other) = (merchant(store).await, merchant(store).await);
    let new = new_key(merchant, 1);
    create(store, &new).await.unwrap();
    let key_id = new.key.key_id;
    assert_eq!(store.key_show(merchant, key_id).await.unwrap(), Some(new.key.clone()));
    revoke(store, key_id).await;
    let revoked = Key { revoked_at: Some(at(100)), ..new.key };
    assert_eq!(store.key_show(merchant, key_id).await.unwrap(), Some(revoked));
    assert_eq!(store.key_show(other, key_id).await.unwrap(), None);
    assert_eq!(store.key_show(merchant, KeyId(unique_uuid())).await.unwrap(), None);
}

/// The error names the merchant.
pub async fn a_key_of_an_unknown_merchant_is_refused(store: &dyn Store) {
    let stranger = MerchantId(unique_uuid());
    let refused = create(store, &new_key(stranger, 1)).await;
    assert!(
        matches!(refused, Err(StoreError::UnknownMerchant(merchant)) if merchant == stranger),
        "{refused:?}"
    );
}
