//! What a database may hold where sealed secrets and the seals of credentials belong: nothing panics, and
//! nothing opens or admits anybody but what was sealed.
//!
//! The corpus is `tests/data/fuzz_sealed.txt`: `opens` or `closed`, and a blob in hexadecimal digits a line.
//! Another implementation has sealed it, also what is no secret and what belongs to others: a blob that is
//! changed at random never gets that far. Add the blob of a bug before you mend it.

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::credential::{Credential, CredentialKind};
use crate::ids::KeyId;
use crate::seams::SeededEntropy;

const CORPUS: &str = include_str!("../../tests/data/fuzz_sealed.txt");
const RING: &str = "2222222222222222222222222222222222222222222222222222222222222222,\
                    1111111111111111111111111111111111111111111111111111111111111111";

fn merchant(number: u128) -> MerchantId {
    MerchantId(Uuid::from_u128(number))
}

/// Every blob, and whether it opens.
fn corpus() -> Vec<(Vec<u8>, bool)> {
    let blob = |line: &str| {
        let (word, digits) = line.split_once(' ').expect("a word and a blob");
        (hex::decode(digits).expect("hexadecimal digits"), word == "opens")
    };
    CORPUS.lines().map(blob).collect()
}

/// A blob of the corpus with some bytes replaced, removed or put in, the beginning of one with the end of
/// another, or any bytes.
fn any_blob() -> impl Strategy<Value = Vec<u8>> {
    let blobs: Vec<Vec<u8>> = corpus().into_iter().map(|(blob, _)| blob).collect();
    let bytes = prop::collection::vec(any::<u8>(), 0..3);
    let changes = prop::collection::vec((any::<prop::sample::Index>(), 0..3_usize, bytes), 0..3);
    let near = (prop::sample::select(blobs.clone()), changes).prop_map(|(mut blob, changes)| {
        for (place, replaced, bytes) in changes {
            let start = place.index(blob.len() + 1);
            let end = blob.len().min(start + replaced);
            blob.splice(start..end, bytes);
        }
        blob
    });
    let two = (prop::sample::select(blobs.clone()), prop::sample::select(blobs));
    let joined = (two, any::<prop::sample::Index>()).prop_map(|((first, second), place)| {
        let seam = place.index(first.len().min(second.len()) + 1);
        [&first[..seam], &second[seam..]].concat()
    });
    prop_oneof![4 => near, 2 => joined, 1 => prop::collection::vec(any::<u8>(), 0..120)]
}

/// Whether a blob opens. If it does, it is its merchant's alone, and the same secret after it is sealed anew.
fn opens(blob: &[u8]) -> bool {
    let ring = KeyRing::parse(RING).expect("a ring");
    let sealed = SealedSecret(blob.to_vec());
    assert!(ring.open(merchant(3), &sealed).is_err(), "{}", hex::encode(blob));
    let Ok(secret) = ring.open(merchant(1), &sealed) else { return false };
    let again = ring.seal(merchant(1), &secret, &SeededEntropy::new(1));
    let opened = ring.open(merchant(1), &again).expect("what was just sealed");
    assert_eq!(opened.as_bytes(), secret.as_bytes(), "{}", hex::encode(blob));
    true
}

#[test]
fn the_corpus() {
    let corpus = corpus();
    assert!(corpus.iter().any(|(_, opens)| *opens), "something opens");
    for (blob, expected) in corpus {
        assert_eq!(opens(&blob), expected, "{}", hex::encode(blob));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn only_what_was_sealed_opens(blob in any_blob()) {
        // The version is no part of what is sealed: a blob of another opens once its version is ours.
        let was_sealed = corpus().into_iter().any(|(mut sealed, opens)| match sealed.first_mut() {
            Some(version @ (0 | 2)) => {
                *version = VERSION;
                sealed == blob
            }
            _ => opens && sealed == blob,
        });
        prop_assert_eq!(opens(&blob), was_sealed, "{}", hex::encode(blob));
    }

    #[test]
    fn only_the_seal_that_was_made_admits(
        place in any::<prop::sample::Index>(),
        replaced in 0..3_usize,
        bytes in prop::collection::vec(any::<u8>(), 0..3),
        any_seal in prop::option::weighted(0.1, prop::collection::vec(any::<u8>(), 0..80)),
    ) {
        let ring = KeyRing::parse(RING).expect("a ring");
        let hash = Credential::parse(CredentialKind::ApiKey, "sk_00ff").expect("a key").hash();
        let holder = Holder::Merchant { merchant_id: merchant(1), key_id: KeyId(Uuid::from_u128(7)) };
        let right = ring.seal_credential(holder, hash).0;
        let mut seal = any_seal.unwrap_or_else(|| right.clone());
        let start = place.index(seal.len() + 1);
        let end = seal.len().min(start + replaced);
        seal.splice(start..end, bytes);
        let is_right = seal == right;
        let admits = ring.recognise(holder, hash, Some(&CredentialSeal(seal))).is_ok();
        prop_assert_eq!(admits, is_right);
    }
}
