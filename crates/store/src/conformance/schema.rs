//! The schema: migrating is safe at any time, for several nodes at once.

use crate::Store;

/// `settle doctor` and `/readyz` rely on this.
pub async fn a_new_database_has_every_migration_pending(store: &dyn Store) {
    assert!(store.migrations_pending().await.unwrap() > 0);
    store.migrate().await.unwrap();
    assert_eq!(store.migrations_pending().await.unwrap(), 0);
}

/// Nodes that start together also migrate together.
pub async fn migrating_again_or_together_changes_nothing(store: &dyn Store) {
    let (first, second) = tokio::join!(store.migrate(), store.migrate());
    first.unwrap();
    second.unwrap();
    store.migrate().await.unwrap();
    assert_eq!(store.migrations_pending().await.unwrap(), 0);
    store.ping().await.unwrap();
    store.write_probe().await.unwrap();
}
