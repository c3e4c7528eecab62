//! Replacing a master key: what needs which, and what sealing anew leaves as it is.

use settle_accounts::master_keys::{self, Needs, Resealed, Rows};
use settle_accounts::{keys, operators};
use settle_domain::credential::{Credential, CredentialSeal};
use settle_domain::credential::{CredentialKind, Holder};
use settle_domain::ids::{KeyId, OperatorId};
use settle_domain::vault::KeyRing;
use settle_domain::webhook_secret::WebhookSecret;
use settle_store::conformance::{ScratchStore, fixtures};
use settle_store::{Key, NewKey, NewOperator, Operator};

use crate::{NEW, OLD, STRANGE, Setup, both, ring};

settle_testing::on_both_stores! {
    every_row_is_counted_under_its_master_key,
    what_a_key_of_the_ring_sealed_is_sealed_anew_and_the_rest_is_left,
}

impl Setup {
    /// An endpoint of a new merchant, with a secret that is sealed for it, or for another merchant.
    async fn secret(&self, ring: &KeyRing, is_damaged: bool) {
        let merchant = fixtures::merchant(&*self.store).await;
        let sealed_for = if is_damaged { self.merchant } else { merchant };
        let secret = WebhookSecret::parse("hush".to_owned()).unwrap();
        let sealed = ring.seal(sealed_for, &secret, &self.entropy);
        fixtures::put_endpoint(&*self.store, merchant, &fixtures::endpoint(&sealed.0)).await;
    }

    /// A key, with a seal for its row, or for another one.
    async fn sealed_key(&self, ring: &KeyRing, is_damaged: bool) -> Credential {
        let credential = Credential::generate(CredentialKind::ApiKey, &self.entropy);
        let (key_id, now) = (KeyId(fixtures::unique_uuid()), fixtures::at(1));
        let key = Key {
            key_id,
            merchant_id: self.merchant,
            label: None,
            last_four: credential.last_four(),
            created_at: now,
            revoked_at: None,
        };
        let sealed_for = if is_damaged { KeyId(fixtures::unique_uuid()) } else { key_id };
        let holder = Holder::Merchant { merchant_id: self.merchant, key_id: sealed_for };
        let (hash, seal) = seal(ring, holder, &credential);
        let mut tx = self.store.begin().await.unwrap();
        tx.key_create(&NewKey { key, hash, seal }).await.unwrap();
        tx.commit().await.unwrap();
        credential
    }

    /// An operator, with a seal for its row, or for another one.
    async fn sealed_token(&self, ring: &KeyRing, is_damaged: bool) -> Credential {
        let credential = Credential::generate(CredentialKind::OperatorToken, &self.entropy);
        let operator_id = OperatorId(fixtures::unique_uuid());
        let name = operator_id.to_string();
        let operator = Operator { operator_id, name, created_at: fixtures::at(1), revoked_at: None };
        let sealed_for = if is_damaged { OperatorId(fixtures::unique_uuid()) } else { operator_id };
        let (hash, seal) = seal(ring, Holder::Operator(sealed_for), &credential);
        let mut tx = self.store.begin().await.unwrap();
        tx.operator_create(&NewOperator { operator, hash, seal }).await.unwrap();
        tx.commit().await.unwrap();
        credential
    }

    async fn reseal(&self) -> Resealed {
        master_keys::reseal(&*self.store, &both(), &self.entropy).await.unwrap()
    }

    async fn status(&self) -> Vec<Needs> {
        master_keys::status(&*self.store, &both()).await.unwrap()
    }
}

fn seal(
    ring: &KeyRing,
    holder: Holder,
    credential: &Credential,
) -> (settle_domain::credential::CredentialHash, CredentialSeal) {
    (credential.hash(), ring.seal_credential(holder, credential.hash()))
}

fn rows(secrets: u64, keys: u64, operators: u64) -> Rows {
    Rows { secrets, keys, operators }
}

fn needs(place: Option<usize>, master_key: &str, rows: Rows) -> Needs {
    Needs { key: ring(master_key).newest(), place, rows }
}

async fn every_row_is_counted_under_its_master_key(scratch: ScratchStore) {
    let setup = Setup::on(scratch).await;
    let none = [needs(Some(0), NEW, rows(0, 0, 0)), needs(Some(1), OLD, rows(0, 0, 0))];
    assert_eq!(setup.status().await, none);
    assert!(none.iter().all(|needs| needs.rows.is_none()));
    for (master_key, number) in [(NEW, 1), (OLD, 2), (STRANGE, 3)] {
        for _ in 0..number {
            setup.secret(&ring(master_key), false).await;
            setup.sealed_key(&ring(master_key), false).await;
            setup.sealed_token(&ring(master_key), false).await;
        }
    }
    setup.sealed_key(&ring(OLD), false).await;
    let expected = [
        needs(Some(0), NEW, rows(1, 1, 1)),
        needs(Some(1), OLD, rows(2, 3, 2)),
        needs(None, STRANGE, rows(3, 3, 3)),
    ];
    assert_eq!(setup.status().await, expected);
    assert!(expected.iter().all(|needs| !needs.rows.is_none()));
}

/// What was sealed by a key that is not in the ring, or was changed, must not become valid.
async fn what_a_key_of_the_ring_sealed_is_sealed_anew_and_the_rest_is_left(scratch: ScratchStore) {
    let setup = Setup::on(scratch).await;
    for _ in 0..2 {
        setup.secret(&ring(OLD), false).await;
    }
    setup.sealed_key(&ring(NEW), false).await;
    let (key, token) =
        (setup.sealed_key(&ring(OLD), false).await, setup.sealed_token(&ring(OLD), false).await);
    let mut worthless = Vec::new();
    for (master_key, is_damaged) in [(STRANGE, false), (OLD, true)] {
        setup.secret(&ring(master_key), is_damaged).await;
        worthless.push((
            setup.sealed_key(&ring(master_key), is_damaged).await,
            setup.sealed_token(&ring(master_key), is_damaged).await,
        ));
    }

    assert_eq!(setup.reseal().await, Resealed { rows: rows(2, 1, 1), unknown: 3, damaged: 3 });
    let expected = [
        needs(Some(0), NEW, rows(2, 2, 1)),
        needs(Some(1), OLD, rows(1, 1, 1)),
        needs(None, STRANGE, rows(1, 1, 1)),
    ];
    assert_eq!(setup.status().await, expected);
    assert_eq!(setup.reseal().await, Resealed { rows: rows(0, 0, 0), unknown: 3, damaged: 3 });

    let is_key = async |key: &Credential| {
        keys::authenticate(&*setup.store, &ring(NEW), key.hash()).await.unwrap().is_some()
    };
    let is_token = async |token: &Credential| {
        operators::authenticate(&*setup.store, &ring(NEW), token.hash()).await.unwrap().is_some()
    };
    assert!(is_key(&key).await && is_token(&token).await, "the old master key can go");
    for (key, token) in &worthless {
        assert!(!is_key(key).await && !is_token(token).await);
    }
}
