//! API keys: whom they admit, and until when.

use settle_accounts::keys::{self, AuthenticatedKey};
use settle_accounts::{AccountError, NameFault};
use settle_domain::credential::{Credential, CredentialKind, Holder};
use settle_domain::ids::{KeyId, MerchantId};
use settle_domain::vault::KeyRing;
use settle_store::conformance::{ScratchStore, fixtures};
use settle_store::{Key, NewKey, Revocation};

use crate::{NEW, OLD, STRANGE, Setup, both, ring};

settle_testing::on_both_stores! {
    a_key_admits_its_merchant_until_it_is_revoked,
    a_label_is_checked_before_anything_is_stored,
    a_key_that_is_used_is_sealed_anew,
    a_row_that_was_written_without_the_master_key_admits_nobody,
}

impl Setup {
    async fn key(&self, ring: &KeyRing, label: Option<&str>) -> Result<(Key, Credential), AccountError> {
        keys::create(&*self.store, ring, &self.clock, &self.entropy, self.merchant, label).await
    }

    async fn admitted(&self, ring: &KeyRing, credential: &Credential) -> Option<AuthenticatedKey> {
        keys::authenticate(&*self.store, ring, credential.hash()).await.unwrap()
    }
}

async fn a_key_admits_its_merchant_until_it_is_revoked(scratch: ScratchStore) {
    let setup = Setup::on(scratch).await;
    let (key, credential) = setup.key(&ring(NEW), Some(" till 1 ")).await.unwrap();
    assert_eq!((key.merchant_id, key.label.as_deref()), (setup.merchant, Some("till 1")));
    assert_eq!((key.last_four.clone(), key.created_at), (credential.last_four(), fixtures::at(1)));
    assert_eq!(keys::list(&*setup.store, setup.merchant).await.unwrap(), std::slice::from_ref(&key));
    let caller = AuthenticatedKey { key_id: key.key_id, merchant_id: setup.merchant };
    assert_eq!(setup.admitted(&ring(NEW), &credential).await, Some(caller));
    assert_eq!(setup.admitted(&ring(OLD), &credential).await, None, "another master key sealed it");
    let other = Credential::generate(CredentialKind::ApiKey, &setup.entropy);
    assert_eq!(setup.admitted(&ring(NEW), &other).await, None, "nobody made it");

    setup.clock.set(fixtures::at(2));
    let revoke = async |key| keys::revoke(&*setup.store, &setup.clock, key).await.unwrap();
    assert_eq!(revoke(key.key_id).await, Revocation::Revoked);
    assert_eq!(setup.admitted(&ring(NEW), &credential).await, None);
    let revoked = Key { revoked_at: Some(fixtures::at(2)), ..key.clone() };
    assert_eq!(keys::list(&*setup.store, setup.merchant).await.unwrap(), [revoked]);
    assert_eq!(revoke(key.key_id).await, Revocation::AlreadyRevoked);
    assert_eq!(revoke(KeyId(fixtures::unique_uuid())).await, Revocation::Unknown);
}

async fn a_label_is_checked_before_anything_is_stored(scratch: ScratchStore) {
    let setup = Setup::on(scratch).await;
    let refused = setup.key(&ring(NEW), Some("\u{1b}[31m")).await;
    assert!(matches!(refused, Err(AccountError::Label(NameFault::ControlCharacter))), "{refused:?}");
    assert_eq!(keys::list(&*setup.store, setup.merchant).await.unwrap(), []);
    assert_eq!(setup.key(&ring(NEW), None).await.unwrap().0.label, None);
}

async fn a_key_that_is_used_is_sealed_anew(scratch: ScratchStore) {
    let setup = Setup::on(scratch).await;
    let (_, credential) = setup.key(&ring(OLD), None).await.unwrap();
    assert_eq!(setup.admitted(&ring(NEW), &credential).await, None, "only the old master key knows it");
    let caller = setup.admitted(&both(), &credential).await;
    assert!(caller.is_some());
    assert_eq!(setup.admitted(&ring(NEW), &credential).await, caller, "the old master key can go");
}

/// Somebody can write to the table, and has another master key or the seal of another row.
async fn a_row_that_was_written_without_the_master_key_admits_nobody(scratch: ScratchStore) {
    let setup = Setup::on(scratch).await;
    let (victim, now) = (fixtures::merchant(&*setup.store).await, fixtures::at(1));
    let plant = async |ring: &KeyRing, sealed_for: MerchantId| {
        let credential = Credential::generate(CredentialKind::ApiKey, &setup.entropy);
        let key = Key {
            key_id: KeyId::new(now, &setup.entropy),
            merchant_id: victim,
            label: None,
            last_four: credential.last_four(),
            created_at: now,
            revoked_at: None,
        };
        let (holder, hash) =
            (Holder::Merchant { merchant_id: sealed_for, key_id: key.key_id }, credential.hash());
        let seal = ring.seal_credential(holder, hash);
        let mut tx = setup.store.begin().await.unwrap();
        tx.key_create(&NewKey { key, hash, seal }).await.unwrap();
        tx.commit().await.unwrap();
        credential
    };
    let (moved, forged) = (plant(&both(), setup.merchant).await, plant(&ring(STRANGE), victim).await);
    assert_eq!(setup.admitted(&both(), &moved).await, None);
    assert_eq!(setup.admitted(&both(), &forged).await, None);
    let right = plant(&both(), victim).await;
    assert!(setup.admitted(&both(), &right).await.is_some());
}
