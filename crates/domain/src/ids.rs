//! Typed ids. Ours are uuid v7 that carry their time to the microsecond, so they sort by time; those of the
//! engine are uuid v8 made from what they name. An id that comes from outside may be any uuid.
//!
//! The delivery log relies on this: `(merchant_id, delivery_id)` is the order of the list, so no write has to
//! keep an index on `created_at`. Older versions made ids that carry only milliseconds; among those of one
//! millisecond the order is arbitrary.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::seams::{Entropy, random_bytes};
use crate::time::Timestamp;

/// Text that is not a hyphenated uuid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a uuid such as 0190d3c4-7c00-7000-8000-000000000000")]
pub struct IdFault;

macro_rules! id {
    ($($(#[doc = $doc:literal])+ $name:ident),+ $(,)?) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// The id of nothing: all zeros.
            pub const NIL: $name = $name(Uuid::nil());
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(formatter)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, formatter)
            }
        }

        impl FromStr for $name {
            type Err = IdFault;

            fn from_str(text: &str) -> Result<$name, IdFault> {
                parse(text).map($name)
            }
        }
    )+};
}

/// Ids of things that come into being once, at a time.
macro_rules! timed_id {
    ($($(#[doc = $doc:literal])+ $name:ident),+ $(,)?) => {
        id! { $($(#[doc = $doc])+ $name),+ }

        $(impl $name {
            /// A new id from the given time and fresh randomness.
            #[must_use]
            pub fn new(now: Timestamp, entropy: &dyn Entropy) -> $name {
                $name(uuid_v7(now, random_bytes(entropy)))
            }

            /// The smallest id of this time: ids made at this time or later are not below it, all earlier
            /// ones are.
            #[must_use]
            pub fn first_at(time: Timestamp) -> $name {
                $name(uuid_v7(time, [0; 10]))
            }
        })+
    };
}

timed_id! {
    /// A comparison of a provider's operations with ours.
    ReportId,
    /// An act on a payment that waits for a second person.
    ProposalId,
    /// A merchant: it owns settlements, keys and at most one webhook endpoint.
    MerchantId,
    /// An API key of a merchant.
    KeyId,
    /// An operator of the service.
    OperatorId,
    /// A settlement; the importing system chooses the id.
    SettlementId,
    /// One notification delivery; receivers deduplicate by it.
    DeliveryId,
    /// One import of more settlements than one transaction records.
    ImportId,
    /// One process that holds shards and sends, from its start to its end.
    KeeperId,
    /// One alert to operations; its receiver deduplicates by it.
    AlertId,
    /// One request to an API, shown as `X-Request-Id` and in the log.
    RequestId,
}

id! {
    /// A payment on its way through the engine: made from its merchant and its pay-in, so the same pay-in is
    /// the same payment whoever tells of it. It becomes the id of the settlement.
    PaymentId,
    /// One thing asked of a provider: made from the payment, the kind and the number of the attempt. It is
    /// the idempotency key: whoever lost the memory of an attempt makes the same key again.
    OperationId,
}

impl From<PaymentId> for SettlementId {
    fn from(id: PaymentId) -> SettlementId {
        SettlementId(id.0)
    }
}

/// The id that these parts always give, a uuid v8: the first 122 bits of a SHA-256. The lengths go in with
/// the parts, so that no two lists of parts read the same.
#[must_use]
pub(crate) fn uuid_of(purpose: &str, parts: &[&[u8]]) -> Uuid {
    let mut hash = Sha256::new();
    for part in [purpose.as_bytes()].iter().chain(parts) {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    let digest: [u8; 32] = hash.finalize().into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// The twelve bits after the milliseconds are the fraction of the millisecond (RFC 9562, section 6.2, method
/// 3).
fn uuid_v7(now: Timestamp, mut random: [u8; 10]) -> Uuid {
    let [high, low] = now.as_uuid_fraction().to_be_bytes();
    random[0] = high;
    random[1] = low;
    uuid::Builder::from_unix_timestamp_millis(now.as_uuid_millis(), &random).into_uuid()
}

/// Only the hyphenated form, so that one id has one spelling, apart from upper and lower case.
fn parse(text: &str) -> Result<Uuid, IdFault> {
    const HYPHENATED_LENGTH: usize = 36;
    if text.len() != HYPHENATED_LENGTH {
        return Err(IdFault);
    }
    Uuid::try_parse(text).map_err(|_| IdFault)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seams::SeededEntropy;
    use std::time::Duration;

    #[test]
    fn a_new_id_is_a_version_7_uuid_of_its_time() {
        let entropy = SeededEntropy::new(1);
        let now: Timestamp = "2026-01-31T09:30:00Z".parse().unwrap();
        let times: Vec<Timestamp> =
            [0, 1, 2, 998, 999, 1_000, 1_001].map(|micros| now.plus(Duration::from_micros(micros))).to_vec();
        let ids: Vec<DeliveryId> = times.iter().map(|time| DeliveryId::new(*time, &entropy)).collect();
        assert!(ids.is_sorted(), "{ids:?}");
        assert!(ids.iter().all(|id| id.0.get_version_num() == 7));
        for (position, time) in times.iter().enumerate() {
            let first = DeliveryId::first_at(*time);
            assert!(ids[..position].iter().all(|id| *id < first), "{first}");
            assert!(ids[position..].iter().all(|id| *id >= first), "{first}");
        }
    }

    #[test]
    fn an_id_made_from_parts_is_always_the_same_version_8_uuid() {
        let id = uuid_of("test", &[b"ab", b"c"]);
        assert_eq!(id, uuid_of("test", &[b"ab", b"c"]));
        assert_eq!(id.to_string(), "a00f0094-952c-8ea2-bc01-5771273529f0");
        assert_eq!((id.get_version_num(), id.get_variant()), (8, uuid::Variant::RFC4122));
        for other in [
            uuid_of("text", &[b"ab", b"c"]),
            uuid_of("test", &[b"a", b"bc"]),
            uuid_of("test", &[b"abc"]),
            uuid_of("test", &[b"abc", b""]),
            uuid_of("testab", &[b"c"]),
        ] {
            assert_ne!(id, other);
        }
    }

    #[test]
    fn only_the_hyphenated_form_is_an_id() {
        let text = "0190d3c4-7c00-7000-8000-0000000000ab";
        assert_eq!(text.parse::<DeliveryId>().unwrap().to_string(), text);
        assert_eq!(text.to_uppercase().parse::<DeliveryId>().unwrap().to_string(), text);
        for bad in ["", "0190d3c47c0070008000000000000000", "{0190d3c4-7c00-7000-8000-0000000000ab}", "x"] {
            assert_eq!(bad.parse::<DeliveryId>(), Err(IdFault), "{bad}");
        }
    }
}
