//! What the receiver tells about each request.

use std::fmt;

use serde::Serialize;
use settle_domain::time::Timestamp;
use settle_verify::Settlement;

use super::forward::Forwarded;
use crate::output::harmless_line;

/// Characters of an app's answer that a line shows.
const ANSWER_CHARACTERS_MAX: usize = 200;

/// The verdict on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// A notification of a delivery not seen before.
    New,
    /// A delivery that was seen before.
    Duplicate,
    /// A test delivery.
    Test,
    /// Not a notification that can be trusted.
    Refused,
}

/// One request, as the receiver shows it and prints it as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Arrival {
    /// When the request arrived.
    pub(crate) received_at: Timestamp,
    /// The verdict on it.
    pub(crate) verdict: Verdict,
    /// The id of its delivery; if it is refused, the id that it claims.
    pub(crate) delivery_id: Option<String>,
    /// How many attempts of this delivery have arrived, including this one.
    pub(crate) attempts: Option<u32>,
    /// The status of the answer.
    pub(crate) status: u16,
    /// Why the receiver refuses it.
    pub(crate) reason: Option<String>,
    /// The settlement of the notification.
    pub(crate) settlement: Option<Settlement>,
    /// What the app said to which it was passed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) forwarded: Option<Forwarded>,
}

impl fmt::Display for Arrival {
    /// A line, two more for a settlement, and one for the answer of an app.
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
        if let Some(settlement) = &self.settlement {
            write_settlement(formatter, settlement)?;
        }
        self.forwarded.as_ref().map_or(Ok(()), |forwarded| write_forwarded(formatter, forwarded))
    }
}

fn write_forwarded(formatter: &mut fmt::Formatter<'_>, forwarded: &Forwarded) -> fmt::Result {
    let url = plain(&forwarded.url);
    let Some(status) = forwarded.status else {
        let error = forwarded.error.as_deref().unwrap_or("no answer");
        return write!(formatter, "\n    {url} gave no answer: {}", plain(error));
    };
    write!(formatter, "\n    {url} answered {status}")?;
    let Some(body) = &forwarded.body else {
        return write!(formatter, ", with more than is read here");
    };
    let mut characters = body.trim().chars();
    let shown: String = characters.by_ref().take(ANSWER_CHARACTERS_MAX).collect();
    let more = if characters.next().is_some() { "…" } else { "" };
    if shown.is_empty() { Ok(()) } else { write!(formatter, ": {}{more}", plain(&shown)) }
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

/// Payers write the references, and a terminal must not obey them.
fn plain(text: &str) -> String {
    harmless_line(text).into_owned()
}

/// How many requests of each kind there were.
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
