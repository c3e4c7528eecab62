//! A completed settlement as its merchant sees it, and the notification made from it.
//!
//! [`Settlement`] sets the order of the fields everywhere: in the API, in the notification and in the stores.
//! We render a settlement once, into a [`Record`]; from then on everybody passes the same bytes on.
//!
//! The contract allows a settlement without `completed_at`, but the list needs an order, so such a settlement
//! is listed by `occurred_at`.

use serde::Serialize;

use crate::event::EventType;
use crate::ids::{MerchantId, SettlementId};
use crate::money::Decimal;
use crate::pricing::InternalPricing;
use crate::quote::FixedSide;
use crate::time::Timestamp;

mod document;
mod fault;
mod import;
mod limit;
mod object;
mod origin;

pub use document::{Document, parse_document};
pub use fault::ImportFault;
pub use import::{UNCHECKED, parse};
pub use limit::{check_outgoing_amount, largest_outgoing_amount};
pub use object::parse_object;
pub use origin::Origin;

/// The settlement record, in the field order of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Settlement {
    /// The settlement's id.
    pub settlement_id: SettlementId,
    /// When the payout was complete.
    pub completed_at: Option<Timestamp>,
    /// When the event took place.
    pub occurred_at: Timestamp,
    /// The reference of the incoming payment.
    pub payin_reference: String,
    /// The reference of the payout.
    pub payout_reference: Option<String>,
    /// The reference of the payout's destination.
    pub destination_reference: String,
    /// The currency that came in.
    pub incoming_currency: String,
    /// How much came in.
    pub incoming_amount: Decimal,
    /// The asset that went out.
    pub outgoing_currency: String,
    /// How much went out: only decimals that the asset can transfer, never rounded up.
    pub outgoing_amount: Option<Decimal>,
    /// Incoming units per outgoing unit.
    pub conversion_rate: Decimal,
    /// Which side was fixed.
    pub fixed_side: FixedSide,
    /// The fee agreed for the merchant's corridor, in percent.
    pub fee_percentage: Decimal,
    /// The amount of that percentage fee, in the outgoing asset.
    pub fee_percentage_amount: Option<Decimal>,
    /// The fixed fee agreed for the merchant's corridor, in the outgoing asset.
    pub fee_fixed: Decimal,
}

/// The names of the record's fields, in their order; a test compares them with [`Settlement`].
pub const FIELDS: [&str; 15] = [
    "settlement_id",
    "completed_at",
    "occurred_at",
    "payin_reference",
    "payout_reference",
    "destination_reference",
    "incoming_currency",
    "incoming_amount",
    "outgoing_currency",
    "outgoing_amount",
    "conversion_rate",
    "fixed_side",
    "fee_percentage",
    "fee_percentage_amount",
    "fee_fixed",
];

impl Settlement {
    /// The time that sorts the settlement in its merchant's list: `completed_at`, or else `occurred_at`.
    #[must_use]
    pub fn listed_at(&self) -> Timestamp {
        self.completed_at.unwrap_or(self.occurred_at)
    }

    /// The record as compact JSON.
    #[must_use]
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "strings and nulls cannot fail to serialize"
    )]
    pub fn record(&self) -> Record {
        Record(serde_json::to_string(self).expect("a settlement is strings and nulls"))
    }
}

/// A rendered settlement: one compact JSON object, the bytes that a merchant sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record(String);

impl Record {
    /// A record read from a store.
    #[must_use]
    pub fn from_stored(json: String) -> Record {
        Record(json)
    }

    /// The JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The JSON text.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }

    /// The body of a notification of an event: the record with `event` in front.
    #[must_use]
    pub fn notification(&self, event: EventType) -> Vec<u8> {
        let fields = self.0.strip_prefix('{').unwrap_or(&self.0);
        format!("{{\"event\":\"{event}\",{fields}").into_bytes()
    }
}

/// A page of rendered settlements and the total number, both from one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordPage {
    /// The records, in the order of the list, separated by commas: the inside of a JSON array. No caller
    /// needs them one by one.
    pub records: String,
    /// All settlements of the merchant, on any page.
    pub total: u64,
}

/// A completed settlement on its way into the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedSettlement {
    /// The merchant it belongs to.
    pub merchant_id: MerchantId,
    /// What the merchant sees.
    pub settlement: Settlement,
    /// What the merchant never sees.
    pub pricing: Option<InternalPricing>,
    /// Who says that it is complete. The merchant never sees that either.
    pub origin: Origin,
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn settlement() -> Settlement {
        Settlement {
            settlement_id: SettlementId(Uuid::nil()),
            completed_at: None,
            occurred_at: "2026-01-31T09:30:00Z".parse().unwrap(),
            payin_reference: "pix \"1\"".to_owned(),
            payout_reference: None,
            destination_reference: "wallet".to_owned(),
            incoming_currency: "BRL".to_owned(),
            incoming_amount: "1000.00".parse().unwrap(),
            outgoing_currency: "USDC".to_owned(),
            outgoing_amount: Some("181.149631".parse().unwrap()),
            conversion_rate: "5.43".parse().unwrap(),
            fixed_side: FixedSide::Incoming,
            fee_percentage: "1.5".parse().unwrap(),
            fee_percentage_amount: Some("2.762431".parse().unwrap()),
            fee_fixed: "0.250000".parse().unwrap(),
        }
    }

    #[test]
    fn the_record_has_every_field_in_the_order_of_the_contract() {
        let expected = concat!(
            r#"{"settlement_id":"00000000-0000-0000-0000-000000000000","completed_at":null,"#,
            r#""occurred_at":"2026-01-31T09:30:00.000000+00:00","payin_reference":"pix \"1\"","#,
            r#""payout_reference":null,"destination_reference":"wallet","incoming_currency":"BRL","#,
            r#""incoming_amount":"1000.00","outgoing_currency":"USDC","outgoing_amount":"181.149631","#,
            r#""conversion_rate":"5.43","fixed_side":"incoming","fee_percentage":"1.5","#,
            r#""fee_percentage_amount":"2.762431","fee_fixed":"0.250000"}"#,
        );
        assert_eq!(settlement().record().as_str(), expected);
        let mut rest = expected;
        for field in FIELDS {
            let key = format!("\"{field}\":");
            let at = rest.find(&key).unwrap_or_else(|| panic!("{field} is missing or out of order"));
            rest = &rest[at + key.len()..];
        }
        let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(expected).unwrap();
        assert_eq!(object.len(), FIELDS.len());
    }

    #[test]
    fn the_notification_is_the_record_with_event_first() {
        let body = settlement().record().notification(EventType::SettlementCompleted);
        let body = String::from_utf8(body).unwrap();
        let record = settlement().record().into_string();
        assert_eq!(body, format!(r#"{{"event":"settlement.completed",{}"#, &record[1..]));
        let value: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(value["event"], "settlement.completed");
        assert_eq!(value.as_object().unwrap().len(), FIELDS.len() + 1);
    }
}
