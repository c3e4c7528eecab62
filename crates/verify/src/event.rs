//! What a notification says, once it is known to be authentic.

use serde::{Deserialize, Serialize};

use crate::error::VerifyError;

/// The one kind of event there is.
pub const EVENT_TYPE: &str = "settlement.completed";

/// The settlement of a test delivery: an id that no settlement has.
const TEST_SETTLEMENT_ID: &str = "00000000-0000-0000-0000-000000000000";

/// A verified notification: a settlement was completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    /// Which delivery this is, the same on every attempt: deduplicate by it. It is not signed.
    pub delivery_id: String,
    /// Whether it is a test delivery, which no money belongs to. The signed body says so, not the header
    /// `service-test`, which anybody on the way could set or drop.
    pub test: bool,
    /// What was settled.
    pub settlement: Settlement,
}

/// A completed settlement.
///
/// Amounts, rates and fees are decimal numbers in text, exactly as they were sent: read them with a decimal
/// type, never as floating point. Times are RFC 3339 with offset. Fields that this version does not know are
/// ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settlement {
    /// Which settlement, a uuid: book by it.
    pub settlement_id: String,
    /// When the payout was complete.
    pub completed_at: Option<String>,
    /// When the event took place.
    pub occurred_at: String,
    /// The reference of the incoming payment.
    pub payin_reference: String,
    /// The reference of the payout.
    pub payout_reference: Option<String>,
    /// The reference of the destination it was paid to.
    pub destination_reference: String,
    /// The currency that came in.
    pub incoming_currency: String,
    /// How much came in.
    pub incoming_amount: String,
    /// The asset that went out.
    pub outgoing_currency: String,
    /// How much went out: only decimals the asset can transfer, never rounded up.
    pub outgoing_amount: Option<String>,
    /// Incoming units per outgoing unit.
    pub conversion_rate: String,
    /// Which side was fixed: `incoming` or `outgoing`.
    pub fixed_side: String,
    /// The agreed fee, in percent.
    pub fee_percentage: String,
    /// What that percentage came to, in the outgoing asset.
    pub fee_percentage_amount: Option<String>,
    /// The agreed fixed fee, in the outgoing asset.
    pub fee_fixed: String,
}

/// The part of the body that says what the rest of it is.
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
