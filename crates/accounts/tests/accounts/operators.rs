//! Operators: whom their tokens admit, and until when.

use settle_accounts::operators;
use settle_accounts::{AccountError, NameFault};
use settle_domain::credential::{Credential, CredentialKind};
use settle_domain::ids::OperatorId;
use settle_domain::vault::KeyRing;
use settle_store::conformance::{ScratchStore, fixtures};
use settle_store::{Operator, Revocation};

use crate::{NEW, OLD, Setup, both, ring};

settle_testing::on_both_stores! {
    a_token_admits_its_operator_until_it_is_revoked,
    a_name_is_checked_and_taken_once,
    a_token_that_is_used_is_sealed_anew,
}

impl Setup {
    pub async fn operator(&self, ring: &KeyRing, name: &str) -> Result<(Operator, Credential), AccountError> {
        operators::create(&*self.store, ring, &self.clock, &self.entropy, name).await
    }

    async fn operator_admitted(&self, ring: &KeyRing, token: &Credential) -> Option<OperatorId> {
        operators::authenticate(&*self.store, ring, token.hash()).await.unwrap()
    }
}

async fn a_token_admits_its_operator_until_it_is_revoked(scratch: ScratchStore) {
    let setup = Setup::on(scratch).await;
    let (ada, token) = setup.operator(&ring(NEW), " ada ").await.unwrap();
    assert_eq!((ada.name.as_str(), ada.created_at, ada.revoked_at), ("ada", fixtures::at(1), None));
    assert_eq!(operators::list(&*setup.store).await.unwrap(), std::slice::from_ref(&ada));
    assert_eq!(setup.operator_admitted(&ring(NEW), &token).await, Some(ada.operator_id));
    assert_eq!(setup.operator_admitted(&ring(OLD), &token).await, None, "another master key sealed it");
    let other = Credential::generate(CredentialKind::OperatorToken, &setup.entropy);
    assert_eq!(setup.operator_admitted(&ring(NEW), &other).await, None, "nobody made it");

    setup.clock.set(fixtures::at(2));
    let revoke = async |operator| operators::revoke(&*setup.store, &setup.clock, operator).await.unwrap();
    assert_eq!(revoke(ada.operator_id).await, Revocation::Revoked);
    assert_eq!(setup.operator_admitted(&ring(NEW), &token).await, None);
    let revoked = Operator { revoked_at: Some(fixtures::at(2)), ..ada.clone() };
    assert_eq!(operators::list(&*setup.store).await.unwrap(), [revoked]);
    assert_eq!(revoke(ada.operator_id).await, Revocation::AlreadyRevoked);
    assert_eq!(revoke(OperatorId(fixtures::unique_uuid())).await, Revocation::Unknown);
}

async fn a_name_is_checked_and_taken_once(scratch: ScratchStore) {
    let setup = Setup::on(scratch).await;
    let empty = setup.operator(&ring(NEW), " ").await;
    assert!(matches!(empty, Err(AccountError::Name(NameFault::Empty))), "{empty:?}");
    setup.operator(&ring(NEW), "ada").await.unwrap();
    let taken = setup.operator(&ring(NEW), "ada ").await;
    assert!(matches!(&taken, Err(AccountError::NameTaken(name)) if name == "ada"), "{taken:?}");
    assert_eq!(operators::list(&*setup.store).await.unwrap().len(), 1);
}

async fn a_token_that_is_used_is_sealed_anew(scratch: ScratchStore) {
    let setup = Setup::on(scratch).await;
    let (ada, token) = setup.operator(&ring(OLD), "ada").await.unwrap();
    assert_eq!(setup.operator_admitted(&ring(NEW), &token).await, None, "only the old master key knows it");
    assert_eq!(setup.operator_admitted(&both(), &token).await, Some(ada.operator_id));
    assert_eq!(setup.operator_admitted(&ring(NEW), &token).await, Some(ada.operator_id));
}
