//! Who is admitted, and what a replaced master key leaves, on both stores.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod keys;
mod master_keys;
mod merchants;
mod operators;

use settle_domain::ids::MerchantId;
use settle_domain::seams::{ManualClock, SeededEntropy};
use settle_domain::vault::KeyRing;
use settle_store::conformance::{ScratchStore, fixtures};

const OLD: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222222222222222222222222222";
const STRANGE: &str = "3333333333333333333333333333333333333333333333333333333333333333";

/// A store with one merchant, and the two seams.
struct Setup {
    store: ScratchStore,
    clock: ManualClock,
    entropy: SeededEntropy,
    merchant: MerchantId,
}

impl Setup {
    async fn on(scratch: ScratchStore) -> Setup {
        let store = scratch.migrated().await;
        let merchant = fixtures::merchant(&*store).await;
        let (clock, entropy) = (ManualClock::at(fixtures::at(1)), SeededEntropy::new(20_260_201));
        Setup { store, clock, entropy, merchant }
    }
}

fn ring(text: &str) -> KeyRing {
    KeyRing::parse(text).unwrap()
}

/// The ring while a master key is being replaced.
fn both() -> KeyRing {
    ring(&format!("{NEW},{OLD}"))
}
