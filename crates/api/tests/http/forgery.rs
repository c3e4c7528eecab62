//! Somebody who can write to the database, but has no master key, gets in nowhere.

use settle_domain::credential::{Credential, CredentialHash, CredentialKind, CredentialSeal, Holder};
use settle_domain::ids::KeyId;
use settle_domain::seams::Clock;
use settle_domain::vault::KeyRing;
use settle_store::{Key, NewKey, StoredKey};

use crate::merchant::Merchant;
use crate::service::{Service, Setup};

on_both_stores! {
    a_key_that_was_moved_to_another_merchant_is_refused,
    a_planted_key_is_refused,
}

/// A key as it stands in the database.
async fn stored(service: &Service, key: &str) -> StoredKey {
    let credential = Credential::parse(CredentialKind::ApiKey, key).expect("a key");
    let found = service.store.key_find(credential.hash()).await;
    found.expect("the store answers").expect("it is stored")
}

/// Plants a row for a merchant, as somebody who can write to the table does it.
async fn plant(merchant: &Merchant, hash: CredentialHash, seal: CredentialSeal) -> KeyId {
    let service = &merchant.service;
    let (now, key_id) = (service.clock.now(), KeyId::new(service.clock.now(), &*service.entropy));
    let key = Key {
        key_id,
        merchant_id: merchant.id,
        label: None,
        last_four: "beef".to_owned(),
        created_at: now,
        revoked_at: None,
    };
    let mut tx = service.store.begin().await.expect("a transaction");
    tx.key_create(&NewKey { key, hash, seal }).await.expect("a row");
    tx.commit().await.expect("a commit");
    key_id
}

fn bearer(credential: &Credential) -> String {
    format!("Bearer {}", credential.expose())
}

/// Moved by hand, the row has the hash and the seal of the key's true row.
async fn a_key_that_was_moved_to_another_merchant_is_refused(setup: Setup) {
    let service = setup.start().await;
    let (thief, victim) = (service.merchant().await, service.merchant().await);
    let credential = Credential::generate(CredentialKind::ApiKey, &*service.entropy);
    let holder = Holder::Merchant { merchant_id: thief.id, key_id: thief.key_id };
    let seal = service.ring.seal_credential(holder, credential.hash());
    plant(&victim, credential.hash(), seal).await;
    assert_eq!(stored(&service, credential.expose()).await.merchant_id, victim.id);
    let answer = ask(&service, &credential).await;
    assert_eq!(answer, 401);
}

/// The hash is no secret; the seal is what cannot be made.
async fn a_planted_key_is_refused(setup: Setup) {
    let merchant = setup.merchant().await;
    let service = merchant.service.clone();
    let row = stored(&service, &merchant.key).await;
    let other_ring = KeyRing::parse(&"77".repeat(32)).expect("a ring");
    for number in 0..4 {
        let planted = Credential::generate(CredentialKind::ApiKey, &*service.entropy);
        let seal = match number {
            0 => CredentialSeal(vec![0; 36]),
            1 => other_ring.seal_credential(row.holder(), planted.hash()),
            2 => row.seal.clone().expect("it is valid"),
            // The right holder, but not the id that the row will have.
            _ => service.ring.seal_credential(row.holder(), planted.hash()),
        };
        plant(&merchant, planted.hash(), seal).await;
        assert_eq!(ask(&service, &planted).await, 401, "seal {number}");
    }
    assert_eq!(merchant.get("/v1/settlements").await.status, 200, "the merchant's own key is untouched");
}

async fn ask(service: &Service, credential: &Credential) -> u16 {
    let ask = service.ask("GET", "/v1/settlements");
    ask.header_bytes("authorization", bearer(credential).as_bytes()).send().await.status
}
