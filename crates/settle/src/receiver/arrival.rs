//! What a receiver says of a request that reached it.

use std::fmt;

use serde::Serialize;
use settle_domain::time::Timestamp;
use settle_verify::Settlement;

/// What a request was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// A notification that was not seen before.
    New,
    /// A delivery that was seen before.
    Duplicate,
    /// A test delivery.
    Test,
    /// Not a notification to be trusted.
    Refused,
}

/// One request, as it is shown and as it is printed in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Arrival {
    /// When it came.
    pub(crate) received_at: Timestamp,
    /// What it was.
    pub(crate) verdict: Verdict,
    /// The delivery it belongs to; of a refused one what it claims.
    pub(crate) delivery_id: Option<String>,
    /// How many attempts of this delivery were seen, with this one.
    pub(crate) attempts: Option<u32>,
    /// The status it is answered with.
    pub(crate) status: u16,
    /// Why it is refused.
    pub(crate) reason: Option<String>,
    /// What was settled.
    pub(crate) settlement: Option<Settlement>,
}

impl fmt::Display for Arrival {
    /// A line, and two more for a settlement.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::New => "NEW",
            Verdict::Duplicate => "DUPLICATE",
            Verdict::Test => "TEST",
            Verdict::Refused => "REFUSED",
        };
        let delivery = self.delivery_id.as_deref().map_or("-".to_owned(), plain);
        write!(formatter, "{}  {verdict:<9}  {delivery}  ", self.received_at)?;
        if let Some(attempts) = self.attempts {
            write!(formatter, "attempt {attempts}  ")?;
        }
        write!(formatter, "answer {}", self.status)?;
        if let Some(reason) = &self.reason {
            write!(formatter, "  {}", plain(reason))?;
        }
        self.settlement.as_ref().map_or(Ok(()), |settlement| write_settlement(formatter, settlement))
    }
}

fn write_settlement(formatter: &mut fmt::Formatter<'_>, settlement: &Settlement) -> fmt::Result {
    let outgoing = settlement.outgoing_amount.as_deref().map_or(String::new(), |amount| format!("{amount} "));
    let amounts = format!(
        "{} {} → {outgoing}{}",
        settlement.incoming_amount, settlement.incoming_currency, settlement.outgoing_currency
    );
    let (amounts, settlement_id) = (plain(&amounts), plain(&settlement.settlement_id));
    write!(formatter, "\n    {amounts}  settlement {settlement_id}")?;
    let payin = plain(&settlement.payin_reference);
    let payout = settlement.payout_reference.as_deref().map_or("-".to_owned(), plain);
    let destination = plain(&settlement.destination_reference);
    write!(formatter, "\n    payin {payin}  payout {payout}  destination {destination}")
}

/// Text that a terminal shows and does not obey: references are written by whoever paid.
fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\'' | '\\' => shown.push(character),
            character => shown.extend(character.escape_debug()),
        }
    }
    shown
}

/// How many requests there were, of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    new: u64,
    duplicates: u64,
    tests: u64,
    refused: u64,
}

impl Tally {
    pub(super) fn count(&mut self, verdict: Verdict) {
        let counter = match verdict {
            Verdict::New => &mut self.new,
            Verdict::Duplicate => &mut self.duplicates,
            Verdict::Test => &mut self.tests,
            Verdict::Refused => &mut self.refused,
        };
        *counter = counter.saturating_add(1);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { new, duplicates, tests, refused } = self;
        let received = new + duplicates + tests + refused;
        write!(
            formatter,
            "{received} received: {new} new, {duplicates} duplicate, {tests} test, {refused} refused"
        )
    }
}
