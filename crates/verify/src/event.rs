//! The content of an authentic notification.

use serde::{Deserialize, Serialize};

use crate::error::VerifyError;

/// The only kind of event.
pub const EVENT_TYPE: &str = "settlement.completed";

/// The settlement id of a test delivery; no real settlement has it.
const TEST_SETTLEMENT_ID: &str = "00000000-0000-0000-0000-000000000000";

/// A verified notification: a settlement was completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    /// The delivery's id, the same on every attempt: deduplicate by it. It is not signed.
    pub delivery_id: String,
    /// Whether it is a test delivery, without any money. The signed body says so, not the header
    /// `service-test`, which anybody between Settle and the receiver could set or drop.
    pub test: bool,
    /// The completed settlement.
    pub settlement: Settlement,
}

/// A completed settlement.
///
/// Amounts, rates and fees are decimal numbers in text, exactly as Settle sent them: read them with a decimal
/// type, never as floating point. Times are RFC 3339 with offset. Fields that this version does not know are
/// ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settlement {
    /// The settlement's id, a uuid: credit each id only once.
    pub settlement_id: String,
    /// When the payout was complete.
    pub completed_at: Option<String>,
    /// When the event took place.
    pub occurred_at: String,
    /// The reference of the incoming payment.
    pub payin_reference: String,
    /// The reference of the payout.
    pub payout_reference: Option<String>,
    /// The reference of the payout's destination.
    pub destination_reference: String,
    /// The currency that came in.
    pub incoming_currency: String,
    /// How much came in.
    pub incoming_amount: String,
    /// The asset that went out.
    pub outgoing_currency: String,
    /// How much went out: only decimals that the asset can transfer, never rounded up.
    pub outgoing_amount: Option<String>,
    /// Incoming units per outgoing unit.
    pub conversion_rate: String,
    /// Which side was fixed: `incoming` or `outgoing`.
    pub fixed_side: String,
    /// The agreed fee, in percent.
    pub fee_percentage: String,
    /// The amount of that percentage fee, in the outgoing asset.
    pub fee_percentage_amount: Option<String>,
    /// The agreed fixed fee, in the outgoing asset.
    pub fee_fixed: String,
}

/// The field that says which kind of event the body reports.
#[derive(Deserialize)]
struct Kind {
    event: String,
}

impl Event {
    /// Reads an authentic body.
    pub(crate) fn read(delivery_id: &str, body: &[u8]) -> Result<Event, VerifyError> {
        let malformed = |fault: serde_json::Error| VerifyError::MalformedBody(fault.to_string());
        let kind: Kind = serde_json::from_slice(body).map_err(malformed)?;
        if kind.event != EVENT_TYPE {
            return Err(VerifyError::UnknownEvent(kind.event));
        }
        let settlement: Settlement = serde_json::from_slice(body).map_err(malformed)?;
        let test = settlement.settlement_id == TEST_SETTLEMENT_ID;
        Ok(Event { delivery_id: delivery_id.to_owned(), test, settlement })
    }
}
