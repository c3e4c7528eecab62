//! The master keys used with a database, and the rows that need them.

use settle_domain::credential::CredentialSeal;
use settle_domain::endpoint::Endpoint;
use settle_domain::ids::MerchantId;
use settle_domain::vault::MasterKeyId;
use settle_domain::webhook_secret::SealedSecret;

use super::fixtures::{at, merchant};
use super::{keys, operators};
use crate::{
    MasterKeyUse, NewKey, NewOperator, ResealedKey, ResealedSecret, ResealedToken, SealedKind, Store,
    StoreError,
};

const OLD: MasterKeyId = MasterKeyId([1; 4]);
const NEW: MasterKeyId = MasterKeyId([2; 4]);

/// They are listed in the order in which they came into use.
pub async fn a_master_key_is_remembered_once(store: &dyn Store) {
    assert_eq!(store.master_key_list().await.unwrap(), []);
    let record = async |ring: &[MasterKeyId], second| {
        let mut tx = store.begin().await.unwrap();
        let is_in_use = tx.master_key_record(ring, at(second)).await.unwrap();
        tx.commit().await.unwrap();
        is_in_use
    };
    assert!(record(&[NEW], 1).await);
    assert!(!record(&[OLD], 2).await, "nobody knows a key that is in use");
    assert!(record(&[OLD, NEW], 2).await);
    assert!(record(&[NEW], 3).await);
    assert_eq!(store.master_key_list().await.unwrap(), [MasterKeyId([2; 4]), MasterKeyId([1; 4])]);
}

/// Two nodes that find none in use, and bring one each: the second waits for the first, and hears of it.
pub async fn of_two_first_rings_one_is_in_use(store: &dyn Store) {
    let mut first = store.begin().await.unwrap();
    assert!(first.master_key_record(&[NEW], at(1)).await.unwrap());
    let second = async {
        let mut second = store.begin().await.unwrap();
        let is_in_use = second.master_key_record(&[OLD], at(2)).await.unwrap();
        second.commit().await.unwrap();
        is_in_use
    };
    let (committed, is_in_use) = tokio::join!(first.commit(), second);
    committed.unwrap();
    assert!(!is_in_use);
    assert_eq!(store.master_key_list().await.unwrap(), [NEW]);
}

/// A sealed secret as the vault writes it: a version, the id of the master key, and the rest.
fn sealed(key: MasterKeyId, rest: u8) -> SealedSecret {
    SealedSecret([&[1], &key.0[..], &[rest; 30]].concat())
}

async fn put_secret(store: &dyn Store, merchant: MerchantId, secret: SealedSecret) {
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[merchant]).await.unwrap();
    let endpoint = Endpoint { url: "https://shop.example/hook".to_owned(), secret };
    tx.endpoint_put(&lock, merchant, &endpoint).await.unwrap();
    tx.commit().await.unwrap();
}

async fn put_key(store: &dyn Store, merchant: MerchantId, byte: u8, seal: Vec<u8>) -> NewKey {
    let key = NewKey { seal: CredentialSeal(seal), ..keys::new_key(merchant, byte) };
    keys::create(store, &key).await.unwrap();
    key
}

async fn put_operator(store: &dyn Store, name: &str, byte: u8, seal: Vec<u8>) -> NewOperator {
    let operator = NewOperator { seal: CredentialSeal(seal), ..operators::new_operator(name, byte) };
    operators::create(store, &operator).await.unwrap();
    operator
}

/// What is revoked needs no master key.
pub async fn uses_are_counted_by_master_key(store: &dyn Store) {
    assert_eq!(store.master_key_uses().await.unwrap(), []);
    let (first, second) = (merchant(store).await, merchant(store).await);
    put_secret(store, first, sealed(OLD, 0)).await;
    put_secret(store, second, sealed(NEW, 0)).await;
    put_key(store, first, 1, vec![1; 36]).await;
    put_key(store, first, 2, vec![1; 36]).await;
    put_key(store, second, 3, vec![2; 36]).await;
    let revoked = put_key(store, second, 4, vec![1; 36]).await;
    keys::revoke(store, revoked.key.key_id).await;
    put_operator(store, "ada", 5, vec![1; 36]).await;

    let uses = store.master_key_uses().await.unwrap();
    let (secret, key, token) = (SealedKind::WebhookSecret, SealedKind::ApiKey, SealedKind::OperatorToken);
    let expected = [
        MasterKeyUse { kind: secret, key: OLD, rows: 1 },
        MasterKeyUse { kind: secret, key: NEW, rows: 1 },
        MasterKeyUse { kind: key, key: OLD, rows: 2 },
        MasterKeyUse { kind: key, key: NEW, rows: 1 },
        MasterKeyUse { kind: token, key: OLD, rows: 1 },
    ];
    assert_eq!(uses.len(), expected.len(), "{uses:?}");
    assert!(expected.iter().all(|expected| uses.contains(expected)), "{uses:?}");
}

/// In the order of the ids, without what the given key sealed.
pub async fn what_another_master_key_sealed_is_found_in_pages(store: &dyn Store) {
    let mut merchants = [merchant(store).await, merchant(store).await, merchant(store).await];
    merchants.sort_unstable_by_key(|merchant| merchant.0);
    put_secret(store, merchants[0], sealed(OLD, 0)).await;
    put_secret(store, merchants[1], sealed(NEW, 0)).await;
    put_secret(store, merchants[2], sealed(OLD, 2)).await;
    let stale = async |after, limit| store.master_key_stale_secrets(NEW, after, limit).await.unwrap();
    let all = [(merchants[0], sealed(OLD, 0)), (merchants[2], sealed(OLD, 2))];
    assert_eq!(stale(None, 10).await, all);
    assert_eq!(stale(None, 1).await, all[..1]);
    assert_eq!(stale(Some(merchants[0]), 10).await, all[1..]);

    let mut ids = Vec::new();
    for (byte, seal) in [(1, 1), (2, 2), (3, 1), (4, 1)] {
        ids.push(put_key(store, merchants[0], byte, vec![seal; 36]).await.key.key_id);
    }
    keys::revoke(store, ids[3]).await;
    let mut expected = vec![ids[0], ids[2]];
    expected.sort_unstable_by_key(|key| key.0);
    let found = store.master_key_stale_keys(NEW, None, 10).await.unwrap();
    assert_eq!(found.iter().map(|key| key.key_id).collect::<Vec<_>>(), expected);
    let after = store.master_key_stale_keys(NEW, Some(expected[0]), 10).await.unwrap();
    assert_eq!(after, found[1..]);
    assert_eq!(store.master_key_stale_keys(NEW, None, 1).await.unwrap(), found[..1]);

    put_operator(store, "ada", 5, vec![1; 36]).await;
    put_operator(store, "bob", 6, vec![2; 36]).await;
    let found = store.master_key_stale_tokens(NEW, None, 10).await.unwrap();
    assert_eq!(found.len(), 1);
    let after = store.master_key_stale_tokens(NEW, Some(found[0].operator_id), 10).await.unwrap();
    assert_eq!(after, []);
}

/// A merchant may change its secret, and an operator may revoke a key, at any time.
pub async fn only_what_is_unchanged_is_sealed_anew(store: &dyn Store) {
    let (same, changed) = (merchant(store).await, merchant(store).await);
    put_secret(store, same, sealed(OLD, 0)).await;
    put_secret(store, changed, sealed(OLD, 9)).await;
    let resealed = [same, changed].map(|merchant_id| ResealedSecret {
        merchant_id,
        was: sealed(OLD, 0),
        now: sealed(NEW, 0),
    });
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[same]).await.unwrap();
    let refused = tx.master_key_reseal_secrets(&lock, &resealed).await;
    assert!(matches!(refused, Err(StoreError::Unexpected(_))), "the lock leaves one out: {refused:?}");
    drop(tx);
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[same, changed]).await.unwrap();
    assert_eq!(tx.master_key_reseal_secrets(&lock, &resealed).await.unwrap(), 1);

    let (key, revoked) = (put_key_within(&mut *tx, same, 1).await, put_key_within(&mut *tx, same, 2).await);
    tx.key_revoke(revoked.key.key_id, at(5)).await.unwrap();
    let seal = CredentialSeal(vec![2; 36]);
    let resealed = [&key, &revoked].map(|new| ResealedKey {
        key_id: new.key.key_id,
        hash: new.hash,
        seal: seal.clone(),
    });
    assert_eq!(tx.master_key_reseal_keys(&resealed).await.unwrap(), 1);
    let operator = operators::new_operator("ada", 3);
    tx.operator_create(&operator).await.unwrap();
    let token =
        ResealedToken { operator_id: operator.operator.operator_id, hash: operator.hash, seal: seal.clone() };
    let other = ResealedToken { hash: key.hash, ..token.clone() };
    assert_eq!(tx.master_key_reseal_tokens(&[other]).await.unwrap(), 0, "another token by now");
    assert_eq!(tx.master_key_reseal_tokens(&[token]).await.unwrap(), 1);
    tx.commit().await.unwrap();

    assert_eq!(store.endpoint_find(same).await.unwrap().unwrap().secret, sealed(NEW, 0));
    assert_eq!(store.endpoint_find(changed).await.unwrap().unwrap().secret, sealed(OLD, 9));
    assert_eq!(store.key_find(key.hash).await.unwrap().unwrap().seal, Some(seal.clone()));
    assert_eq!(store.operator_find(operator.hash).await.unwrap().unwrap().seal, Some(seal));
}

async fn put_key_within(tx: &mut dyn crate::Tx, merchant: MerchantId, byte: u8) -> NewKey {
    let key = keys::new_key(merchant, byte);
    tx.key_create(&key).await.unwrap();
    key
}
