//! Corridors: a change is a new version, and every version stays.

use std::time::Duration;

use settle_domain::actor::Actor;
use settle_domain::corridor::{ALERT_AFTER, Corridor, CorridorTerms, CorridorVersion, VersionedCorridor};
use settle_domain::ids::{MerchantId, OperatorId};
use settle_domain::pricing::CorridorPricing;
use settle_domain::time::Timestamp;

use super::fixtures::{at, merchant, unique_uuid};
use crate::{CorridorKey, NewCorridor, Store, StoredCorridor};

/// A corridor of a merchant from BRL, made so many seconds after the start.
fn corridor(merchant_id: MerchantId, outgoing: &str, fee_fixed: &str, second: u64) -> NewCorridor {
    let terms = CorridorTerms {
        incoming: "BRL".parse().unwrap(),
        outgoing: outgoing.parse().unwrap(),
        fee_percentage: "1.5".parse().unwrap(),
        fee_fixed: fee_fixed.parse().unwrap(),
        minimum: Some("10.00".parse().unwrap()),
        maximum: None,
        provider: "sandbox".parse().unwrap(),
        alert_after: ALERT_AFTER,
    };
    NewCorridor {
        merchant_id,
        corridor: Corridor::new(terms).unwrap(),
        pricing: CorridorPricing::NONE,
        made_by: Actor::Command,
        made_at: at(second),
    }
}

async fn put(store: &dyn Store, new: &NewCorridor) -> CorridorVersion {
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[new.merchant_id]).await.unwrap();
    let version = tx.corridor_put(&lock, new).await.unwrap();
    tx.commit().await.unwrap();
    version
}

/// Agrees on a corridor of a merchant without fees: a pair, its provider, and when a payment is late.
pub(super) async fn agree(
    store: &dyn Store,
    merchant_id: MerchantId,
    (incoming, outgoing): (&str, &str),
    provider: &str,
    alert_after: Duration,
    made_at: Timestamp,
) {
    let terms = CorridorTerms {
        incoming: incoming.parse().unwrap(),
        outgoing: outgoing.parse().unwrap(),
        fee_percentage: "0".parse().unwrap(),
        fee_fixed: "0".parse().unwrap(),
        minimum: None,
        maximum: None,
        provider: provider.parse().unwrap(),
        alert_after,
    };
    let new = NewCorridor {
        merchant_id,
        corridor: Corridor::new(terms).unwrap(),
        pricing: CorridorPricing::new("0".parse().unwrap(), None, None).unwrap(),
        made_by: Actor::Command,
        made_at,
    };
    put(store, &new).await;
}

fn stored(new: &NewCorridor, version: u32) -> StoredCorridor {
    StoredCorridor {
        merchant_id: new.merchant_id,
        versioned: VersionedCorridor {
            version: CorridorVersion(version),
            corridor: new.corridor.clone(),
            made_by: new.made_by,
            made_at: new.made_at,
        },
        pricing: new.pricing.clone(),
    }
}

/// The newest version holds, the older ones stay, and other corridors have numbers of their own.
pub async fn a_change_is_a_new_version(store: &dyn Store) {
    let owner = merchant(store).await;
    let first = corridor(owner, "USDC", "0.25", 1);
    let second = NewCorridor {
        pricing: CorridorPricing::new(
            "0.5".parse().unwrap(),
            Some("acme".to_owned()),
            Some("25".parse().unwrap()),
        )
        .unwrap(),
        made_by: Actor::Operator(OperatorId(unique_uuid())),
        ..corridor(owner, "USDC", "0.30", 2)
    };
    let other = corridor(owner, "EURC", "0", 3);
    assert_eq!(put(store, &first).await, CorridorVersion(1));
    assert_eq!(put(store, &second).await, CorridorVersion(2));
    assert_eq!(put(store, &other).await, CorridorVersion(1));
    let listed = store.corridor_list(owner).await.unwrap();
    assert_eq!(listed, [stored(&other, 1), stored(&second, 2), stored(&first, 1)]);
    let key = stored(&first, 1).key();
    assert_eq!(store.corridor_find_many(&[key]).await.unwrap(), [stored(&second, 2)]);
    let versions = [1, 2, 3].map(CorridorVersion);
    let mut found = Vec::new();
    for version in versions {
        found.push(store.corridor_version(key, version).await.unwrap());
    }
    assert_eq!(found, [Some(stored(&first, 1)), Some(stored(&second, 2)), None]);
}

/// A corridor is its merchant's; of many that are asked for those come that exist.
pub async fn a_corridor_is_of_its_merchant(store: &dyn Store) {
    let (one, two) = (merchant(store).await, merchant(store).await);
    let (of_one, of_two) = (corridor(one, "USDC", "0.25", 1), corridor(two, "USDC", "0.50", 2));
    put(store, &of_one).await;
    put(store, &of_two).await;
    let key = |merchant_id, outgoing: &str| CorridorKey {
        merchant_id,
        incoming: "BRL".parse().unwrap(),
        outgoing: outgoing.parse().unwrap(),
    };
    let asked = [key(one, "USDC"), key(one, "EURC"), key(two, "USDC")];
    let mut found = store.corridor_find_many(&asked).await.unwrap();
    found.sort_by_key(|corridor| corridor.merchant_id);
    assert_eq!(found, [stored(&of_one, 1), stored(&of_two, 1)]);
    assert_eq!(store.corridor_list(two).await.unwrap(), [stored(&of_two, 1)]);
}

/// What is not committed is no version.
pub async fn a_version_that_is_not_committed_leaves_no_trace(store: &dyn Store) {
    let owner = merchant(store).await;
    let new = NewCorridor {
        corridor: Corridor::new(CorridorTerms {
            alert_after: Duration::from_secs(90),
            ..corridor(owner, "USDC", "0.25", 1).corridor.terms().clone()
        })
        .unwrap(),
        ..corridor(owner, "USDC", "0.25", 1)
    };
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[owner]).await.unwrap();
    assert_eq!(tx.corridor_put(&lock, &new).await.unwrap(), CorridorVersion(1));
    drop(tx);
    assert_eq!(store.corridor_list(owner).await.unwrap(), []);
    assert_eq!(put(store, &new).await, CorridorVersion(1));
    assert_eq!(store.corridor_list(owner).await.unwrap(), [stored(&new, 1)]);
}
