//! Typed ids. Ours are uuid v7, so that they sort by the time they were made; an id given from outside is any
//! uuid.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::seams::{Entropy, random_bytes};
use crate::time::Timestamp;

/// Text that is not a hyphenated uuid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a uuid such as 0190d3c4-7c00-7000-8000-000000000000")]
pub struct IdFault;

macro_rules! id {
    ($(#[doc = $doc:literal] $name:ident),+ $(,)?) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// The id of nothing: all zeros.
            pub const NIL: $name = $name(Uuid::nil());

            /// A new id, made from the present time and fresh randomness.
            #[must_use]
            pub fn new(now: Timestamp, entropy: &dyn Entropy) -> $name {
                $name(uuid_v7(now, entropy))
            }
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

id! {
    /// A merchant: whoever owns settlements, keys and one webhook endpoint.
    MerchantId,
    /// An API key of a merchant.
    KeyId,
    /// An operator of the service.
    OperatorId,
    /// A settlement, named by whoever settled it.
    SettlementId,
    /// One notification delivery; receivers deduplicate by it.
    DeliveryId,
    /// One run of a dispatcher: a process that sends.
    DispatcherId,
    /// One alert of operations; receivers deduplicate by it.
    AlertId,
    /// One request to an API, shown as `X-Request-Id` and in the log.
    RequestId,
}

fn uuid_v7(now: Timestamp, entropy: &dyn Entropy) -> Uuid {
    uuid::Builder::from_unix_timestamp_millis(now.as_uuid_millis(), &random_bytes(entropy)).into_uuid()
}

/// Only the hyphenated form: one id has one spelling but for its case, whichever way it came.
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

    #[test]
    fn a_new_id_is_a_version_7_uuid_of_its_time() {
        let entropy = SeededEntropy::new(1);
        let now: Timestamp = "2026-01-31T09:30:00Z".parse().unwrap();
        let early = DeliveryId::new(now, &entropy);
        let late = DeliveryId::new(now.plus(std::time::Duration::from_millis(1)), &entropy);
        assert_eq!(early.0.get_version_num(), 7);
        assert!(early < late);
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
