//! Operators.

use settle_domain::credential::{CredentialHash, CredentialSeal};
use settle_domain::ids::OperatorId;

use super::fixtures::{at, unique_uuid};
use crate::{NewOperator, Operator, Revocation, Store, StoreError, StoredToken};

/// An operator whose hash and seal consist of one byte.
pub(super) fn new_operator(name: &str, byte: u8) -> NewOperator {
    let operator = Operator {
        operator_id: OperatorId(unique_uuid()),
        name: name.to_owned(),
        created_at: at(u64::from(byte)),
        revoked_at: None,
    };
    NewOperator { operator, hash: CredentialHash([byte; 32]), seal: CredentialSeal(vec![byte; 36]) }
}

pub(super) async fn create(store: &dyn Store, operator: &NewOperator) -> Result<(), StoreError> {
    let mut tx = store.begin().await.unwrap();
    tx.operator_create(operator).await?;
    tx.commit().await
}

/// The list shows operators oldest first, also after they are revoked.
pub async fn an_operator_is_found_until_revoked(store: &dyn Store) {
    let (ada, bob) = (new_operator("ada", 2), new_operator("bob", 1));
    create(store, &ada).await.unwrap();
    create(store, &bob).await.unwrap();
    let found =
        StoredToken { operator_id: ada.operator.operator_id, hash: ada.hash, seal: Some(ada.seal.clone()) };
    assert_eq!(store.operator_find(ada.hash).await.unwrap(), Some(found));
    assert_eq!(store.operator_find(CredentialHash([9; 32])).await.unwrap(), None);

    let mut revocations = Vec::new();
    for operator in [ada.operator.operator_id, ada.operator.operator_id, OperatorId(unique_uuid())] {
        let mut tx = store.begin().await.unwrap();
        revocations.push(tx.operator_revoke(operator, at(50)).await.unwrap());
        tx.commit().await.unwrap();
    }
    assert_eq!(revocations, [Revocation::Revoked, Revocation::AlreadyRevoked, Revocation::Unknown]);
    assert_eq!(store.operator_find(ada.hash).await.unwrap(), None);
    let revoked = Operator { revoked_at: Some(at(50)), ..ada.operator };
    assert_eq!(store.operator_list().await.unwrap(), [bob.operator, revoked]);
}

/// A log line that names an operator means one person.
pub async fn an_operators_name_is_unique(store: &dyn Store) {
    create(store, &new_operator("ada", 1)).await.unwrap();
    let taken = create(store, &new_operator("ada", 2)).await;
    assert!(matches!(taken, Err(StoreError::NameTaken)), "{taken:?}");
}
