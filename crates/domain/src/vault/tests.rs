//! Rings, sealed secrets and sealed credentials.

use super::*;
use crate::credential::{Credential, CredentialKind};
use crate::ids::{KeyId, OperatorId};
use crate::seams::SeededEntropy;
use uuid::Uuid;

const OLD: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222222222222222222222222222";

fn merchant(number: u128) -> MerchantId {
    MerchantId(Uuid::from_u128(number))
}

fn secret() -> WebhookSecret {
    WebhookSecret::parse("whsec_é".to_owned()).unwrap()
}

#[test]
fn a_sealed_secret_opens_for_its_merchant_alone() {
    let ring = KeyRing::parse(NEW).unwrap();
    let sealed = ring.seal(merchant(1), &secret(), &SeededEntropy::new(1));
    assert_eq!(ring.open(merchant(1), &sealed).unwrap().as_bytes(), secret().as_bytes());
    assert_eq!(ring.open(merchant(2), &sealed).unwrap_err(), OpenFault::Damaged);
}

#[test]
fn no_changed_byte_goes_unnoticed() {
    let ring = KeyRing::parse(NEW).unwrap();
    let sealed = ring.seal(merchant(1), &secret(), &SeededEntropy::new(1));
    for position in 0..sealed.0.len() {
        let mut changed = sealed.clone();
        changed.0[position] ^= 1;
        assert!(ring.open(merchant(1), &changed).is_err(), "byte {position}");
        changed.0.truncate(position);
        assert!(ring.open(merchant(1), &changed).is_err(), "cut at {position}");
    }
}

#[test]
fn a_ring_seals_with_its_first_key_and_opens_with_all() {
    let (old, both) = (KeyRing::parse(OLD).unwrap(), KeyRing::parse(&format!("{NEW},{OLD}")).unwrap());
    let new = KeyRing::parse(NEW).unwrap();
    let sealed_before = old.seal(merchant(1), &secret(), &SeededEntropy::new(1));
    assert!(both.open(merchant(1), &sealed_before).is_ok());
    assert_eq!(new.open(merchant(1), &sealed_before).unwrap_err(), OpenFault::UnknownKey);
    let sealed_after = both.seal(merchant(1), &secret(), &SeededEntropy::new(2));
    assert!(new.open(merchant(1), &sealed_after).is_ok());
}

fn key() -> Credential {
    Credential::generate(CredentialKind::ApiKey, &SeededEntropy::new(3))
}

fn holder(merchant_number: u128, key_number: u128) -> Holder {
    Holder::Merchant { merchant_id: merchant(merchant_number), key_id: KeyId(Uuid::from_u128(key_number)) }
}

#[test]
fn a_sealed_credential_is_its_holders_alone() {
    let ring = KeyRing::parse(NEW).unwrap();
    let hash = key().hash();
    let seal = ring.seal_credential(holder(1, 7), hash);
    assert_eq!(ring.recognise(holder(1, 7), hash, Some(&seal)), Ok(Recognition::Current));
    // A row that somebody copied or rewrote: another merchant, another key, an operator, another hash.
    let operator = Holder::Operator(OperatorId(Uuid::from_u128(7)));
    for other in [holder(2, 7), holder(1, 8), operator] {
        assert_eq!(ring.recognise(other, hash, Some(&seal)), Err(SealFault::Forged), "{other:?}");
    }
    let other = Credential::generate(CredentialKind::ApiKey, &SeededEntropy::new(4)).hash();
    assert_eq!(ring.recognise(holder(1, 7), other, Some(&seal)), Err(SealFault::Forged));
    let token = ring.seal_credential(operator, hash);
    assert_eq!(ring.recognise(operator, hash, Some(&token)), Ok(Recognition::Current));
    let other = Holder::Operator(OperatorId(Uuid::from_u128(8)));
    assert_eq!(ring.recognise(other, hash, Some(&token)), Err(SealFault::Forged));
}

#[test]
fn a_seal_is_what_earlier_versions_stored() {
    // Computed with another implementation of HMAC.
    let ring = KeyRing::parse(NEW).unwrap();
    let hash = Credential::parse(CredentialKind::ApiKey, "sk_00ff").unwrap().hash();
    let operator = Holder::Operator(OperatorId(Uuid::from_u128(7)));
    for (holder, expected) in [
        (holder(1, 7), "f5ff0c7a3635db1843b19e685cdd582d097abcdff73bd4f613e07eeee75ef228c8eead23"),
        (operator, "f5ff0c7a7ac95a3a3ea81a13585e9340b2c46c494b38170775e63aaeeb840c2cb9c5377a"),
    ] {
        assert_eq!(hex::encode(ring.seal_credential(holder, hash).0), expected, "{holder:?}");
    }
}

#[test]
fn no_changed_byte_of_a_seal_goes_unnoticed() {
    let ring = KeyRing::parse(NEW).unwrap();
    let hash = key().hash();
    let seal = ring.seal_credential(holder(1, 7), hash);
    let judge = |seal: &CredentialSeal| ring.recognise(holder(1, 7), hash, Some(seal));
    assert_eq!(seal.0.len(), 36);
    for position in 0..seal.0.len() {
        let mut changed = seal.clone();
        changed.0[position] ^= 1;
        assert!(judge(&changed).is_err(), "byte {position}");
        changed.0.truncate(position);
        assert_eq!(judge(&changed), Err(SealFault::Forged), "cut at {position}");
    }
    assert!(judge(&CredentialSeal([&seal.0[..], &[0]].concat())).is_err(), "longer");
}

/// Whoever can write to the table can compute the hash, but not the seal.
#[test]
fn a_hash_without_a_seal_admits_nobody() {
    let ring = KeyRing::parse(NEW).unwrap();
    let hash = key().hash();
    assert_eq!(ring.recognise(holder(1, 7), hash, None), Err(SealFault::Missing));
    let other = KeyRing::parse(OLD).unwrap().seal_credential(holder(1, 7), hash);
    assert_eq!(ring.recognise(holder(1, 7), hash, Some(&other)), Err(SealFault::UnknownKey));
}

#[test]
fn a_seal_is_made_anew_without_the_credential() {
    let (old, both) = (KeyRing::parse(OLD).unwrap(), KeyRing::parse(&format!("{NEW},{OLD}")).unwrap());
    let new = KeyRing::parse(NEW).unwrap();
    let hash = key().hash();
    let before = old.seal_credential(holder(1, 7), hash);
    assert_eq!(both.recognise(holder(1, 7), hash, Some(&before)), Ok(Recognition::Stale));
    let after = both.seal_credential(holder(1, 7), hash);
    assert_eq!(new.recognise(holder(1, 7), hash, Some(&after)), Ok(Recognition::Current));
    assert_eq!(old.recognise(holder(1, 7), hash, Some(&after)), Err(SealFault::UnknownKey));
}

#[test]
fn a_key_id_prints_as_hexadecimal_digits() {
    assert_eq!(MasterKeyId([0, 1, 0xab, 0xff]).to_string(), "0001abff");
    let both = KeyRing::parse(&format!("{NEW},{OLD}")).unwrap();
    assert_eq!(both.ids(), [both.newest(), KeyRing::parse(OLD).unwrap().newest()]);
}

#[test]
fn what_is_not_a_ring_is_refused_and_nothing_prints() {
    for text in ["", "abc", &NEW[1..], &format!("{NEW},"), &format!("{NEW}00")] {
        assert_eq!(KeyRing::parse(text).unwrap_err(), RingFault::Malformed, "{text}");
    }
    let nine = [NEW; 9].join(",");
    assert_eq!(KeyRing::parse(&nine).unwrap_err(), RingFault::TooMany);
    assert_eq!(format!("{:?}", KeyRing::parse(NEW).unwrap()), "KeyRing(1 keys)");
}
